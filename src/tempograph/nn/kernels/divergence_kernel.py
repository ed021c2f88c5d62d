"""`decoders.entity_divergence` in Triton: the only sum of its decoder that is no matrix product.

Sums stay in registers and add up in a fixed order; no tensor of queries x candidates x dimensions
is made, neither forward nor backward.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

# Tile sides, shorter than a program has threads: longer ones would go through shared memory.
_ROWS = 64
_DIMENSIONS = 32


def entity_divergence(query: Tensor, candidates: Tensor) -> Tensor:
    """`decoders.entity_divergence`, in single precision."""
    sums: Tensor = _EntityDivergence.apply(query, candidates)
    return sums


class _EntityDivergence(torch.autograd.Function):
    """Backward recomputes all terms and sums them over candidates or queries."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, candidates: Tensor) -> Tensor:
        ctx.save_for_backward(query, candidates)
        *leading, n, width = query.shape
        groups, count = math.prod(leading), candidates.shape[-2]
        sums = query.new_empty(*leading, n, count)
        block_q, block_c = _block(n), _block(count)
        _sums[(groups * triton.cdiv(n, block_q) * triton.cdiv(count, block_c),)](
            _tiles(query, groups, 3, block_q),
            _tiles(candidates, groups, 2, block_c),
            query.new_zeros(block_q, block_c),
            sums,
            n,
            count,
            DIM=width // 3,
            BLOCK_Q=block_q,
            BLOCK_C=block_c,
        )
        return sums

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        grad = grad_outputs[0].contiguous()
        groups, count = math.prod(grad.shape[:-2]), grad.shape[-1]
        queries, candidates = (
            _rows(rows, groups, parts)
            for rows, parts in zip(ctx.saved_tensors, (3, 2), strict=True)
        )
        grads = [
            _grad(grad, queries, candidates, (count, 1)),
            _grad(grad, candidates, queries, (1, count)),
        ]
        return tuple(
            rows.transpose(2, 3).flatten(3)[..., : x.shape[-1] // rows.shape[3]].reshape(x.shape)
            for rows, x in zip(grads, ctx.saved_tensors, strict=True)
        )


def _grad(grad: Tensor, rows: Tensor, others: Tensor, strides: tuple[int, int]) -> Tensor:
    """The gradient of rows as `_rows` gives them; strides of grad over rows and over others."""
    groups, size, tiles, parts, _ = rows.shape
    out, block = torch.empty_like(rows), _block(size)
    _grad_kernel[(groups * triton.cdiv(size, block) * tiles,)](
        grad,
        rows,
        others,
        out,
        size,
        others.shape[1],
        *strides,
        PARTS=parts,
        TILES_D=tiles,
        BLOCK=block,
        BLOCK_D=_DIMENSIONS,
        num_warps=8,
    )
    return out


def _block(rows: int) -> int:
    return next((block for block in (16, 32) if rows <= block), _ROWS)


def _tiles(rows: Tensor, groups: int, parts: int, block: int) -> Tensor:
    """Rows [..., n, parts dim] as [groups, tiles, dim, parts, block], padded with ones."""
    *_, n, width = rows.shape
    dim = width // parts
    padded = pad(rows.reshape(groups, n, parts, dim), (0, 0, 0, 0, 0, -n % block), value=1.0)
    tiled = padded.reshape(groups, triton.cdiv(n, block), block, parts, dim)
    return tiled.permute(0, 1, 4, 3, 2).contiguous()


def _rows(rows: Tensor, groups: int, parts: int) -> Tensor:
    """Rows [..., n, parts dim] as [groups, n, tiles, parts, block], dimensions padded with ones."""
    *_, n, width = rows.shape
    dim = width // parts
    padded = pad(rows.reshape(groups, n, parts, dim), (0, -dim % _DIMENSIONS), value=1.0)
    tiles = triton.cdiv(dim, _DIMENSIONS)
    return padded.reshape(groups, n, parts, tiles, _DIMENSIONS).transpose(2, 3).contiguous()


@triton.jit
def _term(query, candidate, BLOCK_Q: tl.constexpr, BLOCK_C: tl.constexpr):
    """Numerators and denominators of one dimension, [queries, candidates] each."""
    mean = tl.load(query)
    spread = tl.load(query + BLOCK_Q)
    width = tl.load(query + 2 * BLOCK_Q)
    m, v = tl.load(candidate), tl.load(candidate + BLOCK_C)
    difference = mean[:, None] - m[None, :]
    return width[:, None] + difference * difference, spread[:, None] + v[None, :]


@triton.jit
def _reciprocal(x):
    """1 / x of positive numbers: rsqrt is one GPU instruction, a division is many."""
    root = tl.rsqrt(x)
    return root * root


@triton.jit
def _sums(
    queries,
    candidates,
    zeros,
    sums,
    n,
    count,
    DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_C: tl.constexpr,
) -> None:
    """One tile of queries and candidates; neighboring programs share the queries."""
    tiles_q, tiles_c = tl.cdiv(n, BLOCK_Q), tl.cdiv(count, BLOCK_C)
    tile_q = (tl.program_id(0) // tiles_c).to(tl.int64)
    tile_c = tile_q // tiles_q * tiles_c + tl.program_id(0) % tiles_c
    in_q, in_c = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_C)
    query = queries + tile_q * (DIM * 3 * BLOCK_Q) + in_q
    candidate = candidates + tile_c * (DIM * 2 * BLOCK_C) + in_c
    # Loaded zeros give a thread four adjacent candidates, which it then also loads together.
    total = tl.load(zeros + in_q[:, None] * BLOCK_C + in_c[None, :])
    for _ in range(DIM // 2):
        # Two fractions are added as one: reciprocals are the slowest instructions here.
        above, below = _term(query, candidate, BLOCK_Q, BLOCK_C)
        next_above, next_below = _term(
            query + 3 * BLOCK_Q, candidate + 2 * BLOCK_C, BLOCK_Q, BLOCK_C
        )
        total += (above * next_below + next_above * below) * _reciprocal(below * next_below)
        query += 6 * BLOCK_Q
        candidate += 4 * BLOCK_C
    if DIM % 2:
        above, below = _term(query, candidate, BLOCK_Q, BLOCK_C)
        total += above * _reciprocal(below)
    # The target is computed last, so that no register holds it meanwhile.
    q = tile_q % tiles_q * BLOCK_Q + in_q
    c = tl.program_id(0) % tiles_c * BLOCK_C + in_c
    cell = (tile_q // tiles_q * n + q)[:, None] * count + c[None, :]
    tl.store(sums + cell, total, mask=(q < n)[:, None] & (c < count)[None, :])


@triton.jit
def _grad_kernel(
    grad,
    rows,
    others,
    out,
    size,
    other_size,
    row_stride,
    other_stride,
    PARTS: tl.constexpr,
    TILES_D: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """The gradients of one tile of rows, queries or candidates, and dimensions.

    A query has three parts (mean, v_s, v_r), a candidate two. Rows after the last one read the last
    and are not written. Neighboring programs share rows.
    """
    tiles = tl.cdiv(size, BLOCK)
    tile, tile_d = tl.program_id(0) // TILES_D, tl.program_id(0) % TILES_D
    group = (tile // tiles).to(tl.int64)
    row = tile % tiles * BLOCK + tl.arange(0, BLOCK)
    read = tl.minimum(row, size - 1)
    mask = (row < size)[:, None]
    in_d = tl.arange(0, BLOCK_D)[None, :]
    cell = ((group * size + read)[:, None] * TILES_D + tile_d) * (PARTS * BLOCK_D) + in_d
    mean = tl.load(rows + cell)
    variance = tl.load(rows + cell + BLOCK_D)
    grad_mean = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    grad_variance = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    if PARTS == 3:
        width = tl.load(rows + cell + 2 * BLOCK_D)
        grad_width = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    others += (group * other_size * TILES_D + tile_d) * ((5 - PARTS) * BLOCK_D)
    grad += group * size * other_size
    row_offset = read.to(tl.int64) * row_stride
    # Only scalars advance: vectors of pointers would go through shared memory. A while loop, since
    # Triton's interpreter needs a range with a constant bound (NumPy 2.4).
    other = 0
    while other < other_size:
        difference = mean - tl.load(others + in_d)
        precision = _reciprocal(variance + tl.load(others + BLOCK_D + in_d))
        weighted = tl.load(grad + row_offset)[:, None] * precision
        grad_mean += weighted * difference
        if PARTS == 3:
            grad_width += weighted
            grad_variance += weighted * precision * (width + difference * difference)
        else:
            other_width = tl.load(others + 2 * BLOCK_D + in_d)
            grad_variance += weighted * precision * (other_width + difference * difference)
        others += TILES_D * (5 - PARTS) * BLOCK_D
        grad += other_stride
        other += 1
    tl.store(out + cell, 2 * grad_mean, mask=mask)
    tl.store(out + cell + BLOCK_D, -grad_variance, mask=mask)
    if PARTS == 3:
        tl.store(out + cell + 2 * BLOCK_D, grad_width, mask=mask)
