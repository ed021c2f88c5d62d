"""Known values of one part of a fact: the relations of a pair at a time, the times of a triple."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import equal_range


class KnownParts:
    """The values that complete a fact without one of its parts to one of the given facts.

    column: the missing part, an index into (subject, relation, object, time).
    """

    def __init__(self, facts: Tensor, sizes: tuple[int, int, int, int], column: int) -> None:
        self.sizes, self.column = sizes, column
        distinct = torch.unique(facts, dim=0)
        key = self._keys(distinct)
        order = torch.argsort(key, stable=True)
        self._sorted_keys = key[order]
        self._values = distinct[order, column]

    def __call__(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Distinct pairs (row, known value) for facts [n, 4] whose part is not read, [pairs]."""
        row, position = equal_range(self._sorted_keys, self._keys(facts)).expand()
        return row, self._values[position]

    def others(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """The known values of facts [n, 4] that differ from their own part, as pairs."""
        row, value = self(facts)
        other = value != facts[row, self.column]
        return row[other], value[other]

    def _keys(self, facts: Tensor) -> Tensor:
        key = torch.zeros(len(facts), dtype=torch.int64, device=facts.device)
        for column, size in enumerate(self.sizes):
            if column != self.column:
                key = key * size + facts[:, column]
        return key
