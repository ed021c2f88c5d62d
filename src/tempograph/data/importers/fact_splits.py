"""Divide facts into train, valid and test: at random, by time, or as the data says.

A fact of train that is in test too is a leak: the model would be asked what it has learned. If the
data brings its own splits, such a fact stays in test and is removed from train, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tempograph.data.graph import Facts, sort_keys
from tempograph.data.importers.options import ImportOptions
from tempograph.data.span_text import span_text
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
    if options.split == "chronological":
        ends = np.append(np.flatnonzero(np.diff(facts[:, 3])) + 1, len(facts))
        first, second = chronological_cuts(ends, options)
        return facts[:first], facts[first:second], facts[second:]
    splits = random_splits(len(facts), options)
    train, valid, test = (facts[splits == index] for index in range(len(SPLITS)))
    return train, valid, test


def random_splits(count: int, options: ImportOptions) -> NDArray[np.int8]:
    """The split of each of some facts, as an index of `SPLITS`, drawn with the seed."""
    train, valid, _ = _split_sizes(count, options)
    # An order of 32-bit integers is the same as one of 64-bit integers, in half the memory.
    order = np.arange(count, dtype=np.int32 if count <= np.iinfo(np.int32).max else np.int64)
    np.random.Generator(np.random.PCG64(options.seed)).shuffle(order)
    splits = np.zeros(count, np.int8)
    splits[order[train : train + valid]] = 1
    splits[order[train + valid :]] = 2
    return splits


def chronological_cuts(ends: Ids, options: ImportOptions) -> Ids:
    """Where valid and test begin; `ends` are the numbers of facts up to the end of each step.

    These are the ends of steps nearest to the shares, the later of two: no step is divided.
    """
    train, valid, _ = _split_sizes(int(ends[-1]), options)
    cuts = np.array([train, train + valid])
    nearest: Ids = ends[::-1][np.abs(ends[::-1] - cuts[:, None]).argmin(axis=1)]
    return nearest


def _split_sizes(count: int, options: ImportOptions) -> tuple[int, int, int]:
    """How many of some facts should be in train, valid and test; one is always in train."""
    valid_share, test_share = options.shares
    test = min(round(count * test_share), count - 1)
    valid = min(round(count * valid_share), count - 1 - test)
    return count - valid - test, valid, test


def divide_as_given(facts: Facts, splits: Ids) -> tuple[Division, Overlap]:
    """Divide facts [n, 4 or 6] by their splits [n], indices of `SPLITS`; repeated facts are merged.

    A fact in several splits stays in the last of them.
    """
    order = np.lexsort([splits, *sort_keys(facts)])
    distinct, first, last = merge_copies(facts[order], splits[order])
    shared = first != last
    train, valid, test = (distinct[last == index] for index in range(len(SPLITS)))
    return (train, valid, test), Overlap(distinct[shared], first[shared], last[shared])


def merge_copies(facts: Facts, splits: Ids) -> tuple[Facts, Ids, Ids]:
    """The distinct facts, and the first and the last split of each.

    Copies of a fact are neighbours, in the order of their splits.
    """
    starts = np.flatnonzero(np.append(True, (facts[1:] != facts[:-1]).any(axis=1)))
    ends = np.append(starts[1:], len(facts)) - 1
    return facts[starts], splits[starts], splits[ends]


def describe_own_splits(
    sizes: Mapping[Split, int], overlap: Overlap, describe: Callable[[Facts], Mapping[str, str]]
) -> list[str]:
    """Notes on splits of the data's own: facts in several of them, and splits without facts.

    `sizes` are the numbers of facts, and `describe` puts the names of a fact for its ids.
    """
    notes = []
    if len(overlap.facts):
        both = np.stack([overlap.first, overlap.last])
        pairs, counts = np.unique(both, axis=1, return_counts=True)
        shown = ", ".join(
            f"{count:,} in {SPLITS[first]} and {SPLITS[last]}"
            for first, last, count in zip(*pairs, counts, strict=True)
        )
        named = dict(describe(overlap.facts[0]))
        if "start" in named:
            named["time"] = span_text(named.pop("start"), named.pop("end"))
        example = ", ".join(named.values())
        facts = "1 fact is" if len(overlap.facts) == 1 else f"{len(overlap.facts):,} facts are"
        notes.append(
            f"warning: {facts} in several splits and kept only in the last of them, so that no "
            f"held-out fact is learned: {shown}; the first is {example}"
        )
    return notes + [
        f"warning: there are no {split} facts, which {use}"
        for split, use in _USES.items()
        if not sizes[split]
    ]
