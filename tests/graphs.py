"""Small random graphs for hypothesis: few ids make many ties, gaps, loops and empty snapshots."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tempograph import TemporalGraph


def make_graph(
    train: object,
    valid: object = (),
    test: object = (),
    entities: int = 4,
    relations: int = 2,
    steps: int = 5,
) -> TemporalGraph:
    """A graph of rows (s, r, o, t) with made-up names."""

    def rows(facts: object) -> np.ndarray:
        return np.array(facts, dtype=np.int64).reshape(-1, 4)

    names = (
        tuple(f"{kind}{number}" for number in range(count))
        for kind, count in (("e", entities), ("r", relations))
    )
    times = tuple(f"day {step}" for step in range(steps))
    return TemporalGraph("small", *names, times, rows(train), rows(valid), rows(test))


@st.composite
def graphs(draw: st.DrawFn, largest: int = 40) -> TemporalGraph:
    """Distinct facts, dealt into three splits; valid and test may be empty.

    Only sizes and a seed are drawn: drawn lists of facts would be short and have few ties.
    """
    sizes = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 9))
    entities, relations, steps = sizes
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    facts = rng.integers(
        0, [entities, relations, entities, steps], (draw(st.integers(1, largest)), 4)
    )
    facts = rng.permutation(np.unique(facts, axis=0))
    first, second = sorted(rng.integers(1, len(facts) + 1, 2))
    return make_graph(facts[:first], facts[first:second], facts[second:], *sizes)
