"""Large matrices changed in place, at some cells or by blocks: torch would copy them more often than needed.

A matrix [rows, columns] must be contiguous; cells are counted along its rows, [n].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor

_NEAR: Final = 2**19
"""Numbers that fit into the nearer memory of a CPU."""


def row_blocks(matrix: Tensor) -> Iterator[slice]:
    """Rows by blocks that a CPU holds near while it goes over them more than once."""
    at_once = max(1, _NEAR // max(1, matrix.shape[1]))
    return (slice(first, first + at_once) for first in range(0, len(matrix), at_once))


def add_at(matrix: Tensor, cell: Tensor, numbers: Tensor) -> Tensor:
    """Add numbers [n] at cells, and return the matrix; a cell may be named more than once."""
    found: Tensor = _AddAt.apply(matrix, cell, numbers)  # type: ignore[no-untyped-call]
    return found


def put_at(matrix: Tensor, cell: Tensor, numbers: Tensor) -> Tensor:
    """Put numbers [n] in the place of what was at cells, distinct ones, and return the matrix."""
    found: Tensor = _PutAt.apply(matrix, cell, numbers)  # type: ignore[no-untyped-call]
    return found


class _AddAt(torch.autograd.Function):
    """The slopes of the matrix are also those of what it was."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, cell: Tensor, numbers: Tensor) -> Tensor:
        ctx.save_for_backward(cell)
        ctx.mark_dirty(matrix)
        matrix.view(-1).index_add_(0, cell, numbers)
        return matrix

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (cell,) = ctx.saved_tensors
        return slopes[0], None, slopes[0].flatten().index_select(0, cell)


class _PutAt(torch.autograd.Function):
    """What was at the cells counts no more."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, cell: Tensor, numbers: Tensor) -> Tensor:
        ctx.save_for_backward(cell)
        ctx.mark_dirty(matrix)
        matrix.view(-1).index_copy_(0, cell, numbers)
        return matrix

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (cell,) = ctx.saved_tensors
        flat = slopes[0].flatten()
        return flat.index_fill(0, cell, 0).view_as(slopes[0]), None, flat.index_select(0, cell)
