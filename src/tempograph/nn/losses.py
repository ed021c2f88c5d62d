"""Losses of a question's answer against all entities or a sample of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from tempograph.nn.inplace import row_blocks


def softmax_loss(
    scores: Tensor, row: Tensor, answer: Tensor, known: tuple[Tensor, Tensor]
) -> Tensor:
    """Mean over questions of log sum exp(scores) - score of the answer, other known answers left out of the sum.

    scores [rows, entities], used up: they are masked in place and become their slopes, being by far the largest tensor
    of a step; row and answer [n], each question with a row of its own; known holds (question, entity) pairs and may
    hold the answers.
    """
    question, entity = known
    masked = scores.detach()
    own = masked[row, answer]
    masked.index_put_((row[question], entity), masked.new_full((), -torch.inf))
    masked[row, answer] = own
    loss: Tensor = _SoftmaxLoss.apply(scores, row, answer)  # type: ignore[no-untyped-call]
    return loss


class _SoftmaxLoss(torch.autograd.Function):
    """Backward turns the scores into their slopes, where they lie: shares, less 1 for the answer."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, row: Tensor, answer: Tensor) -> Tensor:
        if _by_kernels(scores):
            from tempograph.nn.kernels.softmax_kernel import totals

            total = totals(scores)
        else:
            total = torch.cat([torch.logsumexp(scores[some], dim=1) for some in row_blocks(scores)])
        ctx.save_for_backward(scores, total, row, answer)
        return (total[row] - scores[row, answer]).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        scores, total, row, answer = ctx.saved_tensors
        each = slope / len(row)
        # Rows without a question have no share in the loss.
        of_questions = torch.full_like(total, torch.inf).index_copy(0, row, total[row])
        if _by_kernels(scores):
            from tempograph.nn.kernels.softmax_kernel import turn_into_shares

            turn_into_shares(scores, of_questions, each)
        else:
            for some in row_blocks(scores):
                scores[some].sub_(of_questions[some, None]).exp_().mul_(each)
        scores[row, answer] -= each
        return scores, None, None


def _by_kernels(scores: Tensor) -> bool:
    return scores.is_cuda and scores.dtype == torch.float32 and scores.is_contiguous()


def sampled_loss(positive: Tensor, negative: Tensor, excluded: Tensor) -> Tensor:
    """Mean of -log softmax of the positive among itself and its negatives.   [n], [n, negatives], [n, negatives]."""
    negative = negative.masked_fill(excluded, -torch.inf)
    return (
        torch.logsumexp(torch.cat([positive[:, None], negative], dim=1), dim=1) - positive
    ).mean()


def margin_loss(positive: Tensor, negative: Tensor, excluded: Tensor, margin: float) -> Tensor:
    """Mean of what each negative lacks of staying the margin behind its positive.   Shapes as above."""
    lacking = (margin + negative - positive[:, None]).clamp(min=0).masked_fill(excluded, 0)
    return lacking.sum() / (~excluded).sum().clamp(min=1)


def logistic_loss(positive: Tensor, negative: Tensor, excluded: Tensor, margin: float) -> Tensor:
    """Mean of -log sigmoid(margin + positive) and of the mean -log sigmoid(-margin - negative).   Shapes as above."""
    wrong = softplus(margin + negative).masked_fill(excluded, 0).sum(1) / (~excluded).sum(1).clamp(
        min=1
    )
    return (softplus(-margin - positive) + wrong).mean() / 2


def leave_out(x: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Dropout whose chance comes from a generator of our own, so that a resumed run goes on as it would have."""
    kept = torch.rand(x.shape, device=x.device, generator=generator) >= rate
    return x * (kept / (1 - rate))
