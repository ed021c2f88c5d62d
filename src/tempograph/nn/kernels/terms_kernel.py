"""Sums over dimensions of a term of each question and each candidate, by Triton kernels of the term.

Sums stay in registers and add up in a fixed order; no tensor of questions x candidates x dimensions is made.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

# Sides of tiles, shorter than a program has threads: longer ones would pass through shared memory at every step.
_ROWS = 64
_DIMENSIONS = 32


class Term(NamedTuple):
    """A term by its kernels: sums of tiles of questions and candidates, and their slopes to either side.

    The last two take the slopes, the rows they are for, the others, where the gradients go, how many there are of both,
    and how far it is from a slope to that of the next row and of the next other. A question has `in_question` numbers
    for each dimension, a candidate `in_candidate`: means and variances, say.
    """

    sums: Any
    to_questions: Any
    to_candidates: Any
    in_question: int
    in_candidate: int


def sum_terms(term: Term, question: Tensor, candidates: Tensor) -> Tensor:
    """Of questions [..., n, numbers] and candidates [..., count, numbers], equal in all else -> [..., n, count]."""
    sums: Tensor = _SumTerms.apply(term, question, candidates)
    return sums


class _SumTerms(torch.autograd.Function):
    """Forward sums over dimensions; backward makes all terms again and sums them over candidates or questions."""

    @staticmethod
    def forward(ctx: Any, term: Term, question: Tensor, candidates: Tensor) -> Tensor:
        """Shapes as in `sum_terms`."""
        ctx.save_for_backward(question, candidates)
        ctx.term = term
        *leading, n, width = question.shape
        groups, count = math.prod(leading), candidates.shape[-2]
        sums = question.new_empty(*leading, n, count)
        block_q, block_c = _block(n), _block(count)
        term.sums[(groups * triton.cdiv(n, block_q) * triton.cdiv(count, block_c),)](
            _tiles(question, groups, term.in_question, block_q),
            _tiles(candidates, groups, term.in_candidate, block_c),
            question.new_zeros(block_q, block_c),
            sums,
            n,
            count,
            DIM=width // term.in_question,
            BLOCK_Q=block_q,
            BLOCK_C=block_c,
        )
        return sums

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        """The slopes of the sums -> of questions and candidates."""
        question, candidates = ctx.saved_tensors
        term, slope = ctx.term, slopes[0].contiguous()
        *leading, n, count = slope.shape
        groups = math.prod(leading)
        laid = (
            _rows(question, groups, term.in_question),
            _rows(candidates, groups, term.in_candidate),
        )
        tiles = laid[0].shape[2]
        found: list[Tensor | None] = [None, None]
        kernels, sizes, steps = (term.to_questions, term.to_candidates), (n, count), (count, 1)
        for mine, other in ((0, 1), (1, 0)):
            if ctx.needs_input_grad[1 + mine]:
                into, block = torch.empty_like(laid[mine]), _block(sizes[mine])
                kernels[mine][(groups * triton.cdiv(sizes[mine], block) * tiles,)](
                    slope,
                    laid[mine],
                    laid[other],
                    into,
                    sizes[mine],
                    sizes[other],
                    steps[mine],
                    steps[other],
                    TILES_D=tiles,
                    BLOCK=block,
                    BLOCK_D=_DIMENSIONS,
                    num_warps=8,
                )
                found[mine] = _unlaid(into, ctx.saved_tensors[mine])
        return None, *found


def _block(rows: int) -> int:
    return next((block for block in (16, 32) if rows <= block), _ROWS)


def _tiles(rows: Tensor, groups: int, parts: int, block: int) -> Tensor:
    """Rows [..., n, parts dim] as [groups, tiles, dim, parts, block], filled up with ones: loads need no masks."""
    *_, n, width = rows.shape
    dim = width // parts
    whole = pad(rows.reshape(groups, n, parts, dim), (0, 0, 0, 0, 0, -n % block), value=1.0)
    return (
        whole.reshape(groups, triton.cdiv(n, block), block, parts, dim)
        .permute(0, 1, 4, 3, 2)
        .contiguous()
    )


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


@triton.jit
def tiles_of_program(n, count, BLOCK_Q: tl.constexpr, BLOCK_C: tl.constexpr):
    """Its tile of questions and its tile of candidates, each among all groups; neighbours share the questions."""
    tiles_c = tl.cdiv(count, BLOCK_C)
    tile = (tl.program_id(0) // tiles_c).to(tl.int64)
    return tile, tile // tl.cdiv(n, BLOCK_Q) * tiles_c + tl.program_id(0) % tiles_c


@triton.jit
def store_sums(sums, total, n, count, BLOCK_Q: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sums of its tile; where they go is found last, so that no register holds it meanwhile."""
    tiles_q, tiles_c = tl.cdiv(n, BLOCK_Q), tl.cdiv(count, BLOCK_C)
    tile = (tl.program_id(0) // tiles_c).to(tl.int64)
    q = tile % tiles_q * BLOCK_Q + tl.arange(0, BLOCK_Q)
    c = tl.program_id(0) % tiles_c * BLOCK_C + tl.arange(0, BLOCK_C)
    place = (tile // tiles_q * n + q)[:, None] * count + c[None, :]
    tl.store(sums + place, total, mask=(q < n)[:, None] & (c < count)[None, :])


@triton.jit
def rows_of_program(
    rows, NUMBERS: tl.constexpr, TILES_D: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr
):
    """Its group, its tile of dimensions, its rows in the group, their places and which are there.

    Rows behind the last read the last and are not written. Neighbours share the rows.
    """
    tiles = tl.cdiv(rows, BLOCK)
    tile, tile_d = tl.program_id(0) // TILES_D, tl.program_id(0) % TILES_D
    group = (tile // tiles).to(tl.int64)
    row = tile % tiles * BLOCK + tl.arange(0, BLOCK)
    read = tl.minimum(row, rows - 1)
    place = ((group * rows + read)[:, None] * TILES_D + tile_d) * (NUMBERS * BLOCK_D) + tl.arange(
        0, BLOCK_D
    )[None, :]
    return group, tile_d, read, place, (row < rows)[:, None]
