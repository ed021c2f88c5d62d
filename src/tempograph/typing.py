"""Choices and bounds shared by the library and the command line; cheap to import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

from tempograph.errors import ConfigError

Split = Literal["train", "valid", "test"]
SPLITS: Final[tuple[Split, ...]] = get_args(Split)
HeldOutSplit = Literal["valid", "test"]
"""The facts that a model is not trained on."""

Task = Literal["complete", "forecast"]
"""Whether facts inside a period are completed, from all of it, or forecast, from their past."""
TASKS: Final[tuple[Task, ...]] = get_args(Task)

CompletionProtocol = Literal["strict", "paper"]
"""Whether only train facts make an entity active, or those of all splits, as in the paper."""
COMPLETION_PROTOCOLS: Final[tuple[CompletionProtocol, ...]] = get_args(CompletionProtocol)
ForecastProtocol = Literal["forecast-single", "forecast-multi"]
"""Whether every earlier fact is history, or only those up to the end of the split before."""
FORECAST_PROTOCOLS: Final[tuple[ForecastProtocol, ...]] = get_args(ForecastProtocol)
Protocol = Literal[CompletionProtocol, ForecastProtocol]
"""What a model may know when it is asked about a fact; a task has two protocols."""
PROTOCOLS: Final[tuple[Protocol, ...]] = get_args(Protocol)

Filter = Literal["time", "static", "raw"]
"""Which known answers are left out of a ranking: of the same step, of any step, or none."""
FILTERS: Final[tuple[Filter, ...]] = get_args(Filter)

RankingRules = Literal["tgb"]
"""Another package whose rules of ranking an evaluation can follow: TGB 2.0."""

Asked = Literal["entity", "relation", "time"]
"""The part of a fact that a question asks for; both subjects and objects are entities."""
ASKED: Final[tuple[Asked, ...]] = get_args(Asked)
HeadAsked = Literal["relation", "time"]
"""The part of a fact that a head ranks."""
HEAD_ASKED: Final[tuple[HeadAsked, ...]] = get_args(HeadAsked)
Ask = Literal[Asked, "all"]
"""What an evaluation ranks."""

NewNamesOption = Literal["refuse", "add"]
"""What becomes of facts with unknown names: they are refused, or the names are added."""

EventFormat = Literal["icews", "gdelt"]
FileFormat = Literal["table", EventFormat]
"""The format of files to import."""
EntityField = Literal["name", "code"]
"""Which field of an actor is the entity."""
RelationLevel = Literal["text", "full", "base", "root"]
"""What the relation of an event is: its text, or a part of its CAMEO code."""
Granularity = Literal["hour", "day", "week", "month", "year"]
"""The length of a time step."""
GRANULARITIES: Final[tuple[Granularity, ...]] = get_args(Granularity)
EmptyBound = Literal["open", "unknown"]
"""What an empty start or end of a fact means: it has none, or nobody knows it."""
SplitRule = Literal["random", "chronological"]
"""How facts are divided into train, valid and test."""

LogFormat = Literal["auto", "json", "text"]
"""How the service logs events."""

MODEL_ENTRY_POINTS: Final = "tempograph.models"
"""The group of entry points through which other packages add models."""

Artefact = Literal["table", "ablation", "deviations", "ted", "statistics", "figures"]
"""A part of the paper that can be reproduced."""
ARTEFACTS: Final[tuple[Artefact, ...]] = get_args(Artefact)


@dataclass(frozen=True)
class NumberBounds:
    """NumberBounds of a number, in words and as a test that fails for NaN."""

    words: str
    hold: Callable[[float], bool]


PositiveInt = Annotated[int, NumberBounds("at least 1", lambda value: value >= 1)]


NonNegativeInt = Annotated[int, NumberBounds("at least 0", lambda value: value >= 0)]


NonNegativeFloat = Annotated[float, NumberBounds("at least 0", lambda value: value >= 0)]


PositiveFloat = Annotated[float, NumberBounds("above 0", lambda value: value > 0)]


Fraction = Annotated[float, NumberBounds("between 0 and 1", lambda value: 0 <= value <= 1)]


ProperFraction = Annotated[
    float, NumberBounds("at least 0 and below 1", lambda value: 0 <= value < 1)
]


InnerFraction = Annotated[float, NumberBounds("above 0 and below 1", lambda value: 0 < value < 1)]


def check_bounds(settings: Any) -> None:
    """Raise ConfigError if a field of a dataclass is outside the bounds of its type."""
    for name, hint in get_type_hints(type(settings), include_extras=True).items():
        for bounds in getattr(hint, "__metadata__", ()):
            value = getattr(settings, name)
            if isinstance(bounds, NumberBounds) and not bounds.hold(value):
                raise ConfigError(f"{name} must be {bounds.words}, found {value}")


MetricsCallback = Callable[[dict[str, Any]], None]
"""Called with each line of metrics.jsonl, the seconds `left` and the `part` of an ensemble."""


Progress = Callable[[int, int], None]
"""Called with the amount done and the total, of queries or bytes."""


ProgressOption = Progress | bool | None
"""True for a bar if there is a terminal or notebook, a function to call instead, or neither."""
