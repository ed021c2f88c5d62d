"""`decoders.entity_divergence`, the sum of the Gaussian decoder that is no matrix product, in Triton.

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
        *leading, n, count = grad.shape
        groups = math.prod(leading)
        queries, candidates = (
            _rows(rows, groups, parts)
            for rows, parts in zip(ctx.saved_tensors, (3, 2), strict=True)
        )
        tiles = queries.shape[2]
        grads: list[Tensor | None] = []
        for number, (kernel, rows, others, size, other_size, strides) in enumerate(
            (
                (_grad_queries, queries, candidates, n, count, (count, 1)),
                (_grad_candidates, candidates, queries, count, n, (1, count)),
            )
        ):
            if not ctx.needs_input_grad[number]:
                grads.append(None)
                continue
            out, block = torch.empty_like(rows), _block(size)
            kernel[(groups * triton.cdiv(size, block) * tiles,)](
                grad,
                rows,
                others,
                out,
                size,
                other_size,
                *strides,
                TILES_D=tiles,
                BLOCK=block,
                BLOCK_D=_DIMENSIONS,
                num_warps=8,
            )
            saved = ctx.saved_tensors[number]
            dim = saved.shape[-1] // out.shape[3]
            grads.append(out.transpose(2, 3).flatten(3)[..., :dim].reshape(saved.shape))
        return tuple(grads)


def _block(rows: int) -> int:
    return next((block for block in (16, 32) if rows <= block), _ROWS)


def _tiles(rows: Tensor, groups: int, parts: int, block: int) -> Tensor:
    """Rows [..., n, parts dim] as [groups, tiles, dim, parts, block], padded with ones: no masks."""
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
    """One tile of queries and candidates; neighbouring programs share the queries."""
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
def _program_rows(
    rows, PARTS: tl.constexpr, TILES_D: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr
):
    """Group, tile of dimensions, rows in the group, their cells, and which of them exist.

    Rows after the last one read the last and are not written. Neighbouring programs share rows.
    """
    tiles = tl.cdiv(rows, BLOCK)
    tile, tile_d = tl.program_id(0) // TILES_D, tl.program_id(0) % TILES_D
    group = (tile // tiles).to(tl.int64)
    row = tile % tiles * BLOCK + tl.arange(0, BLOCK)
    read = tl.minimum(row, rows - 1)
    first = ((group * rows + read)[:, None] * TILES_D + tile_d) * (PARTS * BLOCK_D)
    return group, tile_d, read, first + tl.arange(0, BLOCK_D)[None, :], (row < rows)[:, None]


@triton.jit
def _grad_queries(
    grad,
    queries,
    candidates,
    out,
    n,
    count,
    row_stride,
    other_stride,
    TILES_D: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """The gradients of one tile of queries and dimensions."""
    group, tile_d, q, cell, mask = _program_rows(n, 3, TILES_D, BLOCK, BLOCK_D)
    in_d = tl.arange(0, BLOCK_D)
    mean = tl.load(queries + cell)
    spread = tl.load(queries + cell + BLOCK_D)
    width = tl.load(queries + cell + 2 * BLOCK_D)
    grad_mean = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    grad_spread = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    grad_width = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    candidates += (group * count * TILES_D + tile_d) * (2 * BLOCK_D)
    grad += group * n * count
    row_offset = q.to(tl.int64) * row_stride
    # Only scalars advance: vectors of pointers would go through shared memory. A while loop, since
    # Triton's interpreter accepts no range over a number that is no constant with NumPy 2.4.
    c = 0
    while c < count:
        difference = mean - tl.load(candidates + in_d)[None, :]
        precision = _reciprocal(spread + tl.load(candidates + BLOCK_D + in_d)[None, :])
        weighted = tl.load(grad + row_offset)[:, None] * precision
        grad_width += weighted
        grad_mean += weighted * difference
        grad_spread += weighted * precision * (width + difference * difference)
        candidates += TILES_D * 2 * BLOCK_D
        grad += other_stride
        c += 1
    tl.store(out + cell, 2 * grad_mean, mask=mask)
    tl.store(out + cell + BLOCK_D, -grad_spread, mask=mask)
    tl.store(out + cell + 2 * BLOCK_D, grad_width, mask=mask)


@triton.jit
def _grad_candidates(
    grad,
    candidates,
    queries,
    out,
    count,
    n,
    row_stride,
    other_stride,
    TILES_D: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """The gradients of one tile of candidates and dimensions."""
    group, tile_d, c, cell, mask = _program_rows(count, 2, TILES_D, BLOCK, BLOCK_D)
    in_d = tl.arange(0, BLOCK_D)
    m = tl.load(candidates + cell)
    v = tl.load(candidates + cell + BLOCK_D)
    grad_mean = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    grad_variance = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    queries += (group * n * TILES_D + tile_d) * (3 * BLOCK_D)
    grad += group * n * count
    row_offset = c.to(tl.int64) * row_stride
    q = 0
    while q < n:
        difference = tl.load(queries + in_d)[None, :] - m
        precision = _reciprocal(tl.load(queries + BLOCK_D + in_d)[None, :] + v)
        weighted = tl.load(grad + row_offset)[:, None] * precision
        width = tl.load(queries + 2 * BLOCK_D + in_d)[None, :]
        grad_mean += weighted * difference
        grad_variance += weighted * precision * (width + difference * difference)
        queries += TILES_D * 3 * BLOCK_D
        grad += other_stride
        q += 1
    tl.store(out + cell, -2 * grad_mean, mask=mask)
    tl.store(out + cell + BLOCK_D, -grad_variance, mask=mask)
