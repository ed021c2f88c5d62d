"""Frequencies and candidate features of facts that hold for a while, against loops over facts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import graphs
from spanned import ENTITIES, RELATIONS, STEPS, as_interval_graph, interval_graph
from tempograph import TemporalGraph
from tempograph.data.candidate_features import SHARED, CandidateFeatures
from tempograph.data.frequency import PatternFrequencies
from tempograph.data.timeline import Queries, Timeline, both_directions

SEEDS = st.integers(0, 2**32 - 1)


def holds_near(fact: list[int], time: int, past: int, future: int) -> bool:
    steps = set(range(time - past, time + future + 1)) - {time}
    return bool(steps & set(range(fact[3], fact[4] + 1)))


def shares(fact: list[int], asked: list[int]) -> list[bool]:
    s, o, r = fact[0] == asked[0], fact[2] == asked[2], fact[1] == asked[1]
    return [s, o, r, s and r, r and o, s and o, s and r and o]


@settings(max_examples=25)
@given(SEEDS, st.integers(0, STEPS), st.integers(0, STEPS))
def test_frequencies_equal_a_loop(seed: int, past: int, future: int) -> None:
    timeline = Timeline(interval_graph(seed, facts=30))
    counter, rows = PatternFrequencies(timeline), timeline.rows.tolist()
    asked = timeline.facts[::3].clone()
    asked[:, 3] = (asked[:, 3] + seed) % STEPS
    near = [[f for f in rows if holds_near(f, q[3], past, future)] for q in asked.tolist()]
    expected = [
        [sum(column) for column in zip(*(shares(f, q) for f in facts), strict=True)] or [0] * 7
        for facts, q in zip(near, asked.tolist(), strict=True)
    ]
    assert counter.count(asked, past, future).tolist() == expected
    now = [[f for f in rows if f[3] <= q[3] <= f[4]] for q in asked.tolist()]
    expected = [
        [sum(column) for column in zip(*(shares(f, q) for f in facts), strict=True)] or [0] * 7
        for facts, q in zip(now, asked.tolist(), strict=True)
    ]
    assert counter.count_at(asked).tolist() == expected
    left_out = torch.randint(
        len(rows), (len(asked),), generator=torch.Generator().manual_seed(seed)
    )
    queries = Queries(asked[:, 0], asked[:, 1], asked[:, 3])
    counts = counter.count_queries(queries, past, future, timeline.rows[left_out])
    for number, (q, gone) in enumerate(zip(asked.tolist(), left_out.tolist(), strict=True)):
        facts = [f for n, f in enumerate(rows) if n != gone and holds_near(f, q[3], past, future)]
        kinds = [shares(f, q) for f in facts]
        assert counts[number].tolist() == [sum(k[i] for k in kinds) for i in (0, 2, 3)]


@settings(max_examples=25)
@given(SEEDS, st.booleans())
def test_candidate_features_equal_a_loop(seed: int, without: bool) -> None:
    rng, timeline = np.random.default_rng(seed), Timeline(interval_graph(seed, facts=25))
    queries = rng.integers(0, [ENTITIES, 2 * RELATIONS, STEPS], (6, 3))
    left_out = rng.integers(-1, len(timeline.facts), 6)
    features = CandidateFeatures(timeline).compute(
        Queries(*torch.from_numpy(queries).unbind(1)),
        torch.from_numpy(left_out) if without else None,
    )
    for row, ((entity, relation, time), gone) in enumerate(
        zip(queries.tolist(), left_out.tolist(), strict=True)
    ):
        keep = torch.arange(len(timeline.facts)) != (gone if without else -1)
        facts = both_directions(timeline.rows[keep], RELATIONS).tolist()
        for candidate in range(ENTITIES):
            expected = []
            for shared in SHARED:
                gaps = [
                    max(0, start - time, time - end)
                    for subject, its_relation, answer, start, end, _ in facts
                    if answer == candidate
                    and ("s" not in shared or subject == entity)
                    and ("r" not in shared or its_relation == relation)
                ]
                expected += [math.log1p(len(gaps)), math.log1p(min(gaps, default=STEPS))]
            assert features[row, candidate].tolist() == pytest.approx(expected, abs=1e-5)


@settings(max_examples=20)
@given(graphs(), st.integers(0, 9), st.integers(0, 9))
def test_events_as_intervals_have_the_same_frequencies(
    graph: TemporalGraph, past: int, future: int
) -> None:
    facts = torch.from_numpy(graph.all_facts)
    events, intervals = (
        PatternFrequencies(Timeline(each)) for each in (graph, as_interval_graph(graph))
    )
    assert torch.equal(events.count(facts, past, future), intervals.count(facts, past, future))
    assert torch.equal(events.count_at(facts), intervals.count_at(facts))
