"""Evaluation of facts that hold for a while, against loops over facts and steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from graphs import graphs
from hash_model import Hash
from intervals import (
    as_lengths_of_one,
    directed,
    holders,
    interval_graph,
    interval_graphs,
    random_intervals,
)
from messages import raises
from tempograph import TemporalGraph
from tempograph.data.spans import Bounds
from tempograph.data.timeline import Queries
from tempograph.errors import ConfigError
from tempograph.evaluation.asked_steps import every_step, one_step_each
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.evaluation.probabilities import Calibrator
from tempograph.evaluation.rank_table import RankTable, add_ranks, read_run_ranks
from tempograph.typing import FILTERS, Filter


def scores_of(model: Hash, *query: int) -> list[float]:
    (row,) = model.scores(Queries(*(torch.tensor([part]) for part in query))).tolist()
    return row


def flat(summary: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a summary by their place in it; the duration is left out."""
    numbers = {}
    for name, value in summary.items():
        if isinstance(value, Mapping):
            numbers |= {f"{name}.{place}": each for place, each in flat(value).items()}
        elif isinstance(value, int | float) and name != "seconds":
            numbers[name] = value
    return numbers


def slow_ranks(
    graph: TemporalGraph, facts: np.ndarray, filter: Filter, paper: bool
) -> list[list[tuple[float, int, int]]]:
    """The three ranks at each asked step of each fact, objects first."""
    model, ranks = Hash(len(graph.entities)), []
    every = directed(graph.all_facts, len(graph.relations))
    for s, r, o, start, end, bounds in directed(facts, len(graph.relations)):
        steps = sorted({start, end}) if paper else range(start, end + 1)
        ranks.append([])
        for step in steps:
            same = [row for row in every if row[:2] == (s, r)]
            if filter == "raw":
                known = set()
            elif filter == "static":
                known = {row[2] for row in same}
            elif paper:
                known = {row[2] for row in same if row[3:] == (start, end, bounds)}
            else:
                known = holders(graph, s, r, step)
            ranks[-1].append(oracle.ranks(scores_of(model, s, r, step), o, known))
    return ranks


@settings(max_examples=100, deadline=None)
@given(interval_graphs(), st.sampled_from(FILTERS), st.booleans())
def test_figures_equal_a_loop_over_facts_and_steps(
    graph: TemporalGraph, filter: Filter, paper: bool
) -> None:
    evaluation = evaluate_model(
        Hash(len(graph.entities)), graph, "train", "paper" if paper else "strict", filter
    )
    slow = slow_ranks(graph, graph.train, filter, paper)
    summary = evaluation.summary(hits=(1, 2, 10))
    for number, ties in enumerate(("metrics", "optimistic", "pessimistic")):
        of_facts = [[ranks[number] for ranks in steps] for steps in slow]
        assert summary[ties]["mrr"] == pytest.approx(
            np.mean([np.mean([1 / rank for rank in steps]) for steps in of_facts])
        )
        assert summary[ties]["mr"] == pytest.approx(np.mean([np.mean(each) for each in of_facts]))
        for k in (1, 2, 10):
            assert summary[ties][f"hits@{k}"] == pytest.approx(
                np.mean([np.mean([rank <= k for rank in steps]) for steps in of_facts])
            )
    assert summary["queries"] == sum(map(len, slow))
    assert evaluation.step_ranks is not None
    assert evaluation.step_ranks.steps.tolist() == list(map(len, slow))
    assert sum(each["facts"] for each in summary["kinds"].values()) == len(graph.train)
    assert sum(each["facts"] for each in summary["lengths"].values()) == len(graph.train)


@settings(max_examples=100, deadline=None)
@given(interval_graphs(), st.integers(1, 40))
def test_blocks_hold_every_step_of_every_fact_once(graph: TemporalGraph, max_pairs: int) -> None:
    blocks = list(every_step(torch.from_numpy(graph.train), max_pairs))
    found = [
        pair for block in blocks for pair in zip(*(part.tolist() for part in block), strict=True)
    ]
    start, end = graph.train[:, 3], graph.train[:, 4]
    assert sorted(found) == [
        (fact, step) for fact in range(len(start)) for step in range(start[fact], end[fact] + 1)
    ]
    at_one_step = [int(((start <= step) & (step <= end)).sum()) for step in range(end.max() + 1)]
    assert all(len(block.fact) <= max(max_pairs, *at_one_step) for block in blocks)


def test_figures_do_not_depend_on_the_size_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    graph = interval_graph(random_intervals(rng, 60, 8, 3, 20), entities=8, relations=3, steps=20)
    seen: list[tuple[int, int]] = []
    whole = evaluate_model(Hash(8), graph, "train", "strict", calibrator=Calibrator(2.0, 0.1))
    monkeypatch.setattr(
        "tempograph.evaluation.asked_steps.every_step", lambda facts: every_step(facts, 16)
    )
    parts = evaluate_model(
        Hash(8),
        graph,
        "train",
        "strict",
        budget=8 * 8 * 5,
        progress=lambda *at: seen.append(at),
        calibrator=Calibrator(2.0, 0.1),
    )
    assert flat(parts.summary()) == pytest.approx(flat(whole.summary()))
    total = whole.summary()["queries"]
    assert seen[-1] == (total, total) and [done for done, _ in seen] == sorted(
        done for done, _ in seen
    )


def test_a_known_bound_is_asked_and_open_bounds_reach_the_end_of_the_axis() -> None:
    last = 9
    graph = interval_graph(
        [
            (0, 0, 1, 3, 3, Bounds.UNKNOWN_END),
            (0, 0, 1, 5, last, Bounds.OPEN_END),
            (0, 0, 1, 0, 2, Bounds.OPEN_START),
            (0, 0, 1, 4, 6, 0),
            (0, 0, 1, 7, 7, 0),
        ],
        steps=10,
    )
    evaluation = evaluate_model(Hash(4), graph, "train", "strict")
    assert evaluation.step_ranks is not None
    assert evaluation.step_ranks.steps.tolist() == [1, 5, 3, 3, 1] * 2
    summary = evaluation.summary()
    assert {kind: each["facts"] for kind, each in summary["kinds"].items()} == {
        "instant": 1,
        "closed": 1,
        "open start": 1,
        "open end": 1,
        "unknown end": 1,
    }
    assert {length: each["facts"] for length, each in summary["lengths"].items()} == {
        "1": 2,
        "2-3": 2,
        "4-7": 1,
    }
    one = evaluation.step_ranks.realistic[torch.tensor([3, 8])]
    assert summary["kinds"]["closed"]["metrics"]["mrr"] == float(one.reciprocal.mean())


@settings(max_examples=30, deadline=None)
@given(graphs(), st.sampled_from(FILTERS), st.sampled_from(["strict", "paper"]))
def test_events_as_facts_of_one_step_have_the_same_ranks_and_figures(
    graph: TemporalGraph, filter: Filter, protocol: str
) -> None:
    calibrator = Calibrator(2.0, 0.1)
    events, intervals = (
        evaluate_model(
            Hash(len(graph.entities)), each, "train", protocol, filter, calibrator=calibrator
        )
        for each in (graph, as_lengths_of_one(graph))
    )
    for one, other in zip(events.ranks, intervals.ranks, strict=True):
        assert torch.equal(one.double(), other.double())
    for one, other in zip(events.confidence, intervals.confidence, strict=True):
        assert torch.equal(one, other)
    expected, found = events.summary((1, 3, 10)), intervals.summary((1, 3, 10))
    expected, found = flat(expected), flat(found)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-14)
    table, same = RankTable.from_evaluation(events), RankTable.from_evaluation(intervals)
    assert np.array_equal(table.rank, same.rank) and np.array_equal(table.facts, same.facts[:, :4])
    for measure in ("mrr", "hits@1", "hits@3", "hits@10"):
        assert np.array_equal(table.values(measure), same.values(measure))


def test_ranks_are_kept_a_row_a_fact_and_side(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    facts = np.unique(random_intervals(rng, 40, 6, 2, 9), axis=0)
    graph = interval_graph(facts[:20], test=facts[20:], entities=6, steps=9, first=1990)
    evaluation = evaluate_model(Hash(6), graph, "test", "strict")
    summary = evaluation.summary()
    assert json.loads(json.dumps(summary)) == summary
    add_ranks(evaluation, tmp_path / "ranks.parquet")
    add_ranks(evaluation, tmp_path / "ranks.parquet")
    stored = read_run_ranks(tmp_path)["test"]
    assert stored.covers(graph.test) and len(stored.rank) == 2 * len(graph.test)
    for measure in ("mrr", "hits@1", "hits@3", "hits@10"):
        assert stored.values(measure).mean() == pytest.approx(summary["metrics"][measure])
    file = tmp_path / "one.parquet"
    stored.write(file)
    again = RankTable.read(file)
    assert np.array_equal(again.values("mrr"), stored.values("mrr"))
    assert np.array_equal(again.facts, stored.facts)
    named = evaluation.to_arrow()
    assert named.column_names[:6] == ["subject", "relation", "object", "start", "end", "side"]
    for row, (_, _, _, start, end, bounds) in zip(
        named.to_pylist()[: len(graph.test)], graph.test.tolist(), strict=True
    ):
        expected = [graph.times[start], graph.times[end]]
        for place, (opened, unknown) in enumerate(((1, 4), (2, 8))):
            if bounds & opened:
                expected[place] = ".."
            if bounds & unknown:
                expected[place] = ""
        assert [row["start"], row["end"]] == expected


def test_one_step_of_each_fact_is_spread_over_its_steps() -> None:
    facts = torch.tensor([(0, 0, 1, 10, 19, 0)] * 200)
    steps = one_step_each(facts)
    counts = torch.bincount(steps - 10, minlength=10)
    assert len(counts) == 10 and counts.min() >= 15 and counts.max() <= 25
    assert torch.equal(one_step_each(facts[:, :4]), facts[:, 3])


def test_hits_beyond_ten_are_refused() -> None:
    graph = interval_graph([(0, 0, 1, 0, 3, 0)])
    evaluation = evaluate_model(Hash(4), graph, "train", "strict")
    with raises(ConfigError, "ranking.step_hits", k="20"):
        evaluation.summary(hits=(1, 20))
