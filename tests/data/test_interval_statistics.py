"""Statistics of facts that hold for a while equal a slow twin, step by step."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from graphs import make_graph
from tempograph.data.interval_statistics import activity
from tempograph.data.spans import Bounds, as_intervals
from tempograph.data.statistics import statistics


def holds(fact: np.ndarray, first: int, last: int) -> bool:
    return bool(fact[3] <= last and fact[4] >= first)


@pytest.mark.parametrize("seed", range(20))
def test_activity_equals_a_slow_twin(seed: int) -> None:
    generator = np.random.default_rng(seed)
    steps, window = 30, int(generator.integers(1, 6))
    start = generator.integers(steps, size=25)
    end = np.minimum(start + generator.integers(6, size=25) ** 2 // 3, steps - 1)
    triples = generator.integers(8, size=(25, 3))
    facts = np.column_stack([triples, start, end, np.zeros(25, np.int64)])
    train, others = facts[:18], facts[18:]
    found = activity(train, others, steps, window)
    for t in range(steps):
        active = [e for e in range(8) if any(e in f[[0, 2]] and holds(f, t, t) for f in facts)]
        recent = [
            e
            for e in active
            if any(e in f[[0, 2]] and t > 0 and holds(f, max(0, t - window), t - 1) for f in facts)
        ]
        before = sum(
            e in f[[0, 2]] and t > 0 and holds(f, max(0, t - window), t - 1)
            for e in active
            for f in train
        )
        assert found.active[t] == len(active)
        assert found.active_recently[t] == len(recent)
        assert found.recent_facts[t] == before


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_events_written_as_intervals_have_the_same_statistics(protocol: str) -> None:
    generator = np.random.default_rng(0)
    facts = generator.integers((4, 2, 4, 5), size=(30, 4))
    graph = make_graph(facts[:20], valid=facts[20:25], test=facts[25:])
    train, valid, test = (as_intervals(graph.facts(split)) for split in ("train", "valid", "test"))
    intervals = dataclasses.replace(graph, train=train, valid=valid, test=test)
    one, other = (statistics(each, protocol, 3) for each in (graph, intervals))  # type: ignore[arg-type]
    for name in ("active", "active_recently", "facts_per_active"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert not one.spans and other.spans["one step"] == 30


def test_kinds_of_bounds_are_counted() -> None:
    graph = make_graph([(0, 0, 1, 0), (1, 1, 2, 4), (0, 0, 2, 3)])
    train = as_intervals(graph.train)
    train[:, 4:] = [(4, 0), (4, Bounds.OPEN_END), (3, Bounds.UNKNOWN_END)]
    intervals = dataclasses.replace(
        graph, train=train, valid=as_intervals(graph.valid), test=as_intervals(graph.test)
    )
    kinds = {kind: count for kind, count in statistics(intervals).spans.items() if count}
    assert kinds == {"closed": 1, "open end": 1, "unknown end": 1}
