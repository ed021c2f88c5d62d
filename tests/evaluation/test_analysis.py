"""Analyses of ranks against loops over one query at a time, and their invariants."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import oracle
import tempograph
from graphs import graphs, make_graph
from messages import message
from tempograph import TemporalGraph
from tempograph.data.folder import write_folder
from tempograph.data.frequency import PATTERNS
from tempograph.data.synthetic.world import make_world
from tempograph.errors import RunError
from tempograph.evaluation.evaluations import Evaluation
from tempograph.evaluation.frequency_curves import (
    EFFECTS,
    binned_curve,
    confidence_bounds,
    effect_curves,
    frequency_bins,
    pattern_frequencies,
    rolling_mean,
    shares_with_at_least,
    smoothed_curve,
    wilson_bounds,
)
from tempograph.evaluation.hard_questions import facts_per_entity, hard_questions
from tempograph.evaluation.query_groups import (
    QueryGroups,
    by_degree,
    by_distance,
    by_pair_history,
    by_rarer_entity,
    by_relation,
    by_side,
    by_step_activity,
    distance_to_same,
    group_metrics,
)
from tempograph.evaluation.rank_table import RankTable, read_run_ranks

VALUES = st.lists(st.integers(0, 60) | st.just(0), min_size=1, max_size=80).map(np.array)


def ranked_of(graph: TemporalGraph, seed: int = 0) -> RankTable:
    """Both questions of every fact of the graph, with made-up ranks."""
    facts = np.tile(graph.all_facts, (2, 1))
    rank = np.random.default_rng(seed).integers(1, 40, len(facts)) / 2 + 0.5
    return RankTable(facts, np.arange(len(facts)) >= len(facts) // 2, rank)


@given(VALUES, st.integers(1, 15))
def test_bins_partition_the_queries_and_no_value_is_in_two(values: np.ndarray, count: int) -> None:
    bins = frequency_bins(values, count)
    assert bins.shape == values.shape and len(np.unique(bins[values > 0])) <= count
    assert ((bins == 0) == (values == 0)).all(), "0 is a bin by itself"
    order = np.argsort(values, kind="stable")
    assert (np.diff(bins[order]) >= 0).all()
    assert all(len(set(bins[values == value])) == 1 for value in values)


def test_bins_of_distinct_values_hold_equally_many() -> None:
    values = np.random.default_rng(0).permutation(np.arange(1, 121))
    assert np.bincount(frequency_bins(values, 12))[1:].tolist() == [10] * 12


@given(VALUES, st.integers(0, 2**16), st.booleans())
def test_the_mean_over_bins_is_the_overall_figure(
    frequency: np.ndarray, seed: int, hits: bool
) -> None:
    values = np.random.default_rng(seed).random(len(frequency))
    values = np.round(values) if hits else values
    curve = binned_curve(frequency, values, frequency_bins(frequency, 5))
    assert curve.questions.sum() == len(frequency)
    assert_allclose((curve.mean * curve.questions).sum() / curve.questions.sum(), values.mean())
    assert (curve.low <= curve.mean).all() and (curve.mean <= curve.high).all()
    assert (curve.low >= 0).all() and (curve.high <= 1).all()
    assert (np.diff(curve.at) > 0).all()


@given(VALUES, st.integers(0, 2**16))
def test_a_smoothed_curve_equals_a_loop(frequency: np.ndarray, seed: int) -> None:
    values = np.round(np.random.default_rng(seed).random(len(frequency)))
    curve = smoothed_curve(frequency, values, points=7, min_weight=0)
    positive = [
        (math.log(value), gain) for value, gain in zip(frequency, values, strict=True) if value > 0
    ]
    if len({where for where, _ in positive}) < 2:
        assert len(curve.at) == 0
        return
    for at, count, mean in zip(np.log(curve.at), curve.questions, curve.mean, strict=True):
        weights = [math.exp(-(((at - where) / 0.35) ** 2) / 2) for where, _ in positive]
        share = sum(
            weight * gain for weight, (_, gain) in zip(weights, positive, strict=True)
        ) / sum(weights)
        assert mean == pytest.approx(share) and count == pytest.approx(
            sum(weights) ** 2 / sum(w * w for w in weights)
        )
    assert (curve.low <= curve.mean).all() and (curve.mean <= curve.high).all()


def test_a_smoothed_curve_ends_where_queries_are_few() -> None:
    frequency, values = np.array([1] * 50 + [2] * 50 + [10_000]), np.ones(101)
    curve = smoothed_curve(frequency, values)
    assert len(curve.at) and curve.at.max() < 10
    assert smoothed_curve(frequency, values, min_weight=0.5).at.max() == pytest.approx(10_000)


def test_wilson_by_hand_and_against_its_definition() -> None:
    low, high = wilson_bounds(np.array([0.0, 0.5, 1.0]), np.array([10.0, 10.0, 10.0]))
    assert_allclose(low, [0, 0.2366, 0.7225], atol=1e-4)
    assert_allclose(high, [0.2775, 0.7634, 1], atol=1e-4)
    share, count = np.array([0.3]), np.array([25.0])
    for bound in wilson_bounds(share, count):
        # The bounds are the shares from which the one found is just 1.96 standard deviations away.
        assert abs(share - bound) == pytest.approx(
            1.959964 * np.sqrt(bound * (1 - bound) / count), rel=1e-6
        )


def test_bounds_of_values_between_0_and_1_are_as_wide_as_their_spread() -> None:
    values = np.random.default_rng(1).beta(4, 6, 5000)
    curve = binned_curve(np.ones(5000, dtype=np.int64), values, np.zeros(5000, dtype=np.int64))
    assert (curve.high - curve.low)[0] == pytest.approx(
        2 * 1.96 * values.std() / math.sqrt(5000), rel=0.01
    )
    low, high = confidence_bounds(
        *(np.array([value]) for value in (values.mean(), len(values), (values**2).mean()))
    )
    assert (high - low)[0] == pytest.approx(
        2 * 1.96 * values.std() / math.sqrt(len(values)), rel=0.01
    )
    assert_allclose(
        confidence_bounds(*(np.array([value]) for value in (1.0, 3, 1.0))),
        wilson_bounds(np.array([1.0]), np.array([3])),
    )


@given(graphs(), st.integers(0, 9), st.integers(0, 9))
def test_effects_equal_a_loop(graph: TemporalGraph, past: int, future: int) -> None:
    ranked = ranked_of(graph)
    train = oracle.facts_of(graph.train)
    counts = [
        oracle.frequencies(train, fact, past, future) for fact in oracle.facts_of(ranked.facts)
    ]
    frequencies = pattern_frequencies(ranked, graph, past, future)
    for effect in EFFECTS.values():
        for side, pattern in effect:
            asks = ["subject" if subject else "object" for subject in ranked.asks_subject]
            queries = [i for i, asked_side in enumerate(asks) if side in ("both", asked_side)]
            counted = [counts[i][PATTERNS.index(pattern)] for i in queries]
            curve, _ = effect_curves(ranked, frequencies, side, pattern)
            assert curve.questions.sum() == len(queries)
            if 0 in counted:
                hits = [
                    ranked.rank[i] <= 10
                    for i, value in zip(queries, counted, strict=True)
                    if value == 0
                ]
                assert curve.at[0] == 0 and curve.questions[0] == len(hits)
                assert curve.mean[0] == pytest.approx(sum(hits) / len(hits))
            else:
                assert curve.at[0] > 0


def test_effects_are_the_papers() -> None:
    for effect, holds_answer in (("replication", True), ("reference", False)):
        for side, pattern in EFFECTS[effect]:
            if side != "both":
                assert (side[0] in pattern) is holds_answer, (effect, side, pattern)


@given(graphs())
def test_groups_equal_a_loop(graph: TemporalGraph) -> None:
    ranked = ranked_of(graph)
    train = oracle.facts_of(graph.train)
    found = {
        "history": by_pair_history(ranked, graph),
        "distance": by_distance(ranked, graph),
        "answer": by_degree(ranked, graph, "answer"),
        "given": by_degree(ranked, graph, "given"),
        "relation": by_relation(ranked, graph),
        "side": by_side(ranked),
    }
    labels = {
        name: [groups.labels[index] for index in groups.group] for name, groups in found.items()
    }
    for i, ((s, r, o, t), subject) in enumerate(
        zip(oracle.facts_of(ranked.facts), ranked.asks_subject, strict=True)
    ):
        given, answer = (o, s) if subject else (s, o)
        assert (ranked.given[i], ranked.answer[i]) == (given, answer)
        same = [abs(t - fact[3]) for fact in train if fact[:3] == (s, r, o)]
        joined = any({given, answer} == {fact[0], fact[2]} for fact in train)
        assert labels["history"][i] == (
            "same relation" if same else "only otherwise" if joined else "never"
        )
        assert holds(labels["distance"][i], min(same, default=None))
        for whose, entity in (("answer", answer), ("given", given)):
            assert holds(labels[whose][i], sum(entity in (fact[0], fact[2]) for fact in train))
        assert labels["relation"][i] == graph.relations[r]
        assert labels["side"][i].startswith("subject" if subject else "object")


def holds(label: str, value: int | None) -> bool:
    """Whether a label such as 4-7 holds a value."""
    if value is None or label == "none":
        return (label == "none") == (value is None)
    low, _, high = label.partition("-")
    return int(low) <= value <= int(high or low)


def test_the_nearest_same_fact_by_hand() -> None:
    train = np.array([(0, 0, 1, 0), (0, 0, 1, 6), (0, 1, 1, 3), (1, 0, 0, 3)])
    asked = np.array([(0, 0, 1, 2), (0, 0, 1, 4), (0, 0, 1, 6), (0, 1, 1, 9), (1, 1, 0, 3)])
    assert distance_to_same(asked, train, 10).tolist() == [2, 2, 0, 6, -1]


@given(graphs(), st.integers(0, 2**16))
def test_figures_of_groups_add_up(graph: TemporalGraph, seed: int) -> None:
    ranked = ranked_of(graph, seed)
    for groups in (by_relation(ranked, graph), by_distance(ranked, graph), by_side(ranked)):
        members = defaultdict(list)
        for index, rank in zip(groups.group, ranked.rank, strict=True):
            members[groups.labels[index]].append(rank)
        figures = group_metrics(ranked, groups)
        asked = [index for index, label in enumerate(groups.labels) if label in members]
        shown = range(asked[0], asked[-1] + 1) if groups.ordered else asked
        assert list(figures.labels) == [groups.labels[index] for index in shown]
        for label, count, mrr, hits_1, hits_10 in zip(*figures[:5], strict=True):
            ranks = members[label]
            if not ranks:
                assert count == 0 and math.isnan(mrr) and math.isnan(hits_10)
                continue
            assert count == len(ranks) and mrr == pytest.approx(
                sum(1 / rank for rank in ranks) / count
            )
            assert hits_1 == pytest.approx(sum(rank <= 1 for rank in ranks) / count)
            assert hits_10 == pytest.approx(sum(rank <= 10 for rank in ranks) / count)
        assert_allclose(
            figures.questions @ np.nan_to_num(figures.mrr) / len(ranked.rank),
            ranked.values("mrr").mean(),
        )


def test_a_group_between_others_is_not_left_out() -> None:
    ranked = RankTable(
        np.zeros((2, 4), dtype=np.int64), np.array([False, True]), np.array([1.0, 20.0])
    )
    figures = group_metrics(
        ranked, QueryGroups(("0", "1", "2-3", "4-7", "8-15"), np.array([3, 1]), ordered=True)
    )
    assert figures.labels == ("1", "2-3", "4-7") and figures.questions.tolist() == [1, 0, 1]
    assert figures.hits_10[[0, 2]].tolist() == [0, 1] and np.isnan(figures.low[1])


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=30), st.integers(0, 40))
def test_a_rolling_mean_equals_a_loop(values: list[int], width: int) -> None:
    half = width // 2
    near = [values[max(0, index - half) : index + half + 1] for index in range(len(values))]
    assert_allclose(
        rolling_mean(np.array(values), width), [sum(some) / len(some) for some in near], atol=1e-12
    )


@given(graphs())
def test_facts_per_entity_equal_a_loop(graph: TemporalGraph) -> None:
    train = oracle.facts_of(graph.train)
    counts = [
        sum(entity in (fact[0], fact[2]) for fact in train) for entity in range(len(graph.entities))
    ]
    assert facts_per_entity(graph).tolist() == counts
    least, share = shares_with_at_least(np.array(counts))
    assert least.tolist() == sorted({count for count in counts if count})
    assert_allclose(share, [sum(count >= some for count in counts) / len(counts) for some in least])


def test_ranks_come_back_by_split(tmp_path: Path) -> None:
    graph = make_world(entities=20, relations=4, steps=12, facts=300).graph
    run = tempograph.train(graph_folder(graph, tmp_path), "ted", out=tmp_path / "run")
    evaluations: dict[str, Evaluation] = {
        split: tempograph.evaluate(run, split) for split in ("valid", "test")
    }  # type: ignore[arg-type]
    tempograph.evaluate(run, "test", filter="raw")
    found = read_run_ranks(tmp_path / "run")
    assert list(found) == ["valid", "test"]
    for split, ranked in found.items():
        figures = evaluations[split].summary()
        assert ranked.values("mrr").mean() == pytest.approx(figures["metrics"]["mrr"])
        by_hand = ranked.values("hits@10")[ranked.on_side("subject")].mean()
        assert by_hand == pytest.approx(figures["subject"]["hits@10"])
    assert (
        list(read_run_ranks(tmp_path / "run", "raw")) == ["test"] and read_run_ranks(tmp_path) == {}
    )
    (tmp_path / "ranks.parquet").write_text("none")
    start = message("rank_table.not_a_table", path=tmp_path / "ranks.parquet")
    with pytest.raises(RunError, match=f"^{re.escape(start)}"):
        read_run_ranks(tmp_path)


@given(graphs(), st.integers(0, 2**16))
def test_ranks_in_order_equal_a_sort_of_tuples(graph: TemporalGraph, seed: int) -> None:
    facts = graph.all_facts
    ranked, shuffled = (
        ranked_of(graph, seed),
        np.random.default_rng(seed).permutation(2 * len(facts)),
    )
    mixed = RankTable(ranked.facts[shuffled], ranked.asks_subject[shuffled], ranked.rank[shuffled])
    found = mixed.sorted()
    asked = list(zip(found.asks_subject.tolist(), map(tuple, found.facts.tolist()), strict=True))
    assert asked == sorted(
        zip(mixed.asks_subject.tolist(), map(tuple, mixed.facts.tolist()), strict=True)
    )
    assert sorted(found.rank) == sorted(ranked.rank) and found.covers(facts)
    assert not found.covers(facts[1:]) and not found.covers(np.concatenate([facts, facts[:1]]))
    turned = RankTable(found.facts, ~found.asks_subject, found.rank)
    assert not turned.covers(facts)


def test_rows_in_another_order_read_the_same(tmp_path: Path) -> None:
    ranked = ranked_of(make_world(entities=12, relations=4, steps=10, facts=200).graph)
    turned = RankTable(ranked.facts[::-1], ranked.asks_subject[::-1], ranked.rank[::-1])
    for number, one in enumerate((ranked, turned)):
        one.write(tmp_path / f"{number}.parquet")
    first, second = (RankTable.read(tmp_path / f"{number}.parquet") for number in range(2))
    assert np.array_equal(first.facts, second.facts) and np.array_equal(
        first.asks_subject, second.asks_subject
    )
    assert np.array_equal(first.rank, second.rank)


def graph_folder(graph: TemporalGraph, folder: Path) -> Path:
    write_folder(graph, folder / "data")
    return folder / "data"


def test_one_query_is_enough() -> None:
    graph = make_graph([(0, 0, 1, 0)], test=[(0, 0, 1, 3)])
    ranked = RankTable(graph.test, np.array([False]), np.array([1.0]))
    curve, smooth = effect_curves(ranked, pattern_frequencies(ranked, graph, 8, 8), "object", "sro")
    assert curve.mean.tolist() == [1.0] and len(smooth.at) == 0
    figures = group_metrics(ranked, by_distance(ranked, graph))
    assert figures.labels == ("2-3",) and figures.hits_10.tolist() == [1.0]
    assert group_metrics(ranked, QueryGroups(("a", "b"), np.array([1]))).labels == ("b",)


def test_queries_are_grouped_by_the_rarer_entity_and_by_the_activity_of_the_step() -> None:
    train = [(0, 0, 1, 0)] * 1 + [(0, 0, 1, time) for time in range(1, 5)] + [(2, 0, 0, 4)]
    graph = make_graph(train, test=[(0, 0, 1, 0), (2, 0, 1, 4), (3, 0, 0, 2)])
    table = RankTable(graph.test, np.zeros(3, dtype=bool), np.ones(3))
    rare = by_rarer_entity(table, graph)
    assert [rare.labels[group] for group in rare.group] == ["4-15", "1-3", "0"]
    steps = by_step_activity(table, graph)
    assert [steps.labels[group] for group in steps.group] == ["0-1", "2 or more", "0-1"]


@given(graphs())
def test_hard_questions_equal_a_loop(graph: TemporalGraph) -> None:
    if not len(graph.test):
        return
    rank = torch.arange(1, 2 * len(graph.test) + 1, dtype=torch.float64)
    met = {frozenset((s, o)) for s, _, o, _ in graph.train.tolist()}
    expected: dict[str, list[float]] = {}
    for number, (s, _, o, _) in enumerate(graph.test.tolist() * 2):
        answer = o if number < len(graph.test) else s
        count = sum(answer in (row[0], row[2]) for row in graph.train.tolist())
        for name, holds in (
            ("rare answer", count < 5),
            ("unseen answer", count == 0),
            ("new pair", frozenset((s, o)) not in met),
        ):
            if holds:
                expected.setdefault(name, []).append(1 / (number + 1))
    found = hard_questions(graph.test, rank, graph, (1, 10))
    assert found.keys() == expected.keys()
    for name, reciprocal in expected.items():
        assert found[name]["questions"] == len(reciprocal)
        assert found[name]["metrics"]["mrr"] == pytest.approx(np.mean(reciprocal))
