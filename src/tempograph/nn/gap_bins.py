"""Bins of signed distances in time, finer near 0: as weights of votes depend on them."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

_CLASS_EDGES: Final = (1, 2, 8, 31)
"""Distances at which the coarse class of a gap changes."""
_BIN_EDGES: Final = tuple(sorted({round(2 ** (half / 2)) for half in range(40)}))
"""Distances at which the bin of a gap changes: two bins for each doubling."""

GAP_CLASSES: Final = 2 * len(_CLASS_EDGES) + 1
"""The number of coarse classes; the one in the middle is a gap of 0."""


def gap_class(gap: Tensor) -> Tensor:
    """The coarse class of each gap, from 0 for the distant past."""
    return _signed(gap, _CLASS_EDGES) + len(_CLASS_EDGES)


def num_gap_bins(num_steps: int) -> int:
    """The number of bins for gaps within a time axis."""
    return 2 * _largest_bin(num_steps) + 1


def gap_bin(gap: Tensor, num_steps: int) -> Tensor:
    """The bin of each gap; gaps beyond a time axis of `num_steps` are in its last bins."""
    largest = _largest_bin(num_steps)
    return _signed(gap, _BIN_EDGES).clamp(-largest, largest) + largest


def _signed(gap: Tensor, edges: tuple[int, ...]) -> Tensor:
    bounds = torch.tensor(edges, device=gap.device)
    return torch.bucketize(gap.abs(), bounds, right=True) * gap.sign()


def _largest_bin(num_steps: int) -> int:
    return sum(edge < num_steps for edge in _BIN_EDGES)
