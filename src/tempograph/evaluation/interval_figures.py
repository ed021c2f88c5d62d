"""Figures of facts that hold for a while, by which bounds are dates and by length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypedDict

import numpy as np
import torch

from tempograph.data.graph import Facts
from tempograph.data.spans import Bounds, Integers, spans_of
from tempograph.evaluation.ranking import Metrics, StepMeans, metrics

KINDS: Final = (
    "instant",
    "closed",
    "open start",
    "open end",
    "open start and end",
    "unknown start",
    "unknown end",
)
"""Which bounds of a fact are dates. An instant is a closed fact that holds for one step."""
_BOTH_OPEN: Final = Bounds.OPEN_START | Bounds.OPEN_END


class FactFigures(TypedDict):
    """How many facts there are in a group, and how well both their queries are answered."""

    facts: int
    metrics: Metrics


class FactGroups(NamedTuple):
    """Labels, and the group of each fact, [n]."""

    labels: Sequence[str]
    group: Integers


def by_kind(facts: Facts) -> FactGroups:
    """Which bounds of each fact [n, 6] are dates; a fact with an unknown bound is of that kind."""
    start, end, bounds = spans_of(facts)
    group = np.zeros(len(facts), np.int64)
    group[start < end] = 1
    group[(bounds & Bounds.OPEN_START) > 0] = 2
    group[(bounds & Bounds.OPEN_END) > 0] = 3
    group[(bounds & _BOTH_OPEN) == _BOTH_OPEN] = 4
    group[(bounds & Bounds.UNKNOWN_START) > 0] = 5
    group[(bounds & Bounds.UNKNOWN_END) > 0] = 6
    return FactGroups(KINDS, group)


def by_length(facts: Facts) -> FactGroups:
    """The number of steps at which each fact is known to hold: 1, 2-3, 4-7 and so on."""
    start, end, _ = spans_of(facts)
    group = np.frexp((end - start + 1).astype(np.float64))[1].astype(np.int64) - 1
    labels = [
        f"{2**power:,}-{2 ** (power + 1) - 1:,}" if power else "1"
        for power in range(1 + int(group.max(initial=0)))
    ]
    return FactGroups(labels, group)


def fact_figures(
    groups: FactGroups, ranks: StepMeans, hits: Iterable[int]
) -> dict[str, FactFigures]:
    """The figures of each group that has facts.

    ranks [2n]: of the objects of all facts, then of their subjects.
    """
    hits = list(hits)
    return {
        groups.labels[group]: {
            "facts": int((groups.group == group).sum()),
            "metrics": metrics(ranks[torch.from_numpy(np.tile(groups.group == group, 2))], hits),
        }
        for group in np.unique(groups.group).tolist()
    }
