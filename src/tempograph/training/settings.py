"""Settings of training by gradient: epochs, optimizer, negatives and batches."""

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

Sampling = Literal["uniform", "frequency", "batch", "mixed"]
"""Drawn uniformly, by the facts of an entity, from the step, or half from it, half uniformly."""


@dataclass(frozen=True)
class TrainSettings:
    """Settings of every model that is trained by gradient."""

    epochs: PositiveInt = 200
    negatives: int | Literal["all"] = "all"
    """Entities that each query is scored against: all, or the size of a sample."""
    optimizer: Literal["adam", "adagrad"] = "adam"
    learning_rate: PositiveFloat = 0.001
    cooldown: Fraction = 0.0
    """The last fraction of the epochs, in which the learning rate falls linearly to a tenth."""
    weight_decay: NonNegativeFloat = 0.0
    clip: NonNegativeFloat = 1.0
    """The largest norm of a gradient; 0 for no clipping."""
    patience: PositiveInt = 10
    """Validations without a better valid MRR before training stops."""
    validate_every: PositiveInt = 1
    average: ProperFraction = 0.0
    """Decay of the running average of the weights, which is validated and saved; 0 for none."""
    precision: Literal["32-true", "tf32", "bf16-mixed"] = "32-true"
    tables: Literal["copied", "sharded"] = "copied"
    """Whether each of several processes holds all vectors of entities, or its share of them."""

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.negatives != "all" and self.negatives < 1:
            raise ConfigError(f"negatives must be 'all' or at least 1, found {self.negatives}")

    def _refuse_unless_sampled(self, what: str) -> None:
        if self.negatives == "all":
            raise ConfigError(
                f"{what} needs a number of negatives, found 'all'; set train.negatives=4096"
            )


@dataclass(frozen=True)
class SnapshotTrainSettings(TrainSettings):
    """Training by whole snapshots; sampled negatives are drawn for each time and side."""

    times_per_step: PositiveInt = 8
    max_facts: PositiveInt = 3000
    """The largest number of target facts per snapshot and step."""
    reduction: Literal["mean", "sum"] = "mean"
    """The mean over the queries of a step, or the sum over times and directions of their means.

    The scale of the loss matters for weight_decay and clip.
    """
    targets: Literal["all", "dropped"] = "all"
    """Facts in the loss: all of the snapshot, or those whose edge was dropped in this step."""
    negative_sampling: Literal["uncorrected", "uniform", "frequency"] = "uncorrected"
    """How a number of negatives is drawn, and corrected for how often each is expected.

    `uncorrected` is uniform, and takes the sample for all entities as published losses do.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.negative_sampling != "uncorrected":
            self._refuse_unless_sampled(f"negative_sampling {self.negative_sampling}")


@dataclass(frozen=True)
class FactTrainSettings(TrainSettings):
    """Training by facts; sampled negatives are drawn for each step.

    They are drawn for each time of a step if entities change with time.
    """

    batch: Literal["facts", "times"] = "facts"
    """A step takes facts of any time, or all facts of some times, if memory allows."""
    facts_per_step: PositiveInt = 1000
    times_per_step: PositiveInt = 8
    negative_sampling: Literal["uncorrected"] | Sampling = "uncorrected"
    """How a number of negatives is drawn, and corrected for how often each is expected.

    `uncorrected` is uniform, and takes the sample for all entities as published losses do.
    """
    sparse_gradients: bool = False
    """Whether a step reads and changes only the entities in it; with a number of negatives."""
    loss: Literal["softmax", "margin", "logistic"] = "softmax"
    margin: NonNegativeFloat = 1.0
    """The margin of the answer over each negative (margin), or the bias of scores (logistic)."""
    dropout: ProperFraction = 0.0
    """Dropout of the query vectors."""
    n3: NonNegativeFloat = 0.0
    """Weight of the N3 penalty: cubed norms of the embeddings of each fact."""
    smoothness: NonNegativeFloat = 0.0
    """Weight of the cubed differences between embeddings of consecutive steps."""
    season_penalty: NonNegativeFloat = 0.0
    """Weight of the squared season amplitudes of each fact's entities and relation (ATiSE)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.negative_sampling != "uncorrected":
            self._refuse_unless_sampled(f"negative_sampling {self.negative_sampling}")
            if self.loss != "softmax":
                raise ConfigError(
                    f"loss {self.loss} takes negatives as they are drawn; "
                    "set train.negative_sampling=uncorrected"
                )
            if self.negative_sampling in ("batch", "mixed") and self.batch != "facts":
                raise ConfigError(
                    f"negative_sampling {self.negative_sampling} needs steps of random facts; "
                    "set train.batch=facts or train.negative_sampling=uniform"
                )
        if self.sparse_gradients:
            self._check_sparse()

    def _check_sparse(self) -> None:
        self._refuse_unless_sampled("sparse_gradients")
        if self.optimizer != "adagrad":
            raise ConfigError(
                f"sparse_gradients are for optimizer adagrad, found {self.optimizer}, "
                "which moves all entities in every step; set train.optimizer=adagrad"
            )
        for name in ("clip", "weight_decay", "average"):
            if getattr(self, name):
                raise ConfigError(
                    f"{name} would touch all entities in every step, and sparse_gradients do not; "
                    f"set train.{name}=0"
                )


@dataclass(frozen=True)
class PointerTrainSettings(TrainSettings):
    """Training of the pointer; always against all entities."""

    facts_per_step: PositiveInt = 1000
    fact_dropout: ProperFraction = 0.1
    """The fraction of train facts that do not vote in a step."""
    name_dropout: ProperFraction = 0.5
    """The fraction of a vector of names that does not count in a step, with model.names."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.negatives != "all":
            raise ConfigError(
                f"the pointer is trained against all entities, found negatives = {self.negatives}; "
                "set train.negatives=all"
            )
