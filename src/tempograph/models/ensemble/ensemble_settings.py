"""The parts of a ensemble by name, and how their gate is fitted, as settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from tempograph.errors import ConfigError
from tempograph.typing import NonNegativeInt, PositiveFloat, PositiveInt, check_bounds


@dataclass(frozen=True)
class EnsembleSettings:
    """Which parts are mixed, what the gate sees, and how it is fitted."""

    parts: tuple[str, ...] = ()
    """Each a `model`, a `model:preset`, or the path of a finished run folder; named again, one is trained once more,
    from another seed."""
    window: PositiveInt = 8
    """Steps on each side in which the gate counts what is near; it counts over the whole time as well."""
    hidden: PositiveInt = 16
    candidate_hidden: NonNegativeInt = 0
    """Width of what looks at each candidate: what the parts think of it and how often and near it stood in facts like
    the one asked about. 0 looks at the question alone, as the paper's gate does."""
    through_others: bool = False
    """Whether what looks at a candidate is told how well the question's entity knows it through others."""
    candidates: PositiveInt = 100
    """The best answers of each part that the gate is fitted on."""
    facts: PositiveInt = 50_000
    """At most so many facts of valid are kept in memory to fit the gate."""
    questions_per_step: PositiveInt = 512
    learning_rate: PositiveFloat = 0.01
    steps: PositiveInt = 2000
    """At most; the gate that is best on the other half of valid comes sooner."""

    def __post_init__(self) -> None:
        if not self.parts:
            raise ConfigError(
                'a ensemble needs parts, such as parts=["complex", "temp-gru"]; found none'
            )
        check_bounds(self)
        if self.through_others and not self.candidate_hidden:
            raise ConfigError(
                "through_others is told to what looks at candidates: candidate_hidden must be at least 1"
            )


def part_names(parts: Iterable[str]) -> list[str]:
    """What the parts are called: by their model or the last part of their path, numbered where that is the same."""
    names: list[str] = []
    for part in parts:
        name = PurePath(part.partition(":")[0]).name.strip(".") or "part"
        unique, number = name, 1
        while unique in names:
            number += 1
            unique = f"{name}-{number}"
        names.append(unique)
    return names
