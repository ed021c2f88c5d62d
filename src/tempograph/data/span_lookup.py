"""Facts that hold for a while, looked up by a moment or a period inside their intervals."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tempograph.data.spans import Integers

NONE: Final = -1
"""Stands for no fact."""


class SpanLookup:
    """Facts [n, 6] with the number of the split of each, [n], in order of split."""

    def __init__(self, facts: Integers, split: Integers) -> None:
        self.facts, self.split = facts, split

    def known_answers(
        self, fact: tuple[int, int, int, int], column: int, last: int | None = None
    ) -> dict[int, int]:
        """The ids that make a known fact if put into one column, with the position of the fact.

        The fact holds at the time of the given one, or at some step from there to `last`. Of
        several facts, that of the first split counts, and of these the first one.
        """
        rows = np.flatnonzero(
            np.all([self.facts[:, c] == fact[c] for c in range(3) if c != column], axis=0)
        )
        found: dict[int, int] = {}
        if column == 3:
            for row in rows[::-1].tolist():
                start, end = self.facts[row, 3:5].tolist()
                found |= dict.fromkeys(range(start, end + 1), row)
            return found
        start, end = self.facts[rows, 3], self.facts[rows, 4]
        rows = rows[(start <= (fact[3] if last is None else last)) & (end >= fact[3])]
        for row in rows[::-1].tolist():
            found[int(self.facts[row, column])] = row
        return found

    def find(self, events: Integers) -> Integers:
        """The position of a fact that holds at the step of each event [m, 4]; `NONE` without."""
        found = np.full(len(events), NONE)
        row, event = self.pairs(events)
        # Earlier positions overwrite later ones.
        found[event[::-1]] = row[::-1]
        return found

    def holding(self, events: Integers) -> NDArray[np.bool_]:
        """Which facts hold at the step of one of the events [m, 4], [n]."""
        mask = np.zeros(len(self.facts), dtype=np.bool_)
        mask[self.pairs(events)[0]] = True
        return mask

    def pairs(self, events: Integers) -> tuple[Integers, Integers]:
        """Pairs (fact, event) of equal triples where the fact holds at the step of the event."""
        _, triple = np.unique(
            np.concatenate([self.facts[:, :3], events[:, :3]]), axis=0, return_inverse=True
        )
        own, asked = np.split(triple.reshape(-1), [len(self.facts)])
        order = np.argsort(own, kind="stable")
        start = np.searchsorted(own[order], asked)
        count = np.searchsorted(own[order], asked, side="right") - start
        event = np.repeat(np.arange(len(events)), count)
        row = order[np.arange(len(event)) + np.repeat(start - np.cumsum(count) + count, count)]
        step = events[event, 3]
        holds = (self.facts[row, 3] <= step) & (step <= self.facts[row, 4])
        row, event = row[holds], event[holds]
        ordered = np.argsort(row, kind="stable")
        return row[ordered], event[ordered]
