"""Temporal pattern frequencies against a loop over all train facts."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from graphs import graphs, make_graph
from messages import raises
from tempograph import TemporalGraph
from tempograph.data.frequency import PATTERNS, PatternFrequencies
from tempograph.data.timeline import Timeline
from tempograph.errors import DataError


@settings(max_examples=30)
@given(graphs(), st.integers(0, 12), st.integers(0, 12))
def test_counts_equal_a_loop(graph: TemporalGraph, past: int, future: int) -> None:
    counts = PatternFrequencies(Timeline(graph)).count(
        torch.from_numpy(graph.all_facts), past, future
    )
    train = oracle.facts_of(graph.train)
    expected = [
        oracle.frequencies(train, fact, past, future) for fact in oracle.facts_of(graph.all_facts)
    ]
    assert counts.tolist() == expected


def test_counts_by_hand() -> None:
    graph = make_graph([(0, 0, 1, 0), (0, 0, 1, 2), (0, 1, 2, 2), (0, 0, 1, 3), (3, 0, 1, 4)])
    frequencies = PatternFrequencies(Timeline(graph))
    asked = torch.tensor([[0, 0, 1, 3]])
    assert PATTERNS == ("s", "o", "r", "sr", "ro", "so", "sro")
    assert frequencies.count(asked, past=2).tolist() == [[2, 1, 1, 1, 1, 1, 1]]
    assert frequencies.count(asked, past=3).tolist() == [[3, 2, 2, 2, 2, 2, 2]]
    assert frequencies.count(asked, past=0, future=1).tolist() == [[0, 1, 1, 0, 1, 0, 0]]


def test_too_many_patterns_for_64_bits_are_refused() -> None:
    timeline = Timeline(make_graph([(0, 0, 1, 0)]))
    timeline.num_entities = 2**31
    with raises(DataError, "frequency.too_many", entities=2**31, relations=2):
        PatternFrequencies(timeline)
