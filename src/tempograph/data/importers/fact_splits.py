"""Divide facts into train, valid and test: at random, by time, or as the data says.

A fact of train that is in test too is a leak: the model would be asked what it has learned. If the
data brings its own splits, such a fact stays in test and is removed from train, with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tempograph.data.graph import Facts, TemporalGraph, sort_keys
from tempograph.data.importers.options import ImportOptions
from tempograph.typing import SPLITS, Split

Ids = NDArray[np.int64]
Division = tuple[Facts, Facts, Facts]
"""Train, valid and test facts, each sorted by time, subject, relation and object."""

_USES: Final[Mapping[Split, str]] = {
    "valid": "most models need to know when to stop",
    "test": "the evaluation of a model needs",
}


@dataclass(frozen=True, eq=False)
class Overlap:
    """Facts in several splits [n, 4 or 6], and the first and last split of each, as indices."""

    facts: Facts
    first: Ids
    last: Ids


def divide(facts: Facts, options: ImportOptions) -> Division:
    """Divide distinct facts, sorted by time, by the rule of the options."""
    count = len(facts)
    valid_share, test_share = options.shares
    test = min(round(count * test_share), count - 1)
    valid = min(round(count * valid_share), count - 1 - test)
    if options.split == "chronological":
        first, second = _step_ends(facts[:, 3], np.array([count - valid - test, count - test]))
        return facts[:first], facts[first:second], facts[second:]
    shuffled = np.random.Generator(np.random.PCG64(options.seed)).permutation(count)
    train_rows, valid_rows, test_rows = np.split(shuffled, [count - valid - test, count - test])
    return facts[np.sort(train_rows)], facts[np.sort(valid_rows)], facts[np.sort(test_rows)]


def divide_as_given(facts: Facts, splits: Ids) -> tuple[Division, Overlap]:
    """Divide facts [n, 4 or 6] by their splits [n], indices of `SPLITS`; repeated facts are merged.

    A fact in several splits stays in the last of them.
    """
    # Copies of a fact become neighbours, that of the last split first.
    order = np.lexsort([-splits, *sort_keys(facts)])
    facts, splits = facts[order], splits[order]
    starts = np.flatnonzero(np.append(True, (facts[1:] != facts[:-1]).any(axis=1)))
    ends = np.append(starts[1:], len(facts)) - 1
    distinct, last, first = facts[starts], splits[starts], splits[ends]
    shared = first != last
    train, valid, test = (distinct[last == index] for index in range(len(SPLITS)))
    return (train, valid, test), Overlap(distinct[shared], first[shared], last[shared])


def describe_own_splits(graph: TemporalGraph, overlap: Overlap) -> list[str]:
    """Notes on splits of the data's own: facts in several of them, and splits without facts."""
    notes = []
    if len(overlap.facts):
        both = np.stack([overlap.first, overlap.last])
        pairs, counts = np.unique(both, axis=1, return_counts=True)
        shown = ", ".join(
            f"{count:,} in {SPLITS[first]} and {SPLITS[last]}"
            for first, last, count in zip(*pairs, counts, strict=True)
        )
        example = ", ".join(graph.describe(overlap.facts[0]).values())
        facts = "1 fact is" if len(overlap.facts) == 1 else f"{len(overlap.facts):,} facts are"
        notes.append(
            f"warning: {facts} in several splits and kept only in the last of them, so that no "
            f"held-out fact is learned: {shown}; the first is {example}"
        )
    return notes + [
        f"warning: there are no {split} facts, which {use}"
        for split, use in _USES.items()
        if not len(graph.facts(split))
    ]


def _step_ends(times: Ids, cuts: Ids) -> Ids:
    """The end of a time step nearest to each cut, the later of two: no step is divided."""
    ends = np.append(np.flatnonzero(np.diff(times)) + 1, len(times))
    nearest: Ids = ends[::-1][np.abs(ends[::-1] - cuts[:, None]).argmin(axis=1)]
    return nearest
