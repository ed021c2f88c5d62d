"""The sum of the Gaussian decoder that is no matrix product, as Triton kernels; twin: `decoders.entity_divergence`."""

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
def _term(question, candidate, BLOCK_Q: tl.constexpr, BLOCK_C: tl.constexpr):
    """Numerators and denominators of one dimension, [questions, candidates] each."""
    mean, spread, width = (
        tl.load(question),
        tl.load(question + BLOCK_Q),
        tl.load(question + 2 * BLOCK_Q),
    )
    m, v = tl.load(candidate), tl.load(candidate + BLOCK_C)
    difference = mean[:, None] - m[None, :]
    return width[:, None] + difference * difference, spread[:, None] + v[None, :]


@triton.jit
def _reciprocal(x):
    """1 / x of positive numbers: the root's reciprocal is one instruction of a GPU, a division is many."""
    root = tl.rsqrt(x)
    return root * root


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
    question = questions + tile_q * (DIM * 3 * BLOCK_Q) + in_q
    candidate = candidates + tile_c * (DIM * 2 * BLOCK_C) + in_c
    # Read and not made: a thread then gets four candidates side by side, which it also loads at once.
    total = tl.load(zeros + in_q[:, None] * BLOCK_C + in_c[None, :])
    for _ in range(DIM // 2):
        # Two fractions are added as one: reciprocals are the slowest instructions here.
        above, below = _term(question, candidate, BLOCK_Q, BLOCK_C)
        above_too, below_too = _term(
            question + 3 * BLOCK_Q, candidate + 2 * BLOCK_C, BLOCK_Q, BLOCK_C
        )
        total += (above * below_too + above_too * below) * _reciprocal(below * below_too)
        question += 6 * BLOCK_Q
        candidate += 4 * BLOCK_C
    if DIM % 2:
        above, below = _term(question, candidate, BLOCK_Q, BLOCK_C)
        total += above * _reciprocal(below)
    store_sums(sums, total, n, count, BLOCK_Q, BLOCK_C)


@triton.jit
def _to_questions(
    slope,
    questions,
    candidates,
    into,
    n,
    count,
    row_step,
    other_step,
    TILES_D: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """The gradients of one tile of questions and dimensions."""
    group, tile_d, q, place, inside = rows_of_program(n, 3, TILES_D, BLOCK, BLOCK_D)
    in_d = tl.arange(0, BLOCK_D)
    mean = tl.load(questions + place)
    spread = tl.load(questions + place + BLOCK_D)
    width = tl.load(questions + place + 2 * BLOCK_D)
    of_mean = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    of_spread = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    of_width = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    candidates += (group * count * TILES_D + tile_d) * (2 * BLOCK_D)
    slope += group * n * count
    from_row = q.to(tl.int64) * row_step
    # Only scalars advance: vectors of pointers would pass through shared memory. No range, because Triton's interpreter
    # makes none of a number that is no constant where NumPy is 2.4 or newer.
    c = 0
    while c < count:
        difference = mean - tl.load(candidates + in_d)[None, :]
        share = _reciprocal(spread + tl.load(candidates + BLOCK_D + in_d)[None, :])
        pulled = tl.load(slope + from_row)[:, None] * share
        of_width += pulled
        of_mean += pulled * difference
        of_spread += pulled * share * (width + difference * difference)
        candidates += TILES_D * 2 * BLOCK_D
        slope += other_step
        c += 1
    tl.store(into + place, 2 * of_mean, mask=inside)
    tl.store(into + place + BLOCK_D, -of_spread, mask=inside)
    tl.store(into + place + 2 * BLOCK_D, of_width, mask=inside)


@triton.jit
def _to_candidates(
    slope,
    candidates,
    questions,
    into,
    count,
    n,
    row_step,
    other_step,
    TILES_D: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """The gradients of one tile of candidates and dimensions."""
    group, tile_d, c, place, inside = rows_of_program(count, 2, TILES_D, BLOCK, BLOCK_D)
    in_d = tl.arange(0, BLOCK_D)
    m = tl.load(candidates + place)
    v = tl.load(candidates + place + BLOCK_D)
    of_mean = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    of_spread = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    questions += (group * n * TILES_D + tile_d) * (3 * BLOCK_D)
    slope += group * n * count
    from_row = c.to(tl.int64) * row_step
    q = 0
    while q < n:
        difference = tl.load(questions + in_d)[None, :] - m
        share = _reciprocal(tl.load(questions + BLOCK_D + in_d)[None, :] + v)
        pulled = tl.load(slope + from_row)[:, None] * share
        of_mean += pulled * difference
        of_spread += (
            pulled
            * share
            * (tl.load(questions + 2 * BLOCK_D + in_d)[None, :] + difference * difference)
        )
        questions += TILES_D * 3 * BLOCK_D
        slope += other_step
        q += 1
    tl.store(into + place, -2 * of_mean, mask=inside)
    tl.store(into + place + BLOCK_D, -of_spread, mask=inside)


_TERM = Term(_sums, _to_questions, _to_candidates, in_question=3, in_candidate=2)


def entity_divergence(question: Tensor, candidates: Tensor) -> Tensor:
    """As `decoders.entity_divergence`, in single precision."""
    return sum_terms(_TERM, question, candidates)
