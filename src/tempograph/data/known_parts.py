"""Known values of one part of a fact: the relations of a pair at a time, the times of a triple."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.data.held_facts import HeldFacts
from tempograph.data.sorted_ranges import equal_range
from tempograph.data.spans import EVENT_COLUMNS


class KnownParts:
    """The values that complete a fact without one of its parts to one of the given facts.

    facts [n, 4] of events or [n, 6] of facts that hold for a while, which are known at each of
    their steps; column: the missing part, an index into (subject, relation, object, time), of
    facts that hold for a while not the time.
    """

    def __init__(self, facts: Tensor, sizes: tuple[int, int, int, int], column: int) -> None:
        self.sizes, self.column = sizes, column
        distinct = torch.unique(facts, dim=0)
        self._held: HeldFacts | None = None
        if facts.shape[1] > EVENT_COLUMNS:
            start, end = distinct[:, 3].contiguous(), distinct[:, 4].contiguous()
            self._held = HeldFacts(self._keys(distinct, timed=False), start, end, sizes[3])
            self._values = distinct[:, column]
            return
        key = self._keys(distinct)
        order = torch.argsort(key, stable=True)
        self._sorted_keys = key[order]
        self._values = distinct[order, column]

    def __call__(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Distinct pairs (row, known value) for facts [n, 4] whose part is not read, [pairs]."""
        if self._held is None:
            row, position = equal_range(self._sorted_keys, self._keys(facts)).expand()
            return row, self._values[position]
        row, position = self._held.holding(self._keys(facts, timed=False), facts[:, 3])
        size = self.sizes[self.column]
        pairs = torch.unique(row * size + self._values[position])
        return pairs // size, pairs % size

    def others(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """The known values of facts [n, 4] that differ from their own part, as pairs."""
        row, value = self(facts)
        other = value != facts[row, self.column]
        return row[other], value[other]

    def _keys(self, facts: Tensor, timed: bool = True) -> Tensor:
        key = torch.zeros(len(facts), dtype=torch.int64, device=facts.device)
        for column, size in enumerate(self.sizes):
            if column != self.column and (timed or column != 3):
                key = key * size + facts[:, column]
        return key
