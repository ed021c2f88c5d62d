"""What training lowers: losses of a question's answer against all entities or a sample of them, and their settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from tempograph.bounds import Amount, Count, Part, Positive, Share, check_bounds
from tempograph.errors import ConfigError
from tempograph.known import KnownAnswers
from tempograph.layers.cells import blocks
from tempograph.timeline import Queries, Timeline


@dataclass(frozen=True)
class TrainSettings:
    """How any model is trained."""

    epochs: Count = 200
    negatives: int | Literal["all"] = "all"
    """Entities each question is scored against: all, or a sample."""
    optimizer: Literal["adam", "adagrad"] = "adam"
    learning_rate: Positive = 0.001
    cooldown: Share = 0.0
    """Share of the epochs, at the end, in which the learning rate falls in a straight line to a tenth."""
    weight_decay: Amount = 0.0
    clip: Amount = 1.0
    """The longest gradient; longer ones are shortened. 0 leaves them as they are."""
    patience: Count = 10
    """Validations without a better valid MRR before training stops."""
    validate_every: Count = 1
    average: Part = 0.0
    """Share of the old value in the running average of the weights that is validated and kept; 0 keeps the weights."""
    precision: Literal["32-true", "tf32", "bf16-mixed"] = "32-true"

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.negatives != "all" and self.negatives < 1:
            raise ConfigError(f"negatives must be 'all' or at least 1, found {self.negatives}")

    def rate_at(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        warm = self.epochs * (1 - self.cooldown)
        return self.learning_rate * (1 - 0.9 * max(0.0, (epoch + 1 - warm) / max(1.0, self.epochs - warm)))


@dataclass(frozen=True)
class SnapshotTraining(TrainSettings):
    """Training by whole snapshots; sampled negatives are drawn for each time and side."""

    times_per_step: Count = 8
    max_facts: Count = 3000
    """At most this many target facts of each snapshot and step."""
    targets: Literal["all", "dropped"] = "all"
    """Facts that count in the loss: all of the snapshot, or those whose edge was dropped in this step."""


@dataclass(frozen=True)
class FactTraining(TrainSettings):
    """Training by facts; sampled negatives are drawn for each step and, where entities change with time, each time."""

    batch: Literal["facts", "times"] = "facts"
    """What a step takes: so many facts of any time, or all facts of so many times, if memory allows."""
    facts_per_step: Count = 1000
    times_per_step: Count = 8
    loss: Literal["softmax", "margin", "logistic"] = "softmax"
    margin: Amount = 1.0
    """What the answer must be ahead of each negative (margin), or the score at which a fact is as likely as not,
    with its sign turned (logistic)."""
    dropout: Part = 0.0
    """Share of a question's numbers that are left out in a step."""
    n3: Amount = 0.0
    """Weight of the cubed sizes of the vectors of each fact."""
    smoothness: Amount = 0.0
    """Weight of the cubed differences of vectors of consecutive time steps."""


class Objective(nn.Module, ABC):
    """What a training step lowers, as a module so that it can run in several processes."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline

    @cached_property
    def known(self) -> KnownAnswers:
        """The answers that train facts make true."""
        return KnownAnswers(self.timeline.facts, self.timeline.sizes)

    def true_answers(self, queries: Queries, answer: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs (row of the question, answer that train facts make true), its own [n] perhaps more than once."""
        if answer.is_cuda and 16 * self.known.most <= self.timeline.num_entities:
            return self.known.padded(queries, answer)
        return self.known(queries)

    def shuffled_facts(self, at_once: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Positions of all train facts, in a new order, some at once."""
        order = torch.randperm(len(self.timeline.facts), device=self.timeline.device, generator=generator)
        return torch.split(order, at_once)

    def shuffled_times(self, at_once: int, generator: torch.Generator) -> Sequence[Tensor]:
        """All times with train facts, in a new order, some at once."""
        busy = torch.unique(self.timeline.facts[:, 3])
        order = torch.randperm(len(busy), device=busy.device, generator=generator)
        return torch.split(busy[order], at_once)

    @abstractmethod
    def batches(self, generator: torch.Generator) -> Sequence[Tensor]:
        """What the steps of an epoch take, in a new order each time."""

    @abstractmethod
    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """The loss of one step, a scalar."""


def softmax_loss(scores: Tensor, row: Tensor, answer: Tensor, known: tuple[Tensor, Tensor]) -> Tensor:
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
            from tempograph.layers.softmax_kernel import totals

            total = totals(scores)
        else:
            total = torch.cat([torch.logsumexp(scores[some], dim=1) for some in blocks(scores)])
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
            from tempograph.layers.softmax_kernel import turn_into_shares

            turn_into_shares(scores, of_questions, each)
        else:
            for some in blocks(scores):
                scores[some].sub_(of_questions[some, None]).exp_().mul_(each)
        scores[row, answer] -= each
        return scores, None, None


def _by_kernels(scores: Tensor) -> bool:
    return scores.is_cuda and scores.dtype == torch.float32 and scores.is_contiguous()


def sampled_loss(positive: Tensor, negative: Tensor, excluded: Tensor) -> Tensor:
    """Mean of -log softmax of the positive among itself and its negatives.   [n], [n, negatives], [n, negatives]."""
    negative = negative.masked_fill(excluded, -torch.inf)
    return (torch.logsumexp(torch.cat([positive[:, None], negative], dim=1), dim=1) - positive).mean()


def margin_loss(positive: Tensor, negative: Tensor, excluded: Tensor, margin: float) -> Tensor:
    """Mean of what each negative lacks of staying the margin behind its positive.   Shapes as above."""
    lacking = (margin + negative - positive[:, None]).clamp(min=0).masked_fill(excluded, 0)
    return lacking.sum() / (~excluded).sum().clamp(min=1)


def logistic_loss(positive: Tensor, negative: Tensor, excluded: Tensor, margin: float) -> Tensor:
    """Mean of -log sigmoid(margin + positive) and of the mean -log sigmoid(-margin - negative).   Shapes as above."""
    wrong = softplus(margin + negative).masked_fill(excluded, 0).sum(1) / (~excluded).sum(1).clamp(min=1)
    return (softplus(-margin - positive) + wrong).mean() / 2


def leave_out(x: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Dropout whose chance comes from a generator of our own, so that a resumed run goes on as it would have."""
    kept = torch.rand(x.shape, device=x.device, generator=generator) >= rate
    return x * (kept / (1 - rate))
