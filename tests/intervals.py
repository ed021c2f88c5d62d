"""Small random graphs of facts that hold for a while, and what is true of them in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tempograph import TemporalGraph
from tempograph.data.spans import Bounds, as_intervals

Fact = tuple[int, int, int, int, int, int]


def interval_graph(
    train: object,
    valid: object = (),
    test: object = (),
    entities: int = 4,
    relations: int = 2,
    steps: int = 5,
    first: int | None = None,
) -> TemporalGraph:
    """A graph of rows (s, r, o, start, end, bounds); steps are years from `first` on."""

    def rows(facts: object) -> np.ndarray:
        return np.array(facts, dtype=np.int64).reshape(-1, 6)

    names = (
        tuple(f"{kind}{number}" for number in range(count))
        for kind, count in (("e", entities), ("r", relations))
    )
    times = tuple(str(step if first is None else first + step) for step in range(steps))
    return TemporalGraph("small", *names, times, rows(train), rows(valid), rows(test))


def as_lengths_of_one(graph: TemporalGraph) -> TemporalGraph:
    """A graph of events as one of facts that hold for one step each."""
    splits = (as_intervals(facts) for facts in (graph.train, graph.valid, graph.test))
    return TemporalGraph(
        graph.name, graph.entities, graph.relations, graph.times, *splits, graph.attributes
    )


@st.composite
def interval_graphs(draw: st.DrawFn, largest: int = 30) -> TemporalGraph:
    """Distinct facts with open and unknown bounds among them; valid and test may be empty."""
    sizes = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 9))
    entities, relations, steps = sizes
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    facts = random_intervals(rng, draw(st.integers(1, largest)), entities, relations, steps)
    facts = rng.permutation(np.unique(facts, axis=0))
    first, second = sorted(rng.integers(1, len(facts) + 1, 2))
    return interval_graph(facts[:first], facts[first:second], facts[second:], *sizes)


def random_intervals(
    rng: np.random.Generator, count: int, entities: int, relations: int, steps: int
) -> np.ndarray:
    """Facts of every kind, [count, 6]."""
    triples = rng.integers(0, [entities, relations, entities], (count, 3))
    start, end = np.sort(rng.integers(0, steps, (count, 2)), axis=1).T
    bounds = rng.choice([0, 0, 0, *Bounds, Bounds.OPEN_START | Bounds.OPEN_END], count)
    start = np.where(bounds & Bounds.OPEN_START, 0, start)
    end = np.where(bounds & Bounds.OPEN_END, steps - 1, end)
    start = np.where(bounds & Bounds.UNKNOWN_START, end, start)
    end = np.where(bounds & Bounds.UNKNOWN_END, start, end)
    return np.column_stack([triples, start, end, bounds])


def directed(facts: np.ndarray, num_relations: int) -> list[Fact]:
    """Each fact, then each fact turned round with its relation's inverse."""
    rows = [tuple(row) for row in facts.tolist()]
    return rows + [(o, r + num_relations, s, *when) for s, r, o, *when in rows]


def holders(graph: TemporalGraph, entity: int, relation: int, step: int) -> set[int]:
    """The answers to a query at a step in any split."""
    return {
        o
        for s, r, o, start, end, _ in directed(graph.all_facts, len(graph.relations))
        if (s, r) == (entity, relation) and start <= step <= end
    }
