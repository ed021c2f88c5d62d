"""The gate of an ensemble and its fit, with made-up parts."""

from __future__ import annotations

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from graphs import graphs, make_graph
from messages import raises
from tempograph import TemporalGraph
from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import Queries, Timeline, both_directions
from tempograph.device import MEMORY_BUDGETS, Budget
from tempograph.errors import ConfigError
from tempograph.evaluation.calibration import calibrate, score_valid
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.models.base import Evidence, Model
from tempograph.models.ensemble.ensemble_gate import EnsembleGate, PartOutputs
from tempograph.models.ensemble.ensemble_model import Ensemble, assign_halves, shuffle_facts
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings, part_names
from tempograph.models.pointer.pointer_model import Pointer, PointerSettings
from tempograph.models.ted import TED
from tempograph.training import ensemble_fit
from tempograph.training.ensemble_fit import collect_examples, fit_ensemble, mrr, weights_table

SETTINGS = EnsembleSettings(parts=("a", "b"), fit_on="valid", window=2, hidden=4)


class Table(Model):
    """A part that reads its scores from a table of (entity, relation, time)."""

    bytes_per_candidate = 8
    probabilistic = True
    device = torch.device("cpu")

    def __init__(self, table: Tensor, name: str = "table") -> None:
        super().__init__()
        self.table, self.name = table, name

    def scores(self, queries: Queries) -> Tensor:
        return self.table[queries.entity, queries.relation, queries.time]

    def evidence(self, query: Queries, answer: int) -> Evidence:
        return Evidence("so it says", torch.empty(0, 4, dtype=torch.int64), None)


def tables(graph: TemporalGraph, seed: int, count: int = 2) -> list[Table]:
    entities, relations, _, steps = graph.sizes
    generator = torch.Generator().manual_seed(seed)
    shape = (entities, 2 * relations, steps, entities)
    return [
        Table(torch.randn(shape, generator=generator), f"part {number}") for number in range(count)
    ]


def make_ensemble(
    graph: TemporalGraph, parts: list[Table], settings: EnsembleSettings = SETTINGS
) -> Ensemble:
    return Ensemble(Timeline(graph), settings, "ensemble", *parts)


def randomize(gate: torch.nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in gate.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) / 2)


def test_a_gate_by_hand() -> None:
    gate = EnsembleGate(query_features=2, parts=2, hidden=1)
    assert torch.equal(gate(torch.randn(3, 2)), torch.full((3, 2), 0.5)), (
        "equal shares before it is fitted"
    )
    values = {
        "first": [[1.0], [-2.0]],
        "first_bias": [0.5],
        "second": [[2.0, -1.0]],
        "second_bias": [0.0, 1.0],
        "log_sharpness": math.log(3),
        "centre": [1.0, 0.0],
        "spread": [2.0, 1.0],
    }
    gate.load_state_dict({name: torch.tensor(value) for name, value in values.items()})
    hidden = math.tanh((5 - 1) / 2 * 1 + 0.25 * -2 + 0.5)
    first, second = math.exp(2 * hidden), math.exp(-hidden + 1)
    expected = [3 * first / (first + second), 3 * second / (first + second)]
    assert_close(gate(torch.tensor([[5.0, 0.25]])), torch.tensor([expected]))


@given(graphs(), st.integers(0, 99))
def test_scores_equal_a_slow_loop(graph: TemporalGraph, seed: int) -> None:
    parts = tables(graph, seed)
    ensemble = make_ensemble(graph, parts)
    randomize(ensemble.gate, seed)
    entities, relations, _, steps = graph.sizes
    rng = np.random.default_rng(seed)
    rows_asked = rng.integers(0, [entities, 2 * relations, steps], (5, 3))
    actual = ensemble.scores(Queries(*torch.from_numpy(rows_asked).unbind(1)))
    for row, (entity, relation, time) in enumerate(rows_asked.tolist()):
        side, plain = divmod(relation, relations)
        seen = []
        for reach in (steps, SETTINGS.window):
            near = [
                (fact[2 * side] == entity, fact[1] == plain)
                for fact in graph.train.tolist()
                if fact[3] != time and abs(fact[3] - time) <= reach
            ]
            counts = (
                sum(one for one, _ in near),
                sum(other for _, other in near),
                sum(all(both) for both in near),
            )
            seen += [math.log1p(count) for count in counts]
        seen.append(side)
        part_log_probs = []
        for part in parts:
            scores = part.table[entity, relation, time].tolist()
            total = math.log(sum(math.exp(score) for score in scores))
            part_log_probs.append([score - total for score in scores])
            best = sorted(part_log_probs[-1], reverse=True)
            seen += [best[0], best[0] - best[min(1, entities - 1)]]
        weights = ensemble.gate(torch.tensor([seen], dtype=torch.float32))[0].tolist()
        for candidate in range(entities):
            expected = sum(
                weight * opinion[candidate]
                for weight, opinion in zip(weights, part_log_probs, strict=True)
            )
            assert float(actual[row, candidate]) == pytest.approx(expected, abs=1e-4)


def test_an_answer_that_a_part_rules_out_is_left_to_the_others() -> None:
    graph = make_graph([(0, 0, 1, 0)])
    parts = tables(graph, 0)
    parts[0].table[..., 2:] = -math.inf
    scores = make_ensemble(graph, parts).scores(Queries(*torch.tensor([[0], [0], [0]])))[0]
    other = parts[1].table[0, 0, 0]
    assert scores.isfinite().all() and (scores[2] > scores[3]) == (other[2] > other[3])
    assert scores[:2].min() > scores[2:].max()


def test_memory_is_that_of_all_parts() -> None:
    graph = make_graph([(0, 0, 1, 0)])
    assert (
        make_ensemble(graph, tables(graph, 0, 3)).bytes_per_candidate
        > 3 * Table.bytes_per_candidate
    )


def test_evidence_comes_from_the_part_with_the_largest_weight() -> None:
    graph = make_graph([(0, 0, 1, 0)])
    ensemble = make_ensemble(graph, tables(graph, 0))
    for favoured in (0, 1):
        with torch.no_grad():
            ensemble.gate.second_bias.copy_(torch.eye(2)[favoured])
        assert (
            ensemble.evidence(Queries(*torch.tensor([[0], [0], [0]])), 1).reason
            == f"part {favoured}: so it says"
        )


def test_parts_must_be_probabilistic_and_not_ensembles() -> None:
    graph = make_graph([(0, 0, 1, 0)])
    timeline, part = Timeline(graph), tables(graph, 0)[0]
    with raises(ConfigError, "ensemble_model.no_probabilities", model="ensemble", part="ted"):
        Ensemble(timeline, SETTINGS, "ensemble", part, TED(timeline, 1.0))
    with raises(ConfigError, "ensemble_model.fitted_part", model="other", part="ensemble"):
        Ensemble(timeline, SETTINGS, "other", part, make_ensemble(graph, tables(graph, 0)))
    with raises(ConfigError, "ensemble_settings.common_neighbors", value=0):
        EnsembleSettings(parts=("a",), common_neighbors=True)
    with raises(ConfigError, "ensemble_settings.no_parts"):
        EnsembleSettings()
    for share in (0.0, 1.0):
        bounds = {"setting": "holdout", "bounds": "above 0 and below 1", "value": share}
        with raises(ConfigError, "typing.bounds", **bounds):
            EnsembleSettings(parts=("a",), holdout=share)


def test_weights_of_earlier_versions_load() -> None:
    graph = make_graph([(0, 0, 1, 0)])
    ensemble, other = (make_ensemble(graph, tables(graph, 0), WITH_CORRECTION) for _ in range(2))
    randomize(ensemble, 1)
    earlier = {
        "half_gates.": "without.",
        "correction.part_log_probs": "of_candidate.opinions",
        "correction.candidate_features": "of_candidate.told",
        "correction.query_features": "of_candidate.seen",
        "correction.": "of_candidate.",
    }
    state = {}
    for name, value in ensemble.state_dict().items():
        for new, old in earlier.items():
            name = name.replace(new, old)
        state[name] = value
    assert {"without.1.of_candidate.told", "gate.of_candidate.out"} <= state.keys()
    state |= {"usual": torch.ones(2)}
    other.load_state_dict(state)
    assert_close(other.state_dict(), ensemble.state_dict(), rtol=0, atol=0)


def test_part_names_are_unique() -> None:
    parts = ["complex", "complex:tuned", "temp-gru:my/tiny.toml", "runs/a", "other/a/", "a-2", ".."]
    assert part_names(parts) == ["complex", "complex-2", "temp-gru", "a", "a-2", "a-2-2", "part"]


@settings(max_examples=20)
@given(graphs(), st.integers(0, 99), st.integers(1, 4), st.booleans())
def test_examples_equal_a_slow_loop(
    graph: TemporalGraph, seed: int, most: int, with_correction: bool
) -> None:
    """The answer and the best of each part, each once, without other true answers.

    If the gate looks at candidates, only queries whose answer is among the best of a part.
    """
    settings_ = EnsembleSettings(
        parts=("a", "b"), candidates=most, candidate_hidden=int(with_correction)
    )
    ensemble = make_ensemble(graph, tables(graph, seed), settings_)
    facts = torch.from_numpy(graph.all_facts)
    examples = collect_examples(ensemble, facts, KnownAnswers.from_graph(graph))
    right = {tuple(fact) for fact in graph.all_facts.tolist()}
    relations = len(graph.relations)
    rows_asked = both_directions(facts, relations).tolist()

    def is_right(entity: int, relation: int, answer: int, time: int) -> bool:
        fact = (entity, relation, answer, time)
        return (
            fact if relation < relations else (answer, relation - relations, entity, time)
        ) in right

    expected = []
    for number, (entity, relation, answer, time) in enumerate(rows_asked):
        query = Queries(*torch.tensor([[entity], [relation], [time]]))
        part_log_probs = ensemble.part_outputs(query).part_log_probs[0].T
        others = [
            e
            for e in range(len(graph.entities))
            if e == answer or not is_right(entity, relation, e, time)
        ]
        best = [
            sorted(others, key=lambda e: -float(log_probs[e]))[:most]
            for log_probs in part_log_probs
        ]
        chosen = {answer, *(e for part in best for e in part)} - {answer}
        rows = sorted(tuple(part_log_probs[:, e].tolist()) for e in chosen)
        if with_correction and not any(answer in part for part in best):
            continue
        expected.append((number % len(facts), tuple(part_log_probs[:, answer].tolist()), rows))
    actual = []
    for _, values, _, excluded, fact in zip(*examples, strict=True):
        assert not excluded[0]
        rows = [
            tuple(row)
            for row, gone in zip(values.tolist(), excluded.tolist(), strict=True)
            if not gone
        ]
        actual.append((int(fact), rows[0], sorted(rows[1:])))
    assert sorted(actual) == sorted(expected)


def frequent_and_rare() -> tuple[TemporalGraph, list[Table]]:
    """Frequent pairs and new ones, and two parts that are each right for one kind, always sure."""
    rng = np.random.default_rng(0)
    entities, relations, steps = 40, 2, 30
    often = [(s, 0, int(rng.integers(entities)), t) for s in range(20) for t in range(0, steps, 2)]
    facts = {
        (int(rng.integers(20)), 0, int(rng.integers(20, entities)), int(rng.integers(steps)))
        for _ in range(400)
    }
    facts |= {
        (int(rng.integers(20)), 1, int(rng.integers(20, entities)), int(rng.integers(steps)))
        for _ in range(400)
    }
    rest = rng.permutation(np.array(sorted(facts - set(often))))
    graph = make_graph(often, rest[:400], rest[400:], entities, relations, steps)
    shape = (entities, 2 * relations, steps, entities)
    parts = []
    for good_at in (0, 1):
        table = torch.zeros(shape)
        sure_of = torch.from_numpy(rng.integers(0, entities, shape[:3]))
        table.scatter_(3, sure_of[..., None], 6.0)
        known = both_directions(torch.from_numpy(rest[rest[:, 1] == good_at]), relations)
        table[known[:, 0], known[:, 1], known[:, 3]] = 0.0
        table[known[:, 0], known[:, 1], known[:, 3], known[:, 2]] = 6.0
        parts.append(Table(table, f"good at {good_at}"))
    return graph, parts


def test_the_gate_learns_when_each_part_is_right() -> None:
    graph, parts = frequent_and_rare()
    ensemble = make_ensemble(graph, parts)
    lines: list[dict[str, float]] = []
    told = fit_ensemble(ensemble, graph, 0, lines.append)
    alone = [
        evaluate_model(part, graph, "test", "strict").summary()["metrics"]["mrr"] for part in parts
    ]
    valid, test = (
        evaluate_model(ensemble, graph, split, "strict").summary() for split in ("valid", "test")
    )
    assert max(alone) < 0.7 < 0.9 < test["metrics"]["mrr"]
    assert valid["metrics"]["mrr"] > 0.9 and "cross-fitted" in valid["note"]
    assert test["note"] == "the gate of the ensemble was fitted on valid facts (fit_on=valid)"
    assert (told["fitted_on"], told["facts"]) == ("valid", len(graph.valid))
    rare, *_, frequent = told["weights"]
    assert (
        rare["frequency"] == "0" and rare["b"] > 3 * rare["a"] and frequent["a"] > 3 * frequent["b"]
    )
    assert sum(row["questions"] for row in told["weights"]) == 2 * len(graph.valid)
    assert [line.get("half") for line in lines] == [1, 2, None]


def test_test_facts_change_neither_the_gate_nor_the_temperature() -> None:
    graph, parts = frequent_and_rare()
    beside = graph.valid.copy()
    beside[:, 2] = (beside[:, 2] + 1) % len(graph.entities)
    actual = []
    for each in (graph, dataclasses.replace(graph, test=beside)):
        ensemble = make_ensemble(
            each, parts, EnsembleSettings(parts=("a", "b"), fit_on="valid", steps=40)
        )
        fit_ensemble(ensemble, each, 0, lambda line: None)
        actual.append(
            (ensemble.state_dict(), calibrate(score_valid(ensemble, each, "strict"))["temperature"])
        )
    assert_close(actual[0], actual[1], rtol=0, atol=0)


def test_a_gate_without_examples_keeps_equal_weights() -> None:
    """No part has the only answer of valid among its best, and the gate looks at candidates."""
    graph = make_graph(
        [(0, 0, 1, 0), (1, 0, 2, 1)], valid=[(0, 0, 3, 1)], entities=5, relations=1, steps=2
    )
    table = torch.zeros(5, 2, 2, 5)
    table[0, 0, 1, 3] = table[3, 1, 1, 0] = -9.0
    settings = EnsembleSettings(parts=("a", "b"), candidates=1, candidate_hidden=4)
    ensemble = make_ensemble(graph, [Table(table, "a"), Table(table, "b")], settings)
    assert fit_ensemble(ensemble, graph, 0, lambda line: None)["steps"] == 0
    features = torch.zeros(1, 11)
    assert ensemble.gate(features).tolist() == [[0.5, 0.5]]


def test_a_gate_never_ranks_a_fact_it_was_fitted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, parts = frequent_and_rare()
    ensemble = make_ensemble(
        graph, parts, EnsembleSettings(parts=("a", "b"), fit_on="valid", steps=40)
    )
    fitted: list[tuple[EnsembleGate, set[int]]] = []
    gradient_steps = ensemble_fit.gradient_steps

    def watched(gate: EnsembleGate, examples: ensemble_fit.GateExamples, *rest: object) -> object:
        fitted.append((gate, set(examples.fact.tolist())))
        return gradient_steps(gate, examples, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ensemble_fit, "gradient_steps", watched)
    fit_ensemble(ensemble, graph, 7, lambda _: None)
    half = assign_halves(len(graph.valid), 7)
    assert abs(int((half == 0).sum()) - int((half == 1).sum())) <= 1
    first, second, final = (facts for _, facts in fitted)
    assert first == set((half == 1).nonzero()[:, 0].tolist()) and second == set(
        (half == 0).nonzero()[:, 0].tolist()
    )
    assert final == first | second == set(range(len(graph.valid)))

    ranked: list[tuple[torch.nn.Module, Tensor]] = []
    combine = ensemble.combine

    def recording(queries: Queries, gate: torch.nn.Module) -> Tensor:
        ranked.append((gate, torch.stack(queries, 1)))
        return combine(queries, gate)

    monkeypatch.setattr(ensemble, "combine", recording)
    evaluate_model(ensemble, graph, "valid", "strict")
    assert len(ranked) == 2 and {id(gate) for gate, _ in ranked} == {
        id(gate) for gate in ensemble.half_gates
    }
    for gate, rows_asked in ranked:
        own = half == [id(other) for other in ensemble.half_gates].index(id(gate))
        facts = torch.from_numpy(graph.valid)[own]
        expected = torch.cat(
            [facts[:, [0, 1, 3]], torch.stack([facts[:, 2], facts[:, 1] + 2, facts[:, 3]], 1)]
        )
        assert sorted(rows_asked.tolist()) == sorted(expected.tolist())
    ranked.clear()
    evaluate_model(ensemble, graph, "test", "strict")
    assert {id(gate) for gate, _ in ranked} == {id(ensemble.gate)}


def test_the_gate_for_test_takes_as_many_steps_as_the_two_for_valid_on_average(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, parts = frequent_and_rare()
    steps, lines = iter([10.0, 25.0]), list[dict[str, float]]()
    monkeypatch.setattr(
        ensemble_fit, "_fit_until_best", lambda gate, *_: (gate, {"steps": next(steps)})
    )
    told = fit_ensemble(make_ensemble(graph, parts), graph, 0, lines.append)
    assert [line["steps"] for line in lines] == [10, 25, 18] and told["steps"] == 18


def test_fitting_stops_after_its_patience_and_returns_the_best_gate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, parts = frequent_and_rare()
    ensemble = make_ensemble(graph, parts)
    examples = collect_examples(
        ensemble, torch.from_numpy(graph.valid), KnownAnswers.from_train_and_valid(graph)
    )
    seen: list[dict[str, Tensor]] = []

    def scripted(gate: EnsembleGate, other: ensemble_fit.GateExamples) -> float:
        seen.append(copy.deepcopy(gate.state_dict()))
        return min(rises, len(seen) - 1) / 10

    monkeypatch.setattr(ensemble_fit, "mrr", scripted)
    for rises in (0, 2):
        seen.clear()
        best, line = ensemble_fit._fit_until_best(
            ensemble.new_gate(0), examples, examples, ensemble.settings, 0
        )
        assert line["steps"] == 20 * rises and line["mrr"] == rises / 10
        assert len(seen) == 1 + rises + 15, "fifteen looks without a better one are enough"
        assert_close(dict(best.state_dict()), seen[rises], rtol=0, atol=0)
        assert not torch.equal(seen[rises]["first"], seen[rises + 1]["first"])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_very_few_valid_facts_are_enough(count: int) -> None:
    graph = make_graph([(0, 0, 1, 0)], valid=[(0, 0, 1, time) for time in range(1, 1 + count)])
    ensemble = make_ensemble(graph, tables(graph, 0))
    fit_ensemble(ensemble, graph, 0, lambda _: None)
    assert evaluate_model(ensemble, graph, "valid", "strict").summary()["facts"] == count


def test_a_gate_is_fitted_on_at_most_max_facts() -> None:
    graph, parts = frequent_and_rare()
    ensemble = make_ensemble(
        graph, parts, EnsembleSettings(parts=("a", "b"), fit_on="valid", steps=20, max_facts=60)
    )
    told = fit_ensemble(ensemble, graph, 0, lambda _: None)
    assert sum(row["questions"] for row in told["weights"]) == 120
    chosen = assign_halves(len(graph.valid), 0)[shuffle_facts(len(graph.valid), 0)[:60]]
    assert int(chosen.sum()) == 30


def test_the_same_seed_gives_the_same_gates() -> None:
    graph, parts = frequent_and_rare()
    states = []
    for seed in (0, 0, 1):
        ensemble = make_ensemble(
            graph, parts, EnsembleSettings(parts=("a", "b"), fit_on="valid", steps=40)
        )
        fit_ensemble(ensemble, graph, seed, lambda _: None)
        states.append(ensemble.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not all(torch.equal(states[0][name], states[2][name]) for name in states[0])


def test_reciprocal_ranks_and_the_table_of_weights_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = EnsembleGate(query_features=1, parts=1, hidden=1)
    part_log_probs = torch.tensor([[[0.0], [1.0], [0.0], [9.0]], [[5.0], [1.0], [1.0], [1.0]]])
    excluded = torch.tensor([[False, False, False, True], [False] * 4])
    kept = ensemble_fit.GateExamples(
        torch.zeros(2, 1), part_log_probs, part_log_probs[:, :, :0], excluded, torch.arange(2)
    )
    assert mrr(gate, kept) == pytest.approx((1 / 2.5 + 1) / 2)
    monkeypatch.setattr(ensemble_fit, "_BATCH_SIZE", 1)
    assert mrr(gate, kept) == pytest.approx((1 / 2.5 + 1) / 2)
    rows = weights_table(
        torch.tensor([0, 2, 3, 300]), torch.tensor([[1.0], [2.0], [4.0], [8.0]]), ["a"]
    )
    assert rows == [
        {"frequency": "0", "questions": 1, "a": 1.0},
        {"frequency": "1-3", "questions": 2, "a": 3.0},
        {"frequency": "256+", "questions": 1, "a": 8.0},
    ]


WITH_CORRECTION = dataclasses.replace(
    SETTINGS, candidates=5, candidate_hidden=3, common_neighbors=True
)


def test_correction_of_a_candidate_by_hand() -> None:
    gate = EnsembleGate(
        query_features=1, parts=2, hidden=1, candidate_hidden=1, candidate_features=3
    )
    part_log_probs, features = torch.tensor([[[-1.0, -99.0], [-2.0, -3.0]]]), torch.ones(1, 2, 3)
    assert_close(
        gate.combine(PartOutputs(part_log_probs, torch.ones(1, 1), features)),
        part_log_probs.mean(2),
        msg="nothing before it is fitted",
    )
    assert gate.correction is not None
    with torch.no_grad():
        for name, value in {
            "part_log_probs": [[0.5], [0.25]],
            "query_features": [[2.0]],
            "bias": [-0.5],
            "out": [3.0],
        }.items():
            gate.correction[name].copy_(torch.tensor(value))
        gate.correction["candidate_features"].copy_(torch.eye(3)[0][:, None])
    expected = [
        (-1 - 99) / 2 + 3 * math.tanh(0.5 * -1 / 5 + 0.25 * -20 / 5 + 1 / 3 + 2 * 0.1 - 0.5),
        (-2 - 3) / 2 + 3 * math.tanh(0.5 * -2 / 5 + 0.25 * -3 / 5 + 1 / 3 + 2 * 0.1 - 0.5),
    ]
    assert_close(
        gate.combine(PartOutputs(part_log_probs, torch.full((1, 1), 0.1), features)),
        torch.tensor([expected]),
    )


def test_a_correction_learns_what_the_parts_do_not_know() -> None:
    """Who met before meets again, and the parts are noise."""
    rng = np.random.default_rng(0)
    pairs = {(s, 0, 20 + s, t) for s in range(20) for t in range(20)}
    facts = rng.permutation(np.array(sorted(pairs)))
    graph = make_graph(facts[:200], facts[200:300], facts[300:], 40, 1, 20)
    figures = []
    for settings_ in (SETTINGS, dataclasses.replace(WITH_CORRECTION, candidates=40)):
        ensemble = make_ensemble(graph, tables(graph, 0), settings_)
        fit_ensemble(ensemble, graph, 0, lambda _: None)
        figures.append(
            evaluate_model(ensemble, graph, "test", "strict").summary()["metrics"]["mrr"]
        )
    assert figures[0] < 0.2 and figures[1] > 0.9


def test_an_answer_outside_the_best_candidates_is_not_an_example() -> None:
    """With parts that are noise and facts of chance there is nothing to learn."""
    rng = np.random.default_rng(1)
    facts = np.unique(rng.integers(0, [40, 2, 40, 30], (1500, 4)), axis=0)
    facts = rng.permutation(facts[facts[:, 0] != facts[:, 2]])
    graph = make_graph(facts[:400], facts[400:900], facts[900:], 40, 2, 30)
    ensemble = make_ensemble(graph, tables(graph, 3), WITH_CORRECTION)
    fit_ensemble(ensemble, graph, 0, lambda _: None)
    chance = sum(1 / rank for rank in range(1, 41)) / 40
    for split in ("valid", "test"):
        assert (
            evaluate_model(ensemble, graph, split, "strict").summary()["metrics"]["mrr"]
            < 1.25 * chance
        )


@given(graphs(), st.integers(0, 99))
def test_counterfactual_scores_equal_those_of_a_graph_without_the_fact(
    graph: TemporalGraph, seed: int
) -> None:
    timeline = Timeline(graph)
    settings_ = EnsembleSettings(parts=("pointer",), window=2, hidden=4, candidate_hidden=3)
    pointer = Pointer(timeline, PointerSettings())
    ensemble = Ensemble(timeline, settings_, "other", pointer)
    randomize(ensemble, seed)
    with torch.no_grad():
        ensemble.gate.centre.zero_()
        ensemble.gate.spread.fill_(1.0)
    query = Queries(
        *torch.tensor([[0], [seed % (2 * len(graph.relations))], [seed % len(graph.times)]])
    )
    everyone = torch.arange(len(graph.entities))
    left_out = torch.arange(min(4, len(timeline.facts) - 1))
    actual = ensemble.counterfactual_scores(query, left_out, everyone)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MEMORY_BUDGETS, "counterfactual", Budget(1, 0))
        one_by_one = ensemble.counterfactual_scores(query, left_out, everyone)
    assert actual is not None and one_by_one is not None
    assert_close(one_by_one, actual, rtol=1e-4, atol=1e-4)
    assert_close(actual[:1], ensemble.scores(query), rtol=1e-4, atol=1e-4)
    for row, gone in enumerate(left_out.tolist()):
        rest = torch.cat([timeline.facts[:gone], timeline.facts[gone + 1 :]]).numpy()
        without = dataclasses.replace(graph, train=rest)
        scores = ensemble.with_timeline(Timeline(without)).scores(query)
        assert_close(actual[1 + row], scores[0], rtol=1e-3, atol=1e-3)
