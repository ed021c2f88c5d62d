"""What can be chosen by name in the library and on the command line alike; importing it costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

from tempograph.errors import ConfigError

Split = Literal["train", "valid", "test"]
SPLITS: Final[tuple[Split, ...]] = get_args(Split)

Protocol = Literal["strict", "paper"]
"""Whose facts make an entity active: those of train alone, or of all splits as in the authors' code."""
PROTOCOLS: Final[tuple[Protocol, ...]] = get_args(Protocol)

Filter = Literal["time", "static", "raw"]
"""Which known answers are taken out before ranking: those of the same step, those of any step, or none."""
FILTERS: Final[tuple[Filter, ...]] = get_args(Filter)

EventFormat = Literal["icews", "gdelt"]
FileFormat = Literal["table", EventFormat]
"""What files hold."""
EntityField = Literal["name", "code"]
"""What of an actor is an entity."""
RelationLevel = Literal["text", "full", "base", "root"]
"""What of an event is a relation: its text, or so much of its CAMEO code."""
Granularity = Literal["hour", "day", "week", "month", "year"]
"""The length of a time step."""
GRANULARITIES: Final[tuple[Granularity, ...]] = get_args(Granularity)
SplitRule = Literal["random", "chronological"]
"""How facts are divided into train, valid and test."""

Artefact = Literal["table", "ablation", "ted", "statistics", "figures"]
"""What of the paper can be reproduced."""
ARTEFACTS: Final[tuple[Artefact, ...]] = get_args(Artefact)


@dataclass(frozen=True)
class Bounds:
    """Which numbers there may be, in words and as a test; what is not a number at all is none of them."""

    words: str
    hold: Callable[[float], bool]


PositiveInt = Annotated[int, Bounds("at least 1", lambda value: value >= 1)]


NonNegativeInt = Annotated[int, Bounds("at least 0", lambda value: value >= 0)]


NonNegativeFloat = Annotated[float, Bounds("at least 0", lambda value: value >= 0)]


PositiveFloat = Annotated[float, Bounds("above 0", lambda value: value > 0)]


Fraction = Annotated[float, Bounds("between 0 and 1", lambda value: 0 <= value <= 1)]


ProperFraction = Annotated[float, Bounds("at least 0 and below 1", lambda value: 0 <= value < 1)]


def check_bounds(settings: Any) -> None:
    """Refuse the settings of a dataclass if one of them is out of the bounds that its type names."""
    for name, hint in get_type_hints(type(settings), include_extras=True).items():
        for bounds in getattr(hint, "__metadata__", ()):
            value = getattr(settings, name)
            if isinstance(bounds, Bounds) and not bounds.hold(value):
                raise ConfigError(f"{name} must be {bounds.words}, found {value}")


MetricsCallback = Callable[[dict[str, Any]], None]
"""Hears each line of metrics.jsonl, how many seconds are `left` at most, and the `part` of a model made of several."""


Progress = Callable[[int, int], None]
"""Told how much of how much is done: questions, or bytes of files."""
