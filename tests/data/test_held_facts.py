"""Which facts hold at a step, against a loop, and what the look-up costs."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import graphs
from spanned import STEPS, as_interval_graph, interval_graph
from tempograph import TemporalGraph
from tempograph.data.held_facts import HeldFacts, signed_gap
from tempograph.data.timeline import Timeline

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=25)
@given(SEEDS, st.integers(1, STEPS), st.lists(st.integers(0, STEPS - 1), max_size=5))
def test_snapshots_equal_a_loop(seed: int, longest: int, steps: list[int]) -> None:
    timeline = Timeline(interval_graph(seed, longest=longest))
    row, position = timeline.edges(torch.tensor(steps, dtype=torch.int64))
    rows = timeline.rows.tolist()
    for index, step in enumerate(steps):
        held = [number for number, fact in enumerate(rows) if fact[3] <= step <= fact[4]]
        assert sorted(position[row == index].tolist()) == held
    largest = max(sum(f[3] <= step <= f[4] for f in rows) for step in range(STEPS))
    assert timeline.max_facts_per_step == largest
    assert timeline.longest == max(f[4] - f[3] + 1 for f in rows)


@settings(max_examples=20)
@given(SEEDS, st.integers(1, 4))
def test_the_latest_facts_of_a_key_are_never_left_out(seed: int, max_facts: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    key, start = (torch.randint(size, (50,), generator=generator) for size in (3, 9))
    end = (start + torch.randint(6, (50,), generator=generator)).clamp(max=8)
    index = HeldFacts(key, start, end, 9)
    keys, times = torch.arange(4).repeat_interleave(9), torch.arange(9).repeat(4)
    row, fact = index.holding(keys, times, max_facts)
    for query, (wanted, time) in enumerate(zip(keys.tolist(), times.tolist(), strict=True)):
        found = fact[row == query].tolist()
        held = [f for f in range(50) if key[f] == wanted and start[f] <= time <= end[f]]
        assert set(found) <= set(held) and len(found) == len(set(found))
        latest = sorted((int(start[f]) for f in held), reverse=True)[:max_facts]
        assert sorted((int(start[f]) for f in found), reverse=True)[:max_facts] == latest


@settings(max_examples=20)
@given(graphs())
def test_events_as_intervals_have_the_same_snapshots(graph: TemporalGraph) -> None:
    steps = torch.arange(len(graph.times))
    events, intervals = Timeline(graph), Timeline(as_interval_graph(graph))
    assert intervals.has_intervals and not events.has_intervals
    for expected, found in zip(events.edges(steps), intervals.edges(steps), strict=True):
        assert torch.equal(expected, found)
    assert intervals.max_facts_per_step == events.max_facts_per_step


def test_the_index_grows_with_facts_not_with_steps() -> None:
    start = torch.arange(1000) * 9
    index = HeldFacts(torch.zeros_like(start), start, start + 5000, 20_000)
    sizes = [value.numel() for value in vars(index).values() if isinstance(value, torch.Tensor)]
    assert max(sizes) == 1000


def test_gaps_by_hand() -> None:
    start, end = torch.tensor([2, 2, 2, 2, 5]), torch.tensor([4, 4, 4, 4, 5])
    time = torch.tensor([0, 2, 4, 7, 5])
    assert signed_gap(start, end, time).tolist() == [2, 0, 0, -3, 0]
