"""Interval prediction: overlaps by sets of steps, the choice by a loop over all intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hash_model import Hash
from intervals import interval_graph, interval_graphs, random_intervals
from messages import raises
from tempograph import TemporalGraph
from tempograph.data.calendar import years
from tempograph.data.spans import Bounds
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import DataError
from tempograph.evaluation import interval_choice, interval_choice_fit
from tempograph.evaluation.interval_choice import IntervalChooser, fit_chooser, fit_lengths
from tempograph.evaluation.interval_choice_fit import ChooserSummary, fit_interval_choice
from tempograph.evaluation.interval_evaluation import IntervalEvaluation, evaluate_intervals
from tempograph.evaluation.interval_overlap import Intervals, aeiou, giou, interval_metrics, tac
from tempograph.evaluation.probabilities import Calibrator
from tempograph.evaluation.step_density import fit_density
from tempograph.evaluation.step_plausibility import step_plausibility
from tempograph.models.base import CrossFitted
from tempograph.typing import Split

pairs = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted)


def slow_aeiou(one: Sequence[int], other: Sequence[int]) -> float:
    """By sets of steps."""
    a, b = (set(range(start, end + 1)) for start, end in (one, other))
    hull = set(range(min(a | b), max(a | b) + 1))
    return max(1, len(a & b)) / len(hull)


@settings(max_examples=200)
@given(pairs, pairs)
def test_overlaps_equal_counts_of_sets(one: list[int], other: list[int]) -> None:
    a, b = (set(range(start, end + 1)) for start, end in (one, other))
    hull = set(range(min(a | b), max(a | b) + 1))
    first, second = (Intervals(*torch.tensor(pair)) for pair in (one, other))
    assert float(aeiou(first, second)) == pytest.approx(slow_aeiou(one, other))
    expected = len(a & b) / len(a | b) - len(hull - (a | b)) / len(hull)
    assert float(giou(first, second)) == pytest.approx(expected)
    errors = [1 / (1 + abs(one[end] - other[end])) for end in (0, 1)]
    assert float(tac(first, second)) == pytest.approx(sum(errors) / 2)


@settings(max_examples=30)
@given(
    st.sampled_from(["{}", "{}/2050", "{}-07", "{}-07-01"]), st.lists(pairs, min_size=2, max_size=9)
)
def test_tac_counts_years_of_uneven_steps(label: str, bounds: list[list[int]]) -> None:
    """Steps of several years in the labels, some of the same year."""
    at = [1900 + step**2 // 2 for step in range(13)]
    step_years = years([label.format(year) for year in at])
    one, other = Intervals(*torch.tensor(bounds).T), Intervals(*torch.tensor(bounds[::-1]).T)
    slow = [
        np.mean([1 / (1 + abs(at[mine] - at[theirs])) for mine, theirs in zip(a, b, strict=True)])
        for a, b in zip(bounds, bounds[::-1], strict=True)
    ]
    assert tac(one, other, step_years).tolist() == pytest.approx(slow)
    metrics, in_steps = interval_metrics(one, other, step_years), interval_metrics(one, other)
    assert metrics == pytest.approx({**in_steps, "tac": np.mean(slow)})


@pytest.mark.parametrize(
    ("times", "tac_expected"),
    [
        (("2001-01", "2001-12", "2004-05"), (1 / 1 + 1 / 4) / 2),
        (("early", "middle", "late"), (1 / 2 + 1 / 2) / 2),
    ],
)
def test_an_evaluation_counts_tac_in_the_years_of_its_labels(
    times: tuple[str, ...], tac_expected: float
) -> None:
    fact = (0, 0, 1, 0, 1, 0)
    graph = dataclasses.replace(interval_graph([fact], test=[fact], steps=3), times=times)
    evaluation = IntervalEvaluation(
        *("small", "Hash", "test", "strict", graph.test),
        predicted=Intervals(torch.tensor([1]), torch.tensor([2])),
        probability=torch.ones(1),
        left_out=0,
        seconds=0.0,
        graph=graph,
    )
    summary = evaluation.summary()
    assert summary["metrics"]["tac"] == pytest.approx(tac_expected)
    assert summary["kinds"]["closed"]["metrics"]["tac"] == pytest.approx(tac_expected)


def test_overlaps_by_hand() -> None:
    found = interval_metrics(
        Intervals(torch.tensor([3, 10]), torch.tensor([6, 11])),
        Intervals(torch.tensor([5, 13]), torch.tensor([8, 13])),
    )
    # 2 of 6 steps; 1 of 4: 12 is a gap. TAC: 1/3 and 1/3; 1/4 and 1/3.
    assert found == pytest.approx(
        {
            "aeiou@1": (2 / 6 + 1 / 4) / 2,
            "giou@1": (2 / 6 + (0 - 1 / 4)) / 2,
            "tac": (1 / 3 + (1 / 4 + 1 / 3) / 2) / 2,
        }
    )


def model_of(graph: TemporalGraph) -> Hash:
    model = Hash(len(graph.entities))
    model.timeline = Timeline(graph)
    return model


@settings(max_examples=15, deadline=None)
@given(interval_graphs(12), st.integers(1, 400))
def test_plausibility_equals_a_loop(graph: TemporalGraph, budget: int) -> None:
    model, calibrator = model_of(graph), Calibrator(2.0, 0.1)
    found = step_plausibility(
        model, torch.from_numpy(graph.train[:, :3]), calibrator, budget=budget
    )
    assert found.shape == (len(graph.train), len(graph.times))
    for row, (s, r, o) in enumerate(graph.train[:, :3].tolist()):
        for step in range(len(graph.times)):
            sides = []
            for entity, relation, answer in ((s, r, o), (o, r + len(graph.relations), s)):
                query = Queries(*(torch.tensor([part]) for part in (entity, relation, step)))
                sides.append(float(calibrator.log_probs(model.scores(query))[0, answer]))
            assert float(found[row, step]) == pytest.approx(sum(sides) / 2)


def slow_choice(
    chooser: IntervalChooser, plausibility: list[float], relation: int
) -> dict[tuple[int, int], float]:
    """The probability of each (start, end)."""
    steps, lengths = len(plausibility), chooser.lengths.steps.tolist()
    candidates = [
        *((a, a + length - 1, k) for a in range(steps) for k, length in enumerate(lengths)),
        *((a, steps - 1, len(lengths)) for a in range(steps)),
        *((0, b, len(lengths) + 1) for b in range(steps)),
    ]
    candidates = [each for each in candidates if each[1] < steps]
    best, weight = max(plausibility), {}
    for start, end, kind in candidates:
        gain = sum(
            chooser.sharpness * (plausibility[t] - best) + chooser.threshold
            for t in range(start, end + 1)
        )
        alike = sum(each[2] == kind for each in candidates)
        prior = math.exp(float(chooser.lengths.log_prob[relation, kind])) / alike
        weight[start, end] = weight.get((start, end), 0) + prior * math.exp(gain)
    total = sum(weight.values())
    return {each: value / total for each, value in weight.items()}


@settings(max_examples=25, deadline=None)
@given(interval_graphs(), st.sampled_from([0.3, 1.0]), st.sampled_from([0.0, 0.5]))
def test_the_best_interval_equals_a_loop_over_all(
    graph: TemporalGraph, sharpness: float, threshold: float
) -> None:
    chooser = IntervalChooser(fit_lengths(Timeline(graph)), sharpness, threshold)
    rng = np.random.default_rng(0)
    plausibility = torch.from_numpy(-rng.exponential(size=(3, len(graph.times))))
    relation = torch.from_numpy(rng.integers(0, len(graph.relations), 3))
    intervals, log_probs = chooser.log_probs(plausibility, relation)
    best = chooser.best(plausibility, relation, top=2)
    for row in range(3):
        slow = slow_choice(chooser, plausibility[row].tolist(), int(relation[row]))
        found = sorted(
            zip(*(each.tolist() for each in (*intervals, log_probs[row].exp())), strict=True)
        )
        assert {each[:2]: each[2] for each in found} == pytest.approx(slow)
        assert len(found) == len(slow) and sum(p for *_, p in found) == pytest.approx(1)
        likely = sorted(slow.items(), key=lambda pair: -pair[1])[:64]
        total = sum(p for _, p in likely)
        overlap = {
            one: sum(p * slow_aeiou(one, other) for other, p in likely) / total for one, _ in likely
        }
        if len(slow) <= 64:
            # Beyond that, equally likely intervals may be left out.
            assert float(best.overlap[row, 0]) == pytest.approx(max(overlap.values()))
            chosen = int(best.intervals.start[row, 0]), int(best.intervals.end[row, 0])
            assert overlap[chosen] == pytest.approx(max(overlap.values()))


def test_lengths_of_relations_are_told_apart() -> None:
    graph = interval_graph(
        [(0, 0, 1, a, a + 1, 0) for a in range(20)]
        + [(0, 1, 1, a, a + 9, 0) for a in range(20)]
        + [(0, 1, 2, a, 39, Bounds.OPEN_END) for a in range(20)],
        relations=2,
        steps=40,
    )
    lengths = fit_lengths(Timeline(graph))
    assert lengths.steps.tolist() == [2, 10]
    short, long = lengths.log_prob.exp().tolist()
    assert short[0] > 0.8 and long[1] == pytest.approx(long[2], abs=0.01) and long[1] > 0.4
    assert torch.allclose(lengths.log_prob.exp().sum(1), torch.ones(2, dtype=torch.float64))


def test_intervals_of_many_facts_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 64 most likely intervals are compared with each other, also on a short time axis."""
    rng, compared = np.random.default_rng(5), list[int]()

    def counting(one: Intervals, other: Intervals) -> torch.Tensor:
        overlap = aeiou(one, other)
        compared.append(overlap.numel())
        return overlap

    graph = interval_graph(random_intervals(rng, 60, 4, 2, 12), steps=12)
    chooser = IntervalChooser(fit_lengths(Timeline(graph)))
    plausibility = torch.from_numpy(-rng.exponential(size=(50, 12)))
    relation = torch.from_numpy(rng.integers(0, 2, 50))
    whole = chooser.best(plausibility, relation)
    monkeypatch.setattr(interval_choice, "aeiou", counting)
    monkeypatch.setattr(interval_choice, "_CELLS", 10 * 64**2)
    parts = chooser.best(plausibility, relation)
    assert len(compared) == 5 and max(compared) <= 10 * 64**2
    assert torch.equal(parts.intervals.start, whole.intervals.start)
    assert torch.equal(parts.overlap, whole.overlap)


def test_facts_with_unknown_bounds_have_no_interval_to_compare_with() -> None:
    known = [(0, 0, 1, 0, 2, 0), (1, 0, 2, 1, 3, 0)]
    graph = interval_graph(known, known[:1], [(1, 1, 3, 2, 2, Bounds.UNKNOWN_END)])
    choice = ChooserSummary(sharpness=1.0, threshold=0.3, facts=0)
    with raises(DataError, "interval_evaluation.no_known", graph="small", split="test"):
        evaluate_intervals(model_of(graph), graph, "test", "strict", Calibrator(), choice)


def test_clear_intervals_are_found() -> None:
    rng = np.random.default_rng(3)
    facts = random_intervals(rng, 200, 6, 2, 30)
    facts = facts[facts[:, 5] == 0]
    graph = interval_graph(facts, entities=6, steps=30)
    start, end = torch.from_numpy(facts[:40, 3]), torch.from_numpy(facts[:40, 4])
    step = torch.arange(30)
    inside = (start[:, None] <= step) & (step <= end[:, None])
    plausibility = torch.where(inside, 0.0, -5.0).double()
    relation, true = torch.from_numpy(facts[:40, 1]), Intervals(start, end)
    chooser = fit_chooser(fit_lengths(Timeline(graph)), plausibility, relation, true)
    found = chooser.best(plausibility, relation).intervals
    exact = (found.start[:, 0] == start) & (found.end[:, 0] == end)
    assert exact.double().mean() > 0.9
    guess = chooser.best(torch.zeros_like(plausibility), relation).intervals
    reached = [
        float(aeiou(Intervals(each.start[:, 0], each.end[:, 0]), true).mean())
        for each in (found, guess)
    ]
    assert reached[0] > 0.95 > 0.6 > reached[1]


def test_an_evaluation_measures_facts_with_known_bounds() -> None:
    rng = np.random.default_rng(4)
    facts = np.unique(random_intervals(rng, 80, 6, 2, 12), axis=0)
    graph = interval_graph(facts[:40], facts[40:60], facts[60:], entities=6, steps=12, first=1990)
    model, calibrator = model_of(graph), Calibrator()
    choice = fit_interval_choice(model, graph, calibrator)
    evaluation = evaluate_intervals(model, graph, "test", "strict", calibrator, choice)
    summary = evaluation.summary()
    assert "note" not in summary
    known = [row for row in graph.test.tolist() if row[5] < Bounds.UNKNOWN_START]
    assert summary["facts"] == len(known) and summary["left_out"] == len(graph.test) - len(known)
    rows = evaluation.to_arrow().to_pylist()
    steps = {label: step for step, label in enumerate(graph.times)}
    measured = []
    for row, fact in zip(rows, known, strict=True):
        assert [steps[row["start"]], steps[row["end"]]] == fact[3:5]
        predicted = [steps[row["predicted_start"]], steps[row["predicted_end"]]]
        measured.append(slow_aeiou(predicted, fact[3:5]))
        assert row["aeiou"] == pytest.approx(measured[-1]) and 0 < row["probability"] <= 1
    assert summary["metrics"]["aeiou@1"] == pytest.approx(np.mean(measured))
    assert sum(each["facts"] for each in summary["kinds"].values()) == len(known)


class HalvesModel(Hash):
    """Scores that were fitted on valid, with others for each half of it."""

    timeline: Timeline

    def cross_fitted(self, split: Split, num_facts: int) -> CrossFitted | None:
        if split != "valid":
            return None
        scorers = (lambda queries: 3 * self.scores(queries), lambda queries: -self.scores(queries))
        return CrossFitted(scorers, torch.arange(num_facts) // 3 % 2, "cross-fitted gate")


@pytest.mark.parametrize("kind", [Hash, HalvesModel])
@pytest.mark.parametrize("max_fitted", [7, 300])
def test_valid_facts_are_not_measured_with_what_was_fitted_on_them(
    kind: type[Hash], max_fitted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against one fact at a time: fitted on the other half, and scored by what it did not fit."""
    monkeypatch.setattr(interval_choice_fit, "_MAX_FITTED", max_fitted)
    monkeypatch.setattr(interval_choice, "_CONSIDERED", 8)
    facts = np.unique(random_intervals(np.random.default_rng(8), 90, 6, 2, 12), axis=0)
    graph = interval_graph(facts[:40], facts[40:], entities=6, steps=12)
    model, calibrator = kind(6), Calibrator(0.3)
    model.timeline = Timeline(graph)
    choice = fit_interval_choice(model, graph, calibrator)
    known = [row for row, fact in enumerate(graph.valid) if fact[5] < Bounds.UNKNOWN_START]
    places = np.linspace(0, len(known) - 1, choice["facts"]).round().astype(int).tolist()
    assert choice["facts"] == min(max_fitted, len(known)) == len(set(places))
    cross_fitted = model.cross_fitted("valid", len(graph.valid))

    def plausibility(row: int) -> torch.Tensor:
        scorer = None
        if cross_fitted is not None:
            scorer = cross_fitted.scorers[int(cross_fitted.scorer[row])]
        triple = torch.from_numpy(graph.valid[[row], :3])
        return step_plausibility(model, triple, calibrator, scorer=scorer)

    lengths, density = fit_lengths(model.timeline), fit_density(model.timeline)

    def fitted_on(own: list[int]) -> IntervalChooser:
        rows = torch.from_numpy(graph.valid[[known[place] for place in own]])
        scores = torch.cat([plausibility(known[place]) for place in own])
        true = Intervals(rows[:, 3], rows[:, 4])
        return fit_chooser(lengths, scores, rows[:, 1], true, density=density)

    whole, *others = (fitted_on(own) for own in (places, places[1::2], places[::2]))
    evaluation = evaluate_intervals(model, graph, "valid", "strict", calibrator, choice)
    for place, row in enumerate(known):
        chooser = others[places.index(place) % 2] if place in places else whole
        relation = torch.from_numpy(graph.valid[[row], 1])
        best = chooser.best(plausibility(row), relation)
        assert [int(each[place]) for each in evaluation.predicted] == [
            int(each) for each in best.intervals
        ]
        assert float(evaluation.probability[place]) == pytest.approx(float(best.probability))
    assert evaluation.note is not None and "each half" in evaluation.note
    assert ("cross-fitted gate" in evaluation.note) == (kind is HalvesModel)
    # What was stored before there were halves is said to have been fitted on the facts.
    del choice["halves"]
    before = evaluate_intervals(model, graph, "valid", "strict", calibrator, choice)
    assert before.note is not None and "was fitted on some of these facts" in before.note
