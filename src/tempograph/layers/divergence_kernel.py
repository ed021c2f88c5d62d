"""The sum of the Gaussian decoder that is no matrix product, as Triton kernels; `decoders.along_entities` is its twin.

Sums stay in registers and add up in a fixed order; no tensor of questions x candidates x dimensions is made.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

# Sides of tiles, shorter than a program has threads: longer ones would pass through shared memory at every step.
_ROWS = 64
_DIMENSIONS = 32


class AlongEntities(torch.autograd.Function):
    """Forward sums over dimensions; backward makes all terms again and sums them over candidates or questions."""

    @staticmethod
    def forward(ctx: Any, question: Tensor, candidates: Tensor) -> Tensor:
        """Shapes as in `decoders.along_entities`, the leading ones equal."""
        ctx.save_for_backward(question, candidates)
        *leading, n, width = question.shape
        groups, count = math.prod(leading), candidates.shape[-2]
        sums = question.new_empty(*leading, n, count)
        block_q, block_c = _block(n), _block(count)
        _sums[(groups * triton.cdiv(n, block_q) * triton.cdiv(count, block_c),)](
            _tiles(question, groups, 3, block_q),
            _tiles(candidates, groups, 2, block_c),
            question.new_zeros(block_q, block_c),
            sums,
            n,
            count,
            DIM=width // 3,
            BLOCK_Q=block_q,
            BLOCK_C=block_c,
        )
        return sums

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The slopes of the sums -> of questions and candidates."""
        question, candidates = ctx.saved_tensors
        *leading, n, count = slopes[0].shape
        groups, slope = math.prod(leading), slopes[0].contiguous()
        laid = _rows(question, groups, 3), _rows(candidates, groups, 2)
        tiles = laid[0].shape[2]
        found: list[Tensor | None] = [None, None]
        for side, (kernel, rows) in enumerate(((_to_questions, question), (_to_candidates, candidates))):
            if ctx.needs_input_grad[side]:
                block, into = _block(rows.shape[-2]), torch.empty_like(laid[side])
                grid = (groups * triton.cdiv(rows.shape[-2], block) * tiles,)
                sizes = {"TILES_D": tiles, "BLOCK": block, "BLOCK_D": _DIMENSIONS}
                kernel[grid](slope, *laid, into, n, count, **sizes, num_warps=8)
                found[side] = _unlaid(into, rows)
        return found[0], found[1]


def _block(rows: int) -> int:
    return next((block for block in (16, 32) if rows <= block), _ROWS)


def _tiles(rows: Tensor, groups: int, parts: int, block: int) -> Tensor:
    """Rows [..., n, parts dim] as [groups, tiles, dim, parts, block], filled up with ones: loads need no masks."""
    *_, n, width = rows.shape
    dim = width // parts
    whole = pad(rows.reshape(groups, n, parts, dim), (0, 0, 0, 0, 0, -n % block), value=1.0)
    return whole.reshape(groups, triton.cdiv(n, block), block, parts, dim).permute(0, 1, 4, 3, 2).contiguous()


def _rows(rows: Tensor, groups: int, parts: int) -> Tensor:
    """Rows [..., n, parts dim] as [groups, n, tiles, parts, block], blocks of dimensions filled up with ones."""
    *_, n, width = rows.shape
    dim = width // parts
    whole = pad(rows.reshape(groups, n, parts, dim), (0, -dim % _DIMENSIONS), value=1.0)
    tiles = triton.cdiv(dim, _DIMENSIONS)
    return whole.reshape(groups, n, parts, tiles, _DIMENSIONS).transpose(2, 3).contiguous()


def _unlaid(whole: Tensor, rows: Tensor) -> Tensor:
    """What `_rows` laid out, in the shape of the rows."""
    parts = whole.shape[3]
    return whole.transpose(2, 3).flatten(3)[..., : rows.shape[-1] // parts].reshape(rows.shape)


@triton.jit  # type: ignore[untyped-decorator]
def _term(question, candidate, BLOCK_Q: tl.constexpr, BLOCK_C: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    """Numerators and denominators of one dimension, [questions, candidates] each."""
    mean, spread, width = tl.load(question), tl.load(question + BLOCK_Q), tl.load(question + 2 * BLOCK_Q)
    m, v = tl.load(candidate), tl.load(candidate + BLOCK_C)
    difference = mean[:, None] - m[None, :]
    return width[:, None] + difference * difference, spread[:, None] + v[None, :]


@triton.jit
def _reciprocal(x):  # type: ignore[no-untyped-def]
    """1 / x of positive numbers: the root's reciprocal is one instruction of a GPU, a division is many."""
    root = tl.rsqrt(x)
    return root * root


@triton.jit  # type: ignore[untyped-decorator]
def _sums(  # type: ignore[no-untyped-def]
    questions,
    candidates,
    zeros,
    sums,
    n,
    count,
    DIM: tl.constexpr,  # noqa: N803
    BLOCK_Q: tl.constexpr,  # noqa: N803
    BLOCK_C: tl.constexpr,  # noqa: N803
) -> None:
    """One tile of questions and candidates; neighbours share the questions."""
    tiles_q, tiles_c = tl.cdiv(n, BLOCK_Q), tl.cdiv(count, BLOCK_C)
    tile = (tl.program_id(0) // tiles_c).to(tl.int64)
    tile_c, group = tl.program_id(0) % tiles_c, tile // tiles_q
    in_q, in_c = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_C)
    question = questions + tile * (DIM * 3 * BLOCK_Q) + in_q
    candidate = candidates + (group * tiles_c + tile_c) * (DIM * 2 * BLOCK_C) + in_c
    # Read and not made: a thread then gets four candidates side by side, which it also loads at once.
    total = tl.load(zeros + in_q[:, None] * BLOCK_C + in_c[None, :])
    for _ in range(DIM // 2):
        # Two fractions are added as one: reciprocals are the slowest instructions here.
        above, below = _term(question, candidate, BLOCK_Q, BLOCK_C)
        above_too, below_too = _term(question + 3 * BLOCK_Q, candidate + 2 * BLOCK_C, BLOCK_Q, BLOCK_C)
        total += (above * below_too + above_too * below) * _reciprocal(below * below_too)
        question += 6 * BLOCK_Q
        candidate += 4 * BLOCK_C
    if DIM % 2:
        above, below = _term(question, candidate, BLOCK_Q, BLOCK_C)
        total += above * _reciprocal(below)
    q, c = tile % tiles_q * BLOCK_Q + in_q, tile_c * BLOCK_C + in_c
    place = (group * n + q)[:, None] * count + c[None, :]
    tl.store(sums + place, total, mask=(q < n)[:, None] & (c < count)[None, :])


@triton.jit  # type: ignore[untyped-decorator]
def _to_questions(  # type: ignore[no-untyped-def]
    slope,
    questions,
    candidates,
    into,
    n,
    count,
    TILES_D: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    BLOCK_D: tl.constexpr,  # noqa: N803
) -> None:
    """The gradients of one tile of questions and dimensions; neighbours share the slopes."""
    tiles_q = tl.cdiv(n, BLOCK)
    tile, tile_d = tl.program_id(0) // TILES_D, tl.program_id(0) % TILES_D
    group = (tile // tiles_q).to(tl.int64)
    q, in_d = tile % tiles_q * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    # Rows behind the last question read the last and are not written.
    row = group * n + tl.minimum(q, n - 1)
    place = (row[:, None] * TILES_D + tile_d) * (3 * BLOCK_D) + in_d[None, :]
    mean = tl.load(questions + place)
    spread = tl.load(questions + place + BLOCK_D)
    width = tl.load(questions + place + 2 * BLOCK_D)
    of_mean = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    of_spread = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    of_width = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    candidates += (group * count * TILES_D + tile_d) * (2 * BLOCK_D)
    from_row = row * count
    # Only scalars advance: vectors of pointers would pass through shared memory. No range, because Triton's interpreter
    # makes none of a number that is no constant where NumPy is 2.4 or newer.
    c = 0
    while c < count:
        difference = mean - tl.load(candidates + in_d)[None, :]
        share = _reciprocal(spread + tl.load(candidates + BLOCK_D + in_d)[None, :])
        pulled = tl.load(slope + c + from_row)[:, None] * share
        of_width += pulled
        of_mean += pulled * difference
        of_spread += pulled * share * (width + difference * difference)
        candidates += TILES_D * 2 * BLOCK_D
        c += 1
    inside = (q < n)[:, None]
    tl.store(into + place, 2 * of_mean, mask=inside)
    tl.store(into + place + BLOCK_D, -of_spread, mask=inside)
    tl.store(into + place + 2 * BLOCK_D, of_width, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _to_candidates(  # type: ignore[no-untyped-def]
    slope,
    questions,
    candidates,
    into,
    n,
    count,
    TILES_D: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    BLOCK_D: tl.constexpr,  # noqa: N803
) -> None:
    """The gradients of one tile of candidates and dimensions; neighbours share the slopes."""
    tiles_c = tl.cdiv(count, BLOCK)
    tile, tile_d = tl.program_id(0) // TILES_D, tl.program_id(0) % TILES_D
    group = (tile // tiles_c).to(tl.int64)
    c, in_d = tile % tiles_c * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    column = tl.minimum(c, count - 1)
    place = ((group * count + column)[:, None] * TILES_D + tile_d) * (2 * BLOCK_D) + in_d[None, :]
    m = tl.load(candidates + place)
    v = tl.load(candidates + place + BLOCK_D)
    of_mean = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    of_spread = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    questions += (group * n * TILES_D + tile_d) * (3 * BLOCK_D)
    slope += group * n * count
    q = 0
    while q < n:
        difference = tl.load(questions + in_d)[None, :] - m
        share = _reciprocal(tl.load(questions + BLOCK_D + in_d)[None, :] + v)
        pulled = tl.load(slope + column)[:, None] * share
        of_mean += pulled * difference
        of_spread += pulled * share * (tl.load(questions + 2 * BLOCK_D + in_d)[None, :] + difference * difference)
        questions += TILES_D * 3 * BLOCK_D
        slope += count
        q += 1
    inside = (c < count)[:, None]
    tl.store(into + place, -2 * of_mean, mask=inside)
    tl.store(into + place + BLOCK_D, -of_spread, mask=inside)
