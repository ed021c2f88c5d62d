"""Features of candidates equal a loop over facts, with and without a fact."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphs import graphs, make_graph
from tempograph import TemporalGraph
from tempograph.data.candidate_features import SHARED, CandidateFeatures
from tempograph.data.timeline import Queries, Timeline, both_directions


def slow(
    timeline: Timeline, query: tuple[int, int, int], candidate: int, left_out: int
) -> list[float]:
    entity, relation, time = query
    facts = (
        torch.cat([timeline.facts[:left_out], timeline.facts[left_out + 1 :]])
        if left_out >= 0
        else timeline.facts
    )
    features = []
    for shared in SHARED:
        gaps = [
            abs(when - time)
            for subject, its_relation, answer, when in both_directions(
                facts, timeline.num_relations
            ).tolist()
            if answer == candidate
            and ("s" not in shared or subject == entity)
            and ("r" not in shared or its_relation == relation)
        ]
        features += [math.log1p(len(gaps)), math.log1p(min(gaps, default=timeline.num_steps))]
    return features


@given(graphs(), st.integers(0, 99), st.booleans())
def test_equals_a_loop(graph: TemporalGraph, seed: int, without: bool) -> None:
    rng = np.random.default_rng(seed)
    entities, relations, _, steps = graph.sizes
    queries = rng.integers(0, [entities, 2 * relations, steps], (6, 3))
    left_out = rng.integers(-1, len(graph.train), 6)
    timeline = Timeline(graph)
    features = CandidateFeatures(timeline).compute(
        Queries(*torch.from_numpy(queries).unbind(1)),
        torch.from_numpy(left_out) if without else None,
    )
    assert features.shape == (6, entities, 2 * len(SHARED))
    for row, (query, position) in enumerate(zip(queries.tolist(), left_out.tolist(), strict=True)):
        for candidate in range(entities):
            expected = slow(timeline, query, candidate, position if without else -1)
            assert features[row, candidate].tolist() == pytest.approx(expected, abs=1e-5)


def test_a_loop_of_one_day_is_left_out_on_both_sides() -> None:
    graph = make_graph([(0, 0, 0, 3), (0, 0, 0, 1), (0, 1, 0, 3)], entities=2, relations=2, steps=5)
    query = Queries(*torch.tensor([[0], [0], [3]]))
    timeline = Timeline(graph)
    position = timeline.facts.tolist().index([0, 0, 0, 3])
    features = CandidateFeatures(timeline).compute(query, torch.tensor([position]))[0, 0]
    assert features.expm1().round().long().tolist() == [1, 2, 4, 0, 1, 2, 4, 0]


@pytest.mark.parametrize("without", [False, True])
def test_common_neighbors_are_the_last_features(without: bool) -> None:
    """0 reaches 2 through 1, a neighbor of both; facts that are left out do not count."""
    graph = make_graph(
        [(0, 0, 1, 0), (1, 1, 0, 2), (1, 0, 2, 1), (3, 0, 3, 0)], entities=4, relations=2, steps=4
    )
    timeline = Timeline(graph)
    left_out = timeline.facts.tolist().index([0, 0, 1, 0]) if without else -1
    candidate_features = CandidateFeatures(timeline, through_others=True)
    features = candidate_features.compute(
        Queries(*torch.tensor([[0, 3], [0, 1], [3, 0]])), torch.tensor([left_out, -1])
    )
    assert (
        features.shape == (2, 4, candidate_features.num_features)
        and candidate_features.num_features == 2 * len(SHARED) + 1
    )
    known = math.log(2 if without else 3) * math.log(2) / 3
    assert features[0, :, -1].tolist() == pytest.approx([0, 0, math.log1p(1000 * known), 0])
    assert not features[1, :, -1].any()
