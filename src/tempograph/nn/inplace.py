"""In-place changes of large score matrices, without the copies that autograd would make.

A matrix [rows, columns] must be contiguous; a cell is row * columns + column, [n].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor

_CACHE_NUMBERS: Final = 2**19
"""Numbers that fit into the cache of a CPU core."""


def row_blocks(matrix: Tensor) -> Iterator[slice]:
    """Slices of rows that stay in a CPU's cache while several operations pass over them."""
    size = max(1, _CACHE_NUMBERS // max(1, matrix.shape[1]))
    return (slice(first, first + size) for first in range(0, len(matrix), size))


def add_at(matrix: Tensor, cell: Tensor, values: Tensor) -> Tensor:
    """Add values [n] at cells, which may repeat, and return the matrix."""
    out: Tensor = _AddAt.apply(matrix, cell, values)
    return out


def put_at(matrix: Tensor, cell: Tensor, values: Tensor) -> Tensor:
    """Set distinct cells to values [n] and return the matrix."""
    out: Tensor = _PutAt.apply(matrix, cell, values)
    return out


class _AddAt(torch.autograd.Function):
    """The gradient of the matrix passes through unchanged."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, cell: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(cell)
        ctx.mark_dirty(matrix)
        matrix.view(-1).index_add_(0, cell, values)
        return matrix

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (cell,) = ctx.saved_tensors
        (grad,) = grad_outputs
        return grad, None, grad.flatten().index_select(0, cell)


class _PutAt(torch.autograd.Function):
    """The previous values of the cells get no gradient."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, cell: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(cell)
        ctx.mark_dirty(matrix)
        matrix.view(-1).index_copy_(0, cell, values)
        return matrix

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (cell,) = ctx.saved_tensors
        (grad,) = grad_outputs
        flat = grad.flatten()
        return flat.index_fill(0, cell, 0).view_as(grad), None, flat.index_select(0, cell)
