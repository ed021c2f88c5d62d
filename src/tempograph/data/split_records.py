"""Records of the splits of a dataset: whether two graphs hold the same facts, without the facts."""

from __future__ import annotations

import hashlib
from typing import TypedDict

import numpy as np

from tempograph.data.graph import TemporalGraph
from tempograph.typing import SPLITS, Split


class SplitRecord(TypedDict):
    """The facts of one split: how many there are, from when to when, and their hash."""

    facts: int
    first: str | None
    """The label of the first time step with a fact."""
    last: str | None
    sha256: str
    """Of the ids (subject, relation, object, time) in the order of the split."""


def split_records(graph: TemporalGraph) -> dict[Split, SplitRecord]:
    """The records of the three splits."""
    return {split: _record(graph, split) for split in SPLITS}


def _record(graph: TemporalGraph, split: Split) -> SplitRecord:
    facts = graph.facts(split)
    ends = (int(facts[:, 3].min()), int(facts[:, 3].max())) if len(facts) else ()
    first, last = (graph.times[step] for step in ends) if ends else (None, None)
    ids = np.ascontiguousarray(facts, dtype="<i8").reshape(-1)
    return {
        "facts": len(facts),
        "first": first,
        "last": last,
        "sha256": hashlib.sha256(ids.data).hexdigest(),
    }
