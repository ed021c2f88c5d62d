"""Sums of absolute differences as Triton kernels; `torch.cdist` is their twin."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from tempograph.nn.kernels.terms_kernel import (
    Term,
    rows_of_program,
    store_sums,
    sum_terms,
    tiles_of_program,
)


@triton.jit
def _sums(
    questions,
    candidates,
    zeros,
    sums,
    n,
    count,
    DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_C: tl.constexpr,
) -> None:
    """One tile of questions and candidates."""
    tile_q, tile_c = tiles_of_program(n, count, BLOCK_Q, BLOCK_C)
    in_q, in_c = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_C)
    question = questions + tile_q * (DIM * BLOCK_Q) + in_q
    candidate = candidates + tile_c * (DIM * BLOCK_C) + in_c
    # Read and not made: a thread then gets four candidates side by side, which it also loads at once.
    total = tl.load(zeros + in_q[:, None] * BLOCK_C + in_c[None, :])
    for _ in range(DIM):
        total += tl.abs(tl.load(question)[:, None] - tl.load(candidate)[None, :])
        question += BLOCK_Q
        candidate += BLOCK_C
    store_sums(sums, total, n, count, BLOCK_Q, BLOCK_C)


@triton.jit
def _pull(slope, difference):
    """The slope with the sign of the difference, nothing where there is none."""
    return tl.where(difference > 0, slope, tl.where(difference < 0, -slope, 0.0))


@triton.jit
def _to_rows(
    slope,
    mine,
    others,
    into,
    rows,
    count,
    row_step,
    other_step,
    TILES_D: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """The gradients of one tile of questions, or of candidates, and dimensions: either pulls the other alike."""
    group, tile_d, row, place, inside = rows_of_program(rows, 1, TILES_D, BLOCK, BLOCK_D)
    in_d = tl.arange(0, BLOCK_D)
    vector = tl.load(mine + place)
    total = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    others += (group * count * TILES_D + tile_d) * BLOCK_D
    slope += group * rows * count
    from_row = row.to(tl.int64) * row_step
    # Only scalars advance, and no range: as in `divergence_kernel`.
    other = 0
    while other < count:
        total += _pull(tl.load(slope + from_row)[:, None], vector - tl.load(others + in_d)[None, :])
        others += TILES_D * BLOCK_D
        slope += other_step
        other += 1
    tl.store(into + place, total, mask=inside)


_TERM = Term(_sums, _to_rows, _to_rows, in_question=1, in_candidate=1)


def distances(question: Tensor, candidates: Tensor) -> Tensor:
    """Questions [..., n, dim] and candidates [..., count, dim], in single precision -> [..., n, count]."""
    return sum_terms(_TERM, question, candidates)
