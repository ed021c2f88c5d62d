"""TED against a sum over every fact, one question at a time, and against the published figures."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import oracle
from conftest import benchmark
from graphs import graphs, make_graph
from memory import PeakMemory
from messages import raises
from tempograph import TemporalGraph
from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import Queries, Timeline, both_directions
from tempograph.errors import ConfigError
from tempograph.evaluation.evaluator import evaluate_model, rank_facts
from tempograph.models.decayed_counts import DecayedCounts, decayed_running_sum, portable_log
from tempograph.models.ted import PAPER_SIGMAS, SAME, TED, TEDSettings, sums_without_each
from tempograph.prediction.explanation import explain

SIGMAS = st.sampled_from([0.0, *PAPER_SIGMAS, 30.0])


def every_question(graph: TemporalGraph) -> list[oracle.Question]:
    return list(
        itertools.product(
            *(range(n) for n in (len(graph.entities), 2 * len(graph.relations), len(graph.times)))
        )
    )


def order(values: list[tuple[int, float]]) -> list[list[bool]]:
    return [[one > other for other in values] for one in values]


@settings(max_examples=30)
@given(graphs(largest=60), SIGMAS)
def test_order_and_ties_equal_a_loop_over_facts(graph: TemporalGraph, sigma: float) -> None:
    query_list = every_question(graph)
    scores = TED(Timeline(graph), sigma).scores(Queries(*torch.tensor(query_list).unbind(1)))
    for query_ids, row in zip(query_list, scores, strict=True):
        expected = oracle.ted(graph, query_ids, sigma)
        assert order(expected) == (row[:, None] > row[None, :]).tolist()
        assert [value == -math.inf for value in row.tolist()] == [
            level == 0 for level, _ in expected
        ]


@settings(max_examples=25)
@given(graphs(largest=60), SIGMAS, st.sampled_from(["time", "static", "raw"]))
def test_ranks_of_a_whole_split_equal_a_loop(
    graph: TemporalGraph, sigma: float, filter: str
) -> None:
    model, known = TED(Timeline(graph), sigma), KnownAnswers.from_graph(graph, filter)  # type: ignore[arg-type]
    facts = torch.from_numpy(graph.all_facts)
    actual = rank_facts(model, facts, known, budget=1)
    for index, (s, r, o, t) in enumerate(both_directions(facts, len(graph.relations)).tolist()):
        levels = oracle.ted(graph, (s, r, t), sigma)
        places = {value: level_score for level_score, value in enumerate(sorted(set(levels)))}
        scores = [float(places[value]) for value in levels]
        expected = oracle.ranks(scores, o, oracle.known_answers(graph, (s, r, t), filter))
        assert tuple(float(kind[index]) for kind in actual) == expected


def test_scores_by_hand() -> None:
    graph = make_graph([(0, 0, 1, 0), (0, 0, 1, 3), (0, 1, 2, 1), (3, 0, 3, 4)], steps=5)
    model = TED(Timeline(graph), 0.5)
    (scores,) = model.scores(Queries(torch.tensor([0]), torch.tensor([0]), torch.tensor([2])))
    sums = [math.exp(-1) + math.exp(-0.5), math.exp(-0.5), math.exp(-1)]
    span = math.log(8) + 0.5 * 5 + 1
    expected = [
        level_score + (math.log(total) + 0.5 * 5) / span
        for level_score, total in zip((2, 1, 0), sums, strict=True)
    ]
    assert scores.tolist() == pytest.approx([-math.inf, *expected], abs=1e-8)


def test_no_sigma_underflows() -> None:
    # At sigma 100,000 every plain sum is 0; the nearer fact must still win, then more facts.
    graph = make_graph(
        [(0, 0, 1, 0), (0, 0, 2, 1), (0, 0, 3, 1), (0, 1, 3, 1), (0, 0, 3, 9)], steps=10
    )
    (scores,) = TED(Timeline(graph), 1e5).scores(
        Queries(torch.tensor([0]), torch.tensor([0]), torch.tensor([5]))
    )
    assert scores[3] > scores[1] and scores[2] > scores[1]
    assert scores[3] > scores[2], "two facts four steps away beat one"


def test_same_day_facts_do_not_count() -> None:
    graph = make_graph([(0, 0, 1, 2), (0, 0, 2, 4)])
    model = TED(Timeline(graph), 0.1)
    query = Queries(torch.tensor([0]), torch.tensor([0]), torch.tensor([2]))
    assert (model.scores(query)[0] > -math.inf).tolist() == [False, False, True, False]
    assert model.evidence(query, 1).reason == "nothing"


@settings(max_examples=100)
@given(graphs(largest=60), SIGMAS, st.data())
def test_evidence_holds_the_facts_behind_the_score(
    graph: TemporalGraph, sigma: float, data: st.DataObject
) -> None:
    query_ids = data.draw(st.sampled_from(every_question(graph)))
    query = Queries(*(torch.tensor([value]) for value in query_ids))
    model = TED(Timeline(graph), sigma)
    train = set(oracle.facts_of(graph.train))
    for answer, (level, _) in enumerate(oracle.ted(graph, query_ids, sigma)):
        evidence = model.evidence(query, answer)
        assert evidence.reason == ("nothing" if level == 0 else SAME[3 - level])
        rows, shares = [tuple(fact) for fact in evidence.facts.tolist()], evidence.shares
        assert set(rows) <= train and len(rows) == len(set(rows)) and bool(rows) == (level > 0)
        side = (2, 0) if query_ids[1] < len(graph.relations) else (0, 2)
        assert all(fact[side[0]] == answer and fact[3] != query_ids[2] for fact in rows)
        distances = [abs(fact[3] - query_ids[2]) for fact in rows]
        assert distances == sorted(distances)
        if rows:
            assert float(shares.sum()) == pytest.approx(1)
            assert (
                float(shares[0] / shares[-1])
                == pytest.approx(math.exp(min(sigma * (distances[-1] - distances[0]), 700)))
                or shares[-1] == 0
            )


def test_a_running_sum_decays_within_its_group() -> None:
    value = torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=torch.float64).log()
    time, group = torch.tensor([0, 1, 3, 0]), torch.tensor([0, 0, 0, 1])
    expected = [1, 2 + 1 / 2, 4 + (2 + 1 / 2) / 4, 8]
    assert decayed_running_sum(value, time, group, math.log(2)).exp().tolist() == pytest.approx(
        expected
    )


@pytest.mark.parametrize("sigma", [-1.0, math.inf, math.nan, "often"])
def test_an_invalid_sigma_is_refused(sigma: float | str) -> None:
    with raises(ConfigError, "ted.sigma", value=repr(sigma)):
        TEDSettings(sigma)


@pytest.mark.parametrize(("split", "hits"), [("valid", 0.367), ("test", 0.353)])
def test_icews14_reaches_the_published_hits(split: str, hits: float) -> None:
    graph = benchmark("icews14")
    actual = evaluate_model(TED(Timeline(graph), 0.1), graph, split, "strict").summary()  # type: ignore[arg-type]
    assert actual["metrics"]["hits@1"] == pytest.approx(hits, abs=0.001)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-700, 3)), max_size=12))
def test_sums_without_each_member_are_those_of_the_others(members: list[tuple[int, float]]) -> None:
    group = torch.tensor([group for group, _ in members], dtype=torch.int64)
    logs = torch.tensor([log for _, log in members], dtype=torch.float64)
    whole, without = sums_without_each(logs, group, 4)
    assert_close(whole, torch.stack([logs[group == number].logsumexp(0) for number in range(4)]))
    for level_score, actual in enumerate(without):
        others = (group == group[level_score]) & (torch.arange(len(logs)) != level_score)
        assert_close(actual, logs[others].logsumexp(0))


def test_counterfactual_scores_of_many_facts_take_little_memory() -> None:
    """As many facts left out as one relation has, for many candidates."""
    rng = np.random.default_rng(0)
    facts = np.unique(rng.integers(0, [60, 1, 60, 40], (2000, 4)), axis=0)
    model = TED(Timeline(make_graph(facts, entities=60, relations=1, steps=40)), 0.1)
    query, everyone = Queries(*torch.tensor([[0], [0], [9]])), torch.arange(60)
    with PeakMemory() as peak:
        model.counterfactual_scores(query, torch.arange(0, len(facts), 20), everyone)
    assert peak.bytes < 2**22


@pytest.mark.parametrize("sigma", [0.1, 0.3, 1.0])
def test_facts_at_the_same_distances_tie(sigma: float) -> None:
    near, far = (
        [(0, 0, 1, 9), (0, 0, 1, 7), (0, 0, 1, 4)],
        [(0, 0, 2, 9), (0, 0, 2, 7), (0, 0, 2, 16)],
    )
    model = TED(Timeline(make_graph([*near, *far], steps=20)), sigma)
    _, one, other, _ = model.scores(Queries(*(torch.tensor([value]) for value in (0, 0, 10))))[
        0
    ].tolist()
    assert one == other


def test_effects_are_not_rounded_away_on_a_long_timeline() -> None:
    timeline = Timeline(
        make_graph([(0, 0, 1, 10), (0, 0, 1, 12), (0, 0, 1, 13), (0, 0, 2, 9)], steps=100_000)
    )
    model, asked = TED(timeline, 1.0), Queries(*(torch.tensor([value]) for value in (0, 0, 11)))
    scores = model.counterfactual_scores(asked, torch.arange(4), torch.tensor([1]))
    true = dict(
        zip(timeline.facts[:, 3].tolist(), (scores[0] - scores[1:])[:, 0].tolist(), strict=True)
    )
    (evidence,) = explain(model, timeline, asked, [1])
    assert evidence.effects is not None
    shown = dict(zip(evidence.facts[:, 3].tolist(), evidence.effects.tolist(), strict=True))
    assert true[10] > true[13] > 0 and {
        step: shown[step] for step in (10, 12, 13)
    } == pytest.approx({step: true[step] for step in (10, 12, 13)})


def test_keys_of_a_huge_graph_do_not_overflow() -> None:
    """Two entities and a relation do not fit into one number of 64 bits there."""

    def levels(entities: int, relations: int) -> list[int]:
        who, what = entities - 2, relations - 1
        key = both_directions(
            torch.tensor([(who, what, who - 5, 0), (who, what, who - 6, 1)]), relations
        )
        sizes = SimpleNamespace(num_entities=entities, num_steps=3, past_only=False)
        counts = DecayedCounts(
            key[:, 0] * 2 * relations + key[:, 1], key[:, 2], key[:, 3], 0.1, sizes
        )  # type: ignore[arg-type]
        return (entities - counts.group_answer).tolist()

    assert (3 * 10**7) ** 2 * 12_000 > 2**63
    assert sorted(levels(30_000_000, 6000)) == sorted(levels(1000, 6))


def halfway_sigma(gaps: list[int], near: float) -> float:
    """A sigma near a given one for which the log of the sum is halfway between two multiples.

    There the last bit of a sum decides how its logarithm is rounded.
    """

    def log_sum(sigma: float) -> float:
        return math.log(math.fsum(math.exp(-sigma * gap) for gap in gaps))

    goal = (math.floor(log_sum(near) / 1e-9) + 0.5) * 1e-9
    low, high = near - 1e-8, near + 1e-8
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if log_sum(middle) > goal else (low, middle)
    return low


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 30), min_size=3, max_size=12),
    st.sampled_from([0.01, 0.1, 0.3, 1.0]),
    st.integers(0, 2**32 - 1),
)
def test_equal_distances_tie_whatever_their_order_and_the_batch(
    gaps: list[int], near: float, seed: int
) -> None:
    """Each of 40 candidates has the same distances, each fact before or after the query."""
    rng, time, entities = np.random.default_rng(seed), 40, 41
    sigma = halfway_sigma(gaps, near)
    facts = [
        (0, relation, candidate, time + int(side) * gap)
        for candidate in range(1, entities)
        for relation, (gap, side) in enumerate(
            zip(gaps, rng.choice([-1, 1], len(gaps)), strict=True)
        )
    ]
    relations = len(gaps) + 1
    graph = make_graph(facts, entities=entities, relations=relations, steps=80)
    model = TED(Timeline(graph), sigma)
    # No fact has the query's relation, so the facts of its entity decide.
    alone = Queries(*torch.tensor([[0], [relations - 1], [time]]))
    (scores,) = model.scores(alone)
    assert len(scores[1:].unique()) == 1
    others = Queries(*(torch.from_numpy(rng.integers(0, n, 9)) for n in (entities, relations, 80)))
    for position in range(9):
        batch = Queries(*(column.clone() for column in others))
        for column, value in zip(batch, alone, strict=True):
            column[position] = value[0]
        assert torch.equal(model.scores(batch)[position], scores)


@settings(max_examples=25)
@given(graphs(largest=60), SIGMAS, st.integers(0, 2**32 - 1))
def test_scores_and_ranks_do_not_depend_on_the_batch(
    graph: TemporalGraph, sigma: float, seed: int
) -> None:
    model, known = TED(Timeline(graph), sigma), KnownAnswers.from_graph(graph)
    queries = Queries(*torch.tensor(every_question(graph)).unbind(1))
    together = model.scores(queries)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(together)))
    assert torch.equal(model.scores(queries.take(order)), together[order])
    for index in order[:5]:
        assert torch.equal(model.scores(queries.take(index[None]))[0], together[index])
    facts = torch.from_numpy(graph.all_facts)
    one, other = (rank_facts(model, facts, known, budget) for budget in (1, 2**30))
    assert all(torch.equal(*columns) for columns in zip(one, other, strict=True))


@given(st.lists(st.floats(2.0**-40, 2.0**62), min_size=1, max_size=40))
def test_portable_logarithms_equal_those_of_the_library(values: list[float]) -> None:
    value = torch.tensor(values, dtype=torch.float64)
    assert_close(portable_log(value), value.log(), rtol=1e-15, atol=2e-15)
    alone = [portable_log(each[None])[0] for each in value]
    assert torch.equal(portable_log(value), torch.stack(alone))
