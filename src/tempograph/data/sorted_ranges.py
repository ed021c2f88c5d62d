"""Ranges of equal keys in a sorted tensor: behind windows, filters, frequencies and TED."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Ranges(NamedTuple):
    """Half-open ranges of positions in a sorted tensor, start and stop [n] each."""

    start: Tensor
    stop: Tensor

    @property
    def lengths(self) -> Tensor:
        """Number of positions in each range, [n]."""
        return self.stop - self.start

    def take(self, index: Tensor | slice) -> Ranges:
        """The ranges at the given positions."""
        return Ranges(self.start[index], self.stop[index])

    def expand(self) -> tuple[Tensor, Tensor]:
        """Every position of every range: (row of the range, position), [total length] each."""
        lengths = self.lengths
        row = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
        shift = self.start - (lengths.cumsum(0) - lengths)
        return row, torch.arange(len(row), device=row.device) + shift[row]


def equal_range(keys: Tensor, wanted: Tensor) -> Ranges:
    """The range of sorted keys [n] equal to each wanted key [m]; empty if there is none."""
    return key_range(keys, wanted, wanted)


def key_range(keys: Tensor, first: Tensor, last: Tensor) -> Ranges:
    """The range of sorted keys [n] from first to last inclusive, [m] each."""
    start = torch.searchsorted(keys, first.contiguous())
    stop = torch.searchsorted(keys, last.contiguous(), right=True)
    return Ranges(start, torch.maximum(start, stop))
