"""Losses of true answers against all entities or a sample of them."""

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
    """logsumexp(scores) - score of the answer, without the other true answers, of each query [n].

    scores [rows, entities] is consumed: the largest tensor of a step is masked in place and then
    overwritten by its own gradient. row and answer [n], one row for each query; known holds
    (query, entity) pairs, the answers themselves allowed.
    """
    query, entity = known
    masked = scores.detach()
    answer_score = masked[row, answer]
    masked.index_put_((row[query], entity), masked.new_full((), -torch.inf))
    masked[row, answer] = answer_score
    losses: Tensor = _SoftmaxLoss.apply(scores, row, answer)
    return losses


class _SoftmaxLoss(torch.autograd.Function):
    """Backward overwrites the scores with their gradient: the softmax, minus 1 for the answer."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, row: Tensor, answer: Tensor) -> Tensor:
        total = _row_logsumexp(scores)
        ctx.save_for_backward(scores, total, row, answer)
        return total[row] - scores[row, answer]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        scores, total, row, answer = ctx.saved_tensors
        # Rows without a query have no gradient.
        scale = torch.zeros_like(total).index_copy(0, row, grad)
        total = torch.full_like(total, torch.inf).index_copy(0, row, total[row])
        _scaled_softmax_(scores, total, scale)
        scores[row, answer] -= grad
        return scores, None, None


def masked_logsumexp(scores: Tensor, left_out: tuple[Tensor, Tensor]) -> Tensor:
    """logsumexp of each row of scores without the pairs (row, column) that are left out, [rows].

    Like `softmax_loss`, it consumes the scores; a row without a candidate has -inf.
    """
    scores.detach().index_put_(left_out, scores.new_full((), -torch.inf))
    totals: Tensor = _LogSumExp.apply(scores)
    return totals


class _LogSumExp(torch.autograd.Function):
    """Backward overwrites the scores with their gradient."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        total = _row_logsumexp(scores)
        ctx.save_for_backward(scores, total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        scores, total = ctx.saved_tensors
        return _scaled_softmax_(scores, total.masked_fill(total == -torch.inf, torch.inf), grad)


def _row_logsumexp(scores: Tensor) -> Tensor:
    if not scores.shape[1]:
        return scores.new_full((len(scores),), -torch.inf)
    if _has_kernels(scores):
        from tempograph.nn.kernels.softmax_kernel import row_logsumexp

        return row_logsumexp(scores)
    parts = [torch.logsumexp(scores[rows], 1) for rows in row_blocks(scores)]
    return torch.cat(parts) if parts else scores.new_empty(0)


def _scaled_softmax_(scores: Tensor, total: Tensor, scale: Tensor) -> Tensor:
    """Overwrite scores with scale * exp(scores - total), total and scale [rows]."""
    if _has_kernels(scores) and scores.numel():
        from tempograph.nn.kernels.softmax_kernel import scaled_softmax_

        scaled_softmax_(scores, total, scale)
    else:
        for rows in row_blocks(scores):
            scores[rows].sub_(total[rows, None]).exp_().mul_(scale[rows, None])
    return scores


def _has_kernels(scores: Tensor) -> bool:
    return scores.is_cuda and scores.dtype == torch.float32 and scores.is_contiguous()


def sampled_loss(positive: Tensor, negative: Tensor, excluded: Tensor) -> Tensor:
    """-log softmax of each positive [n] among itself and its negatives [n, negatives], [n].

    Negatives that are `excluded` [n, negatives] are true answers and do not count.
    """
    negative = negative.masked_fill(excluded, -torch.inf)
    return torch.logsumexp(torch.cat([positive[:, None], negative], dim=1), dim=1) - positive


def corrected_loss(
    positive: Tensor, negative: Tensor, log_expected: Tensor, excluded: tuple[Tensor, Tensor]
) -> Tensor:
    """log(exp(positive) + sum of exp(negative) / expected) - positive of each query, [n].

    positive [n], negative [n, count]; log_expected [n or 1, count] is the logarithm of how often
    each negative is expected to be drawn, so that the sum estimates the one over all entities.
    Pairs (query, column) that are `excluded` are true answers and do not count.
    """
    scores = torch.cat([negative - log_expected, positive[:, None]], dim=1)
    row = torch.arange(len(positive), device=positive.device)
    return softmax_loss(scores, row, torch.full_like(row, negative.shape[1]), excluded)


def margin_loss(positive: Tensor, negative: Tensor, excluded: Tensor, margin: float) -> Tensor:
    """Mean of max(0, margin + negative - positive).   Shapes as in `sampled_loss`."""
    violation = (margin + negative - positive[:, None]).clamp(min=0).masked_fill(excluded, 0)
    return violation.sum() / (~excluded).sum().clamp(min=1)


def logistic_loss(positive: Tensor, negative: Tensor, excluded: Tensor, margin: float) -> Tensor:
    """Half the mean of -log sigmoid(margin + positive) + mean of -log sigmoid(-margin - negative).

    Shapes as in `sampled_loss`.
    """
    negatives = (~excluded).sum(1).clamp(min=1)
    negative_loss = softplus(margin + negative).masked_fill(excluded, 0).sum(1) / negatives
    return (softplus(-margin - positive) + negative_loss).mean() / 2
