"""What can be chosen by name in the library and on the command line alike; importing it costs nothing."""

from __future__ import annotations

from typing import Final, Literal, get_args

Split = Literal["train", "valid", "test"]
SPLITS: Final[tuple[Split, ...]] = get_args(Split)

Protocol = Literal["strict", "paper"]
"""Whose facts make an entity active: those of train alone, or of all splits as in the authors' code."""
PROTOCOLS: Final[tuple[Protocol, ...]] = get_args(Protocol)

Filter = Literal["time", "static", "raw"]
"""Which known answers are taken out before ranking: those of the same step, those of any step, or none."""
FILTERS: Final[tuple[Filter, ...]] = get_args(Filter)

EventFormat = Literal["icews", "gdelt"]
Format = Literal["table", EventFormat]
"""What files hold."""
Entity = Literal["name", "code"]
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
