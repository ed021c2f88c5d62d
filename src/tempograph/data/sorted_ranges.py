"""Sort once, then every group is a contiguous range: the one trick behind windows, filters, frequencies and TED."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Ranges(NamedTuple):
    """Half-open ranges of positions in a sorted array, start and stop [n] each."""

    start: Tensor
    stop: Tensor

    @property
    def lengths(self) -> Tensor:
        """How many positions each range holds, [n]."""
        return self.stop - self.start

    def take(self, index: Tensor) -> Ranges:
        """Some of the ranges."""
        return Ranges(self.start[index], self.stop[index])

    def expand(self) -> tuple[Tensor, Tensor]:
        """Every position of every range: (row of the range, position), each [total length]."""
        lengths = self.lengths
        row = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
        shift = self.start - (lengths.cumsum(0) - lengths)
        return row, torch.arange(len(row), device=row.device) + shift[row]


def equal_range(keys: Tensor, wanted: Tensor) -> Ranges:
    """Where each wanted key stands in the sorted keys; empty where it does not.   keys [n], wanted [m]."""
    return key_range(keys, wanted, wanted)


def key_range(keys: Tensor, first: Tensor, last: Tensor) -> Ranges:
    """Where the keys from first to last, both included, stand in the sorted keys.   keys [n], first and last [m]."""
    start = torch.searchsorted(keys, first.contiguous())
    stop = torch.searchsorted(keys, last.contiguous(), right=True)
    return Ranges(start, torch.maximum(start, stop))
