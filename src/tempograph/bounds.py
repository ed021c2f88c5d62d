"""The numbers that a setting can take, said in its type and checked in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

from tempograph.errors import ConfigError


@dataclass(frozen=True)
class Bounds:
    """Which numbers there may be, in words and as a test; what is not a number at all is none of them."""

    words: str
    hold: Callable[[float], bool]


Count = Annotated[int, Bounds("at least 1", lambda value: value >= 1)]
Natural = Annotated[int, Bounds("at least 0", lambda value: value >= 0)]
Amount = Annotated[float, Bounds("at least 0", lambda value: value >= 0)]
Positive = Annotated[float, Bounds("above 0", lambda value: value > 0)]
Share = Annotated[float, Bounds("between 0 and 1", lambda value: 0 <= value <= 1)]
Part = Annotated[float, Bounds("at least 0 and below 1", lambda value: 0 <= value < 1)]


def check_bounds(settings: Any) -> None:
    """Refuse the settings of a dataclass if one of them is out of the bounds that its type names."""
    for name, hint in get_type_hints(type(settings), include_extras=True).items():
        for bounds in getattr(hint, "__metadata__", ()):
            value = getattr(settings, name)
            if isinstance(bounds, Bounds) and not bounds.hold(value):
                raise ConfigError(f"{name} must be {bounds.words}, found {value}")
