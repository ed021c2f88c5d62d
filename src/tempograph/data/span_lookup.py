"""Facts that hold for a while, looked up by a moment or a period inside their intervals."""

from __future__ import annotations

from functools import cached_property
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
        rows = self._rows_like(fact, column)
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
        own, order = self._by_triple
        asked = self._triple_keys(events)
        start = np.searchsorted(own, asked)
        count = np.searchsorted(own, asked, side="right") - start
        event = np.repeat(np.arange(len(events)), count)
        row = order[np.arange(len(event)) + np.repeat(start - np.cumsum(count) + count, count)]
        step = events[event, 3]
        holds = (self.facts[row, 3] <= step) & (step <= self.facts[row, 4])
        row, event = row[holds], event[holds]
        ordered = np.argsort(row, kind="stable")
        return row[ordered], event[ordered]

    def _rows_like(self, fact: tuple[int, int, int, int], column: int) -> Integers:
        """The facts that agree with a triple in all columns but one, ascending."""
        subject, relation, object_ = fact[:3]
        asked = [part for place, part in enumerate(fact[:3]) if place != column]
        sizes = np.delete(self._sizes, column) if column < 3 else self._sizes
        if not all(0 <= part < size for part, size in zip(asked, sizes, strict=True)):
            return np.empty(0, np.int64)
        num_relations, num_objects = (int(size) for size in self._sizes[1:])
        if column == 0:
            keys, order = self._by_object
            first = relation * num_objects + object_
            stop = first + 1
        else:
            keys, order = self._by_triple
            pairs = subject * num_relations + np.array([relation, relation + 1])
            if column == 1:
                pairs = np.array([subject, subject + 1]) * num_relations
            first, stop = (int(pair) for pair in np.searchsorted(self._known_pairs, pairs))
            first, stop = first * num_objects, stop * num_objects
            if column == 3:
                first, stop = first + object_, min(stop, first + object_ + 1)
        low, high = np.searchsorted(keys, [first, stop])
        rows: Integers = np.sort(order[low:high])
        return rows[self.facts[rows, 2] == object_] if column == 1 else rows

    @cached_property
    def _by_object(self) -> tuple[Integers, Integers]:
        """The keys (relation, object) of all facts, ascending, and the fact of each, [n] each."""
        keys = self.facts[:, 1] * self._sizes[2] + self.facts[:, 2]
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    @cached_property
    def _known_pairs(self) -> Integers:
        """The distinct pairs of subject and relation, as one number each, ascending."""
        return np.unique(self._pair_numbers(self.facts))

    @cached_property
    def _by_triple(self) -> tuple[Integers, Integers]:
        """The keys of the triples of all facts, ascending, and the fact of each, [n] each."""
        keys = self._triple_keys(self.facts)
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def _triple_keys(self, facts: Integers) -> Integers:
        """A number for each triple that a fact has, and `NONE` for any other, [n]."""
        wanted = self._pair_numbers(facts)
        pair = np.minimum(np.searchsorted(self._known_pairs, wanted), len(self._known_pairs) - 1)
        exists = (self._known_pairs[pair] == wanted) & (facts[:, :3] >= 0).all(axis=1)
        exists &= (facts[:, :3] < self._sizes).all(axis=1)
        # Numbering the pairs keeps the key small: a product of all sizes may overflow.
        keys: Integers = np.where(exists, pair * self._sizes[2] + facts[:, 2], NONE)
        return keys

    def _pair_numbers(self, facts: Integers) -> Integers:
        numbers: Integers = facts[:, 0] * self._sizes[1] + facts[:, 1]
        return numbers

    @cached_property
    def _sizes(self) -> Integers:
        """One more than the largest id in each column of the triples, [3]."""
        sizes: Integers = 1 + self.facts[:, :3].max(axis=0)
        return sizes
