"""Dataset statistics against loops, and the published counts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from conftest import benchmark
from graphs import graphs, make_graph
from tempograph import TemporalGraph
from tempograph.data.benchmarks import BENCHMARKS
from tempograph.data.statistics import statistics


@settings(max_examples=100)
@given(graphs(), st.integers(1, 6), st.sampled_from(["strict", "paper"]))
def test_curves_equal_a_loop(graph: TemporalGraph, window: int, protocol: str) -> None:
    found = statistics(graph, protocol, window)  # type: ignore[arg-type]
    train = oracle.facts_of(graph.train)
    seen = train if protocol == "strict" else oracle.facts_of(graph.all_facts)
    for step in range(len(graph.times)):
        active = [e for e in range(len(graph.entities)) if oracle.active(seen, e, step)]
        recent = [e for e in active if oracle.active_steps(seen, e, step - window, step - 1)]
        facts = [
            sum(step - window <= f[3] < step and e in (f[0], f[2]) for f in train) for e in active
        ]
        assert found.active[step] == len(active)
        assert found.active_recently[step] == len(recent)
        assert found.facts_per_active[step] == pytest.approx(
            sum(facts) / len(facts) if facts else 0
        )


def test_repeated_and_unseen_facts_are_counted() -> None:
    graph = make_graph(
        [(0, 0, 1, 0), (0, 0, 1, 0)],
        valid=[(0, 0, 1, 0)],
        test=[(0, 0, 2, 1), (1, 0, 0, 1), (3, 1, 2, 1)],
    )
    found = statistics(graph)
    assert found.repeated == 2 and found.unseen == {"valid": 0, "test": 2} and found.total == 6
    assert json.loads(json.dumps(found.summary()))["active"] == [2, 0, 0, 0, 0]


@pytest.mark.parametrize("name", ["icews14", "icews05-15"])
def test_the_published_counts(name: str) -> None:
    found = statistics(benchmark(name))
    counts = BENCHMARKS[name].counts
    for column in ("entities", "relations", "steps", "train", "valid", "test"):
        assert getattr(found, column) == getattr(counts, column)
    assert found.repeated == 0
