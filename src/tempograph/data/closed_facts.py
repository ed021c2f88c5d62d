"""Facts whose end becomes known: one with an end replaces the same one that had none yet."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempograph.data.graph import Facts
from tempograph.data.spans import EVENT_COLUMNS, Bounds, Integers

_NO_END: Final = Bounds.OPEN_END | Bounds.UNKNOWN_END
_NO_START: Final = Bounds.OPEN_START | Bounds.UNKNOWN_START


class ClosedFacts(NamedTuple):
    """Facts with others added to them."""

    facts: Facts
    """The facts, some of them with the ends that were added, and after them the other new ones."""
    closing: NDArray[np.bool_]
    """Which of the added facts gave another one its end, [added]."""


def close_facts(facts: Facts, added: Facts) -> ClosedFacts:
    """Add facts to others, in their order.

    One with an end replaces the first fact before it with the same subject, relation, object and
    start whose end is open or unknown. Both are [n, 4] or both [n, 6].
    """
    closer = find_closers(facts, added)
    closed = closer >= 0
    every = np.concatenate([facts, added])
    every[closed] = added[closer[closed]]
    closing = np.zeros(len(added), np.bool_)
    closing[closer[closed]] = True
    return ClosedFacts(every[np.concatenate([np.ones(len(facts), np.bool_), ~closing])], closing)


def find_closers(facts: Facts, added: Facts) -> Integers:
    """The position of the added fact that replaces each fact, and then each added one; -1 for none.

    As in `close_facts`, [facts + added].
    """
    every = np.concatenate([facts, added])
    closer = np.full(len(every), -1)
    if every.shape[1] == EVENT_COLUMNS:
        return closer
    has_no_end = (every[:, 5] & _NO_END) > 0
    is_new = np.arange(len(every)) >= len(facts)
    rows = np.flatnonzero(has_no_end | is_new)
    same = np.column_stack([every[rows, :4], every[rows, 5] & _NO_START])
    _, group = np.unique(same, axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    rows, group = rows[order], group.ravel()[order]
    waiting = has_no_end[rows]
    # In each group, an end takes the first fact that waits for one, if any does: it does not if
    # the ends before it outnumber the facts that waited.
    balance = _running_sum(np.where(waiting, 1, -1), group)
    far = len(rows) + 1
    lowest = np.minimum.accumulate(np.minimum(balance, 0) - group * far) + group * far
    before = np.concatenate([[0], lowest[:-1]])
    before[np.searchsorted(group, group) == np.arange(len(group))] = 0
    takes = ~waiting & (lowest == before)
    numbers = group * far + np.where(waiting, _running_sum(waiting, group), 0)
    taken = group * far + _running_sum(takes, group)
    position = np.searchsorted(numbers[waiting], taken[takes])
    closer[rows[waiting][position]] = rows[takes] - len(facts)
    return closer


def _running_sum(values: NDArray[np.generic], group: Integers) -> Integers:
    """The sum of the values of a group up to each one; the groups ascend, [n]."""
    total = np.concatenate([[0], np.cumsum(values)])
    sums: Integers = total[1:] - total[np.searchsorted(group, group)]
    return sums
