"""Numbers at some cells of a matrix changed in place: torch would copy the matrix or its slopes more often than needed.

The matrix [rows, columns] must be contiguous; cells are counted along its rows, [n].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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
