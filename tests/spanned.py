"""Small random graphs of facts that hold for a while."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphs import make_graph
from tempograph import TemporalGraph
from tempograph.data.spans import Bounds, as_intervals

ENTITIES, RELATIONS, STEPS = 6, 2, 12


def interval_graph(
    seed: int,
    facts: int = 40,
    longest: int = STEPS,
    sizes: tuple[int, int, int] = (ENTITIES, RELATIONS, STEPS),
    held_out: int = 0,
) -> TemporalGraph:
    """Facts of 1 to `longest` steps, with ties, gaps, loops, open bounds and unknown ones."""
    rng = np.random.default_rng(seed)
    entities, relations, steps = sizes
    triples = rng.integers(0, [entities, relations, entities], (facts, 3))
    start = rng.integers(0, steps, facts)
    end = np.minimum(start + rng.integers(0, rng.integers(1, longest + 1, facts)), steps - 1)
    bounds = np.zeros(facts, np.int64)
    kind = rng.integers(0, 8, facts)
    bounds[kind == 0], end[kind == 0] = Bounds.OPEN_END, steps - 1
    bounds[kind == 1], start[kind == 1] = Bounds.OPEN_START, 0
    bounds[kind == 2], end[kind == 2] = Bounds.UNKNOWN_END, start[kind == 2]
    rows = rng.permutation(np.unique(np.column_stack([triples, start, end, bounds]), axis=0))
    names = make_graph([[0, 0, 0, 0]], (), (), *sizes)
    train, valid, test = np.split(rows, [len(rows) - 2 * held_out, len(rows) - held_out])
    return replace(names, train=train, valid=valid, test=test)


def as_interval_graph(graph: TemporalGraph) -> TemporalGraph:
    """The same events as facts that hold for one step."""
    splits = {name: as_intervals(getattr(graph, name)) for name in ("train", "valid", "test")}
    return replace(graph, **splits)
