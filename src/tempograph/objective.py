"""The loss: softmax cross-entropy of each question against all entities, or against a sample of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tempograph.errors import ConfigError


@dataclass(frozen=True)
class TrainSettings:
    """How a model is trained."""

    epochs: int = 200
    times_per_step: int = 8
    max_facts: int = 3000
    """At most this many target facts of each snapshot and step."""
    negatives: int | Literal["all"] = "all"
    """Entities each question is scored against: all, or a sample for each time and side."""
    targets: Literal["all", "dropped"] = "all"
    """Facts that count in the loss: all of the snapshot, or those whose edge was dropped in this step."""
    learning_rate: float = 0.001
    weight_decay: float = 0.0
    clip: float = 1.0
    patience: int = 10
    """Validations without a better valid MRR before training stops."""
    validate_every: int = 1
    average: float = 0.0
    """Share of the old value in the running average of the weights that is validated and kept; 0 keeps the weights."""
    precision: Literal["32-true", "tf32", "bf16-mixed", "16-mixed"] = "32-true"

    def __post_init__(self) -> None:
        for name in ("epochs", "times_per_step", "max_facts", "patience", "validate_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, found {getattr(self, name)}")
        if self.negatives != "all" and self.negatives < 1:
            raise ConfigError(f"negatives must be 'all' or at least 1, found {self.negatives}")
        if not self.learning_rate > 0 or not self.clip > 0:
            raise ConfigError(f"learning_rate and clip must be above 0, found {self.learning_rate} and {self.clip}")
        if not self.weight_decay >= 0:
            raise ConfigError(f"weight_decay must be at least 0, found {self.weight_decay}")
        if not 0 <= self.average < 1:
            raise ConfigError(f"average must be at least 0 and below 1, found {self.average}")


def softmax_loss(scores: Tensor, row: Tensor, answer: Tensor, known: tuple[Tensor, Tensor]) -> Tensor:
    """Mean over questions of log sum exp(scores) - score of the answer, other known answers left out of the sum.

    scores [rows, entities], used up: they are masked in place, being by far the largest tensor of a step; row and
    answer [n], each question with a row of its own; known holds (question, entity) pairs and may hold the answers.
    """
    question, entity = known
    other = (entity != answer[question]).nonzero()[:, 0]
    scores[row[question[other]], entity[other]] = -torch.inf
    return (torch.logsumexp(scores, dim=1)[row] - scores[row, answer]).mean()


def sampled_loss(positive: Tensor, negative: Tensor, excluded: Tensor) -> Tensor:
    """Mean of -log softmax of the positive among itself and its negatives.   [n], [n, negatives], [n, negatives]."""
    negative = negative.masked_fill(excluded, -torch.inf)
    return (torch.logsumexp(torch.cat([positive[:, None], negative], dim=1), dim=1) - positive).mean()
