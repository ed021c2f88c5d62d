"""Records of the splits of a dataset: whether two graphs hold the same facts, without the facts."""

from __future__ import annotations

import hashlib
from typing import TypedDict

import numpy as np

from tempograph.data.graph import TemporalGraph
from tempograph.data.spans import spans_of
from tempograph.typing import SPLITS, Split


class SplitRecord(TypedDict):
    """The facts of one split: how many there are, from when to when, and their hash."""

    facts: int
    first: str | None
    """The label of the first time step at which a fact holds."""
    last: str | None
    sha256: str
    """Of the ids in the order of the split: (subject, relation, object, time), or with bounds."""


def split_records(graph: TemporalGraph) -> dict[Split, SplitRecord]:
    """The records of the three splits."""
    return {split: _record(graph, split) for split in SPLITS}


def _record(graph: TemporalGraph, split: Split) -> SplitRecord:
    facts = graph.facts(split)
    start, end, _ = spans_of(facts)
    ends = (int(start.min()), int(end.max())) if len(facts) else ()
    first, last = (graph.times[step] for step in ends) if ends else (None, None)
    ids = np.ascontiguousarray(facts, dtype="<i8").reshape(-1)
    return {
        "facts": len(facts),
        "first": first,
        "last": last,
        "sha256": hashlib.sha256(ids.data).hexdigest(),
    }
