"""Settings of ensembles: the parts, the gate and its fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import ClassVar, Literal

from tempograph.errors import ConfigError
from tempograph.typing import (
    InnerFraction,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    check_bounds,
)


@dataclass(frozen=True)
class EnsembleSettings:
    """The parts, what their gate looks at, and how it is fitted."""

    parts: tuple[str, ...] = ()
    """Each a `model`, a `model:preset`, or the path of a finished run folder.

    A model that is named twice is trained twice, from different seeds.
    """
    fit_on: Literal["train", "valid"] = "train"
    """The split that the gate is fitted on.

    `train` holds out some train facts and fits the gate on them, with copies of the parts that are
    trained on the others. `valid` needs no copies, but the ensemble has then learned from valid.
    """
    holdout: InnerFraction = 0.1
    """The share of train facts that are held out for the gate, with `fit_on = "train"`."""
    window: PositiveInt = 8
    """Steps on each side in which the gate counts facts; it counts over all time as well."""
    hidden: PositiveInt = 16
    candidate_hidden: NonNegativeInt = 0
    """Width of the correction of each candidate; 0 for a gate like the paper's, without one."""
    common_neighbors: bool = False
    """Whether the correction looks at the neighbors a candidate shares with the query's entity.

    A forecaster never does, since neighbors come from facts of all times.
    """
    names: bool = False
    """Whether parts that are trained, and the correction, look at the words in names."""
    candidates: PositiveInt = 100
    """Best answers of each part that the gate is fitted on."""
    max_facts: PositiveInt = 50_000
    """Facts that the gate is fitted on, at most."""
    queries_per_step: PositiveInt = 512
    learning_rate: PositiveFloat = 0.01
    steps: PositiveInt = 2000
    """Steps at most; fitting stops at the best MRR on the other half of the facts."""

    aliases: ClassVar[Mapping[str, str]] = {
        "through_others": "common_neighbors",
        "facts": "max_facts",
        "questions_per_step": "queries_per_step",
    }
    earlier_values: ClassVar[Mapping[str, str]] = {"fit_on": "valid"}
    """What earlier versions, which did not have these settings, did."""

    def __post_init__(self) -> None:
        if not self.parts:
            raise ConfigError(
                'an ensemble needs parts, such as parts=["complex", "temp-gru"]; found none'
            )
        check_bounds(self)
        if self.common_neighbors and not self.candidate_hidden:
            raise ConfigError("common_neighbors needs candidate_hidden of at least 1, found 0")


def part_names(parts: Iterable[str]) -> list[str]:
    """Names of the parts: the model or the last part of the path, numbered if not unique."""
    names: list[str] = []
    for part in parts:
        name = PurePath(part.partition(":")[0]).name.strip(".") or "part"
        unique, number = name, 1
        while unique in names:
            number += 1
            unique = f"{name}-{number}"
        names.append(unique)
    return names
