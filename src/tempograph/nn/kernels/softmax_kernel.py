"""The two passes over all scores that a softmax takes, as Triton kernels: sums of exponentials, and shares in place."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 2048
"""Scores of a row that a program holds at once."""


def totals(scores: Tensor) -> Tensor:
    """Log sum exp of each row, [rows, columns] -> [rows]; as `torch.logsumexp`, reading scores once."""
    found = scores.new_full((len(scores),), -torch.inf)
    if scores.numel():
        _totals[len(scores),](scores, found, scores.shape[1], BLOCK=_BLOCK)
    return found


def turn_into_shares(scores: Tensor, total: Tensor, times: Tensor) -> None:
    """Scores [rows, columns] become exp(scores - total) * times, with a total for each row and one number of times."""
    if scores.numel():
        grid = len(scores), triton.cdiv(scores.shape[1], _BLOCK)
        _shares[grid](scores, total, times, scores.shape[1], BLOCK=_BLOCK)


@triton.jit
def _totals(scores, totals, columns, BLOCK: tl.constexpr) -> None:
    """One row; what was summed is made smaller when something larger comes."""
    row = tl.program_id(0).to(tl.int64)
    # Below every score that counts, and finite: scores may be minus infinity.
    largest = -3.0e38
    summed = 0.0
    start = 0
    while start < columns:
        column = start + tl.arange(0, BLOCK)
        score = tl.load(scores + row * columns + column, mask=column < columns, other=-float("inf"))
        larger = tl.maximum(largest, tl.max(score, 0))
        summed = summed * tl.exp(largest - larger) + tl.sum(tl.exp(score - larger), 0)
        largest = larger
        start += BLOCK
    tl.store(totals + row, largest + tl.log(summed))


@triton.jit
def _shares(scores, totals, times, columns, BLOCK: tl.constexpr) -> None:
    """One block of a row."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = scores + row * columns + column
    score = tl.load(place, mask=column < columns, other=-float("inf"))
    tl.store(place, tl.exp(score - tl.load(totals + row)) * tl.load(times), mask=column < columns)
