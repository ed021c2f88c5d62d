"""The two passes of a softmax over all scores as Triton kernels."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 2048
"""Scores of a row per program."""


def row_logsumexp(scores: Tensor) -> Tensor:
    """`torch.logsumexp` of each row, [rows, columns] -> [rows], reading the scores once."""
    out = scores.new_full((len(scores),), -torch.inf)
    if scores.numel():
        _logsumexp_kernel[len(scores),](scores, out, scores.shape[1], BLOCK=_BLOCK)
    return out


def scaled_softmax_(scores: Tensor, total: Tensor, scale: Tensor) -> None:
    """Overwrite scores [rows, columns] by exp(scores - total [rows]) * scale [rows]."""
    if scores.numel():
        grid = len(scores), triton.cdiv(scores.shape[1], _BLOCK)
        _softmax_kernel[grid](scores, total, scale, scores.shape[1], BLOCK=_BLOCK)


@triton.jit
def _logsumexp_kernel(scores, out, columns, BLOCK: tl.constexpr) -> None:
    """One row; the running sum is rescaled when the maximum grows."""
    row = tl.program_id(0).to(tl.int64)
    # Below every score that counts, and finite: scores may be minus infinity.
    largest = -3.0e38
    total = 0.0
    start = 0
    while start < columns:
        column = start + tl.arange(0, BLOCK)
        score = tl.load(scores + row * columns + column, mask=column < columns, other=-float("inf"))
        larger = tl.maximum(largest, tl.max(score, 0))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(score - larger), 0)
        largest = larger
        start += BLOCK
    tl.store(out + row, largest + tl.log(total))


@triton.jit
def _softmax_kernel(scores, totals, scale, columns, BLOCK: tl.constexpr) -> None:
    """One block of a row."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    cell = scores + row * columns + column
    score = tl.load(cell, mask=column < columns, other=-float("inf"))
    tl.store(
        cell, tl.exp(score - tl.load(totals + row)) * tl.load(scale + row), mask=column < columns
    )
