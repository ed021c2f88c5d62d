"""The nearest facts that hold for a while, against sorting by distance, and events as such."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graphs import graphs
from spanned import STEPS, as_interval_graph, interval_graph
from tempograph import TemporalGraph
from tempograph.data.fact_index import FactIndex, Key
from tempograph.data.nearest_intervals import NearestIntervals
from tempograph.data.timeline import Queries, Timeline

SEEDS = st.integers(0, 2**32 - 1)
KEYS: tuple[Key, ...] = ("entity", "relation", "both", "any")


def some_queries(timeline: Timeline, seed: int) -> tuple[Queries, Tensor]:
    """Random queries, and a fact of each, which may share nothing with it."""
    generator = torch.Generator().manual_seed(seed)
    sizes = timeline.num_entities, 2 * timeline.num_relations, timeline.num_steps
    columns = (torch.randint(size, (12,), generator=generator) for size in sizes)
    return Queries(*columns), torch.randint(len(timeline.facts), (12,), generator=generator)


@settings(max_examples=25)
@given(SEEDS, st.sampled_from(KEYS), st.sampled_from([1, 2, 5, 60]), st.booleans())
def test_nearest_facts_equal_a_sort(seed: int, shared: Key, max_facts: int, removes: bool) -> None:
    timeline = Timeline(interval_graph(seed, longest=1 + seed % STEPS))
    queries, fact = some_queries(timeline, seed)
    index = FactIndex(timeline, shared)
    removed = index.fact_positions(queries, fact if removes else None)
    found = NearestIntervals(timeline, index).nearest(
        index.key_ids(queries), queries.time, max_facts, removed
    )
    key, end = index.key_ids(queries), timeline.fact_end[index.fact_id]
    for number, now in enumerate(queries.time.tolist()):
        ended, held, later = [], [], []
        for row in range(len(index.time)):
            if index.row_key[row] != key[number] or (
                removes and index.fact_id[row] == fact[number]
            ):
                continue
            start, stop = int(index.time[row]), int(end[row])
            if stop < now:
                ended.append((now - stop, -start, -row))
            elif start > now:
                later.append((start - now, row))
            else:
                held.append((now - start, row))
        places = [(0, -1, n, row) for n, (_, row) in enumerate(sorted(held))]
        places += [(gap, 0, -n - 1, -row) for n, (gap, _, row) in enumerate(sorted(ended))]
        places += [(gap, 1, len(held) + n, row) for n, (gap, row) in enumerate(sorted(later))]
        ranked = sorted(places, key=lambda p: (p[0], p[1], abs(p[2])))
        expected = sorted((row, n) for _, _, n, row in ranked[:max_facts])
        mine = found.query == number
        assert sorted(zip(*(c[mine].tolist() for c in found[1:]), strict=True)) == expected


@settings(max_examples=25)
@given(graphs(), SEEDS, st.sampled_from(KEYS), st.sampled_from([1, 2, 5, 60]))
def test_of_events_the_same_rows_are_nearest(
    graph: TemporalGraph, seed: int, shared: Key, max_facts: int
) -> None:
    events, timeline = Timeline(graph), Timeline(as_interval_graph(graph))
    queries, fact = some_queries(events, seed)
    index = FactIndex(events, shared)
    removed = index.fact_positions(queries, fact)
    ranges = index.nearest(queries, max_facts, removed)
    expected = [
        {row for row in range(start, stop) if row not in gone}
        for start, stop, gone in zip(*(c.tolist() for c in (*ranges, removed)), strict=True)
    ]
    found = NearestIntervals(timeline, FactIndex(timeline, shared)).nearest(
        index.key_ids(queries), queries.time, max_facts, removed
    )
    assert expected == [set(found.row[found.query == n].tolist()) for n in range(len(fact))]
