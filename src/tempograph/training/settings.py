"""Training settings: epochs, optimizer, negatives and what a step takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tempograph.errors import ConfigError
from tempograph.typing import (
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ProperFraction,
    check_bounds,
)


@dataclass(frozen=True)
class TrainSettings:
    """How any model is trained."""

    epochs: PositiveInt = 200
    negatives: int | Literal["all"] = "all"
    """Entities each question is scored against: all, or a sample."""
    optimizer: Literal["adam", "adagrad"] = "adam"
    learning_rate: PositiveFloat = 0.001
    cooldown: Fraction = 0.0
    """Share of the epochs, at the end, in which the learning rate falls in a straight line to a tenth."""
    weight_decay: NonNegativeFloat = 0.0
    clip: NonNegativeFloat = 1.0
    """The longest gradient; longer ones are shortened. 0 leaves them as they are."""
    patience: PositiveInt = 10
    """Validations without a better valid MRR before training stops."""
    validate_every: PositiveInt = 1
    average: ProperFraction = 0.0
    """Share of the old value in the running average of the weights that is validated and kept; 0 keeps the weights."""
    precision: Literal["32-true", "tf32", "bf16-mixed"] = "32-true"

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.negatives != "all" and self.negatives < 1:
            raise ConfigError(f"negatives must be 'all' or at least 1, found {self.negatives}")

    def rate_at(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        warm = self.epochs * (1 - self.cooldown)
        return self.learning_rate * (
            1 - 0.9 * max(0.0, (epoch + 1 - warm) / max(1.0, self.epochs - warm))
        )


@dataclass(frozen=True)
class SnapshotTraining(TrainSettings):
    """Training by whole snapshots; sampled negatives are drawn for each time and side."""

    times_per_step: PositiveInt = 8
    max_facts: PositiveInt = 3000
    """At most this many target facts of each snapshot and step."""
    targets: Literal["all", "dropped"] = "all"
    """Facts that count in the loss: all of the snapshot, or those whose edge was dropped in this step."""


@dataclass(frozen=True)
class FactTraining(TrainSettings):
    """Training by facts; sampled negatives are drawn for each step and, where entities change with time, each time."""

    batch: Literal["facts", "times"] = "facts"
    """What a step takes: so many facts of any time, or all facts of so many times, if memory allows."""
    facts_per_step: PositiveInt = 1000
    times_per_step: PositiveInt = 8
    loss: Literal["softmax", "margin", "logistic"] = "softmax"
    margin: NonNegativeFloat = 1.0
    """What the answer must be ahead of each negative (margin), or the score at which a fact is as likely as not,
    with its sign turned (logistic)."""
    dropout: ProperFraction = 0.0
    """Share of a question's numbers that are left out in a step."""
    n3: NonNegativeFloat = 0.0
    """Weight of the cubed sizes of the vectors of each fact."""
    smoothness: NonNegativeFloat = 0.0
    """Weight of the cubed differences of vectors of consecutive time steps."""


@dataclass(frozen=True)
class PointerTraining(TrainSettings):
    """Training of the pointer; always against all entities."""

    facts_per_step: PositiveInt = 1000
    fact_dropout: ProperFraction = 0.1
    """Share of the train facts that do not vote in a step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.negatives != "all":
            raise ConfigError(
                f"the pointer is trained against all entities, found negatives = {self.negatives}"
            )
