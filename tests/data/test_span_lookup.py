"""Facts looked up by the moments at which they hold, against loops; and their words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intervals import interval_graph, interval_graphs
from tempograph import TemporalGraph
from tempograph.data.span_text import known_text, span_labels, span_text
from tempograph.data.spans import Bounds
from tempograph.typing import SPLITS


@settings(max_examples=100, deadline=None)
@given(interval_graphs(), st.integers(0, 2**32 - 1))
def test_lookups_by_moment_equal_a_loop(graph: TemporalGraph, seed: int) -> None:
    rng = np.random.default_rng(seed)
    events = rng.integers(0, graph.sizes, (20, 4))
    splits = [(split, tuple(row)) for split in SPLITS for row in graph.facts(split).tolist()]

    def holding(event: tuple[int, ...], but: int = 4, last: int | None = None) -> list[int]:
        return [
            number
            for number, (_, row) in enumerate(splits)
            if all(row[c] == event[c] for c in range(3) if c != but)
            and row[3] <= (event[3] if last is None else last)
            and event[3] <= row[4]
        ]

    expected = [holding(tuple(event)) for event in events.tolist()]
    found = graph.span_lookup.find(events)
    assert found.tolist() == [min(rows, default=-1) for rows in expected]
    assert graph.find_splits(events) == [splits[rows[0]][0] if rows else None for rows in expected]
    assert np.flatnonzero(graph.span_lookup.holding(events)).tolist() == sorted(
        {row for rows in expected for row in rows}
    )
    for event in map(tuple, events.tolist()):
        for column in (0, 1, 2):
            rows = holding(event, column)
            answers = {splits[row][1][column]: splits[row][0] for row in reversed(rows)}
            assert graph.known_answers(event, column) == answers
            last = int(rng.integers(event[3], len(graph.times)))
            rows = holding(event, column, last)
            first = {splits[row][1][column]: row for row in reversed(rows)}
            assert graph.span_lookup.known_answers(event, column, last) == first
        steps = {
            step: split
            for split, row in reversed(splits)
            if row[:3] == event[:3]
            for step in range(row[3], row[4] + 1)
        }
        assert graph.known_answers(event, 3) == steps


@pytest.mark.parametrize(
    ("span", "labels", "text", "known"),
    [
        ((1, 4, 0), ("1926", "1929"), "1926 to 1929", "known since 1926 until 1929"),
        ((1, 1, 0), ("1926", "1926"), "1926", "known at 1926"),
        ((1, 9, Bounds.OPEN_END), ("1926", ".."), "since 1926", "known since 1926 until now"),
        (
            (0, 4, Bounds.OPEN_START),
            ("..", "1929"),
            "until 1929",
            "known since the beginning until 1929",
        ),
        ((1, 1, Bounds.UNKNOWN_END), ("1926", ""), "1926 to ?", "known since 1926, end unknown"),
        (
            (4, 4, Bounds.UNKNOWN_START),
            ("", "1929"),
            "? to 1929",
            "known until 1929, start unknown",
        ),
        ((0, 9, 3), ("..", ".."), "always", "known since the beginning until now"),
    ],
)
def test_intervals_in_words(
    span: tuple[int, int, int], labels: tuple[str, str], text: str, known: str
) -> None:
    graph = interval_graph([(0, 0, 1, *span)], steps=10, first=1925)
    assert span_labels(*span, graph.times) == labels
    assert (span_text(*labels), known_text(*labels)) == (text, known)
    assert graph.describe(graph.train[0]) == {
        "subject": "e0",
        "relation": "r0",
        "object": "e1",
        "time": graph.times[span[0]],
        "start": labels[0],
        "end": labels[1],
    }
