"""What an import needs to know of its files, and what to make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, get_args

from tempograph.data.graph import COLUMNS
from tempograph.data.importers.event_formats import CODINGS, Wanted
from tempograph.data.importers.time_parsing import Clock
from tempograph.errors import ConfigError
from tempograph.typing import (
    GRANULARITIES,
    EntityField,
    FileFormat,
    Granularity,
    NonNegativeInt,
    RelationLevel,
    SplitRule,
    check_bounds,
)

_TABLE_SETTINGS: Final = (
    "subject",
    "relation",
    "object",
    "time",
    "header",
    "delimiter",
    "time_format",
)


@dataclass(frozen=True)
class ImportOptions:
    """Where the four parts of a fact stand, how its time is written, and how the facts are split.

    The settings from `subject` to `time_format` describe a table. Its columns are given by name or, for text files
    without a header, by number from 0. Without a delimiter the suffix decides: comma for .csv, tab for .tsv. Without a
    time format the times are ISO dates or integers, whichever the first one is. Integers are steps themselves; dates
    are put on a grid of the granularity, days if there is none.

    Coded events need no such description: `entity` and `relation_level` choose among their columns, by default names
    of actors, and for relations the text of ICEWS and the full code of GDELT. Without a format the first lines decide.

    A faulty row of a table stops the import, or with `skip_bad` is skipped and counted, as those of coded events are.
    """

    subject: str = "subject"
    relation: str = "relation"
    object: str = "object"
    time: str = "time"
    header: bool = True
    delimiter: str | None = None
    time_format: str | None = None
    granularity: Granularity | None = None
    split: SplitRule = "random"
    valid_share: float = 0.1
    test_share: float = 0.1
    seed: NonNegativeInt = 0
    format: FileFormat | None = None
    entity: EntityField | None = None
    relation_level: RelationLevel | None = None
    skip_bad: bool = False

    def __post_init__(self) -> None:
        _choose("format", self.format, (None, "table", *CODINGS))
        self._check_events()
        if len(set(self.columns)) < len(COLUMNS):
            raise ConfigError(
                f"subject, relation, object and time must be four columns, found {self.columns}"
            )
        unnumbered = [
            column for column in self.columns if not (column.isascii() and column.isdigit())
        ]
        if not self.header and unnumbered:
            raise ConfigError(
                f"without a header, columns are given by number from 0, found '{unnumbered[0]}'"
            )
        if self.delimiter is not None and (
            len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n'
        ):
            raise ConfigError(
                f"the delimiter must be one ASCII character such as ',', found {self.delimiter!r}"
            )
        _choose("granularity", self.granularity, (None, *GRANULARITIES))
        _choose("split", self.split, get_args(SplitRule))
        if not (
            self.valid_share >= 0
            and self.test_share >= 0
            and self.valid_share + self.test_share < 1
        ):
            raise ConfigError(
                "valid_share and test_share must be at least 0 and together below 1, "
                f"found {self.valid_share} and {self.test_share}"
            )
        check_bounds(self)
        Clock(self.time_format, self.granularity)

    def _check_events(self) -> None:
        """What is said of coded events fits their format, and is said of nothing else."""
        if self.format == "table" and (self.entity or self.relation_level):
            setting = "entity" if self.entity else "relation_level"
            raise ConfigError(
                f"{setting} is for the formats {', '.join(CODINGS)}; of a table, name the columns"
            )
        if self.format is None or self.format == "table":
            return
        if self.described:
            raise ConfigError(
                f"the format {self.format} knows its columns and dates; leave out {self.described[0]}"
            )
        _choose(f"the entity of {self.format}", self.entity, (None, *CODINGS[self.format].actors))
        _choose(
            f"the relation_level of {self.format}",
            self.relation_level,
            (None, *CODINGS[self.format].relations),
        )
        if self.granularity == "hour":
            raise ConfigError(
                f"granularity 'hour' is too fine: the events of the format {self.format} have a date alone"
            )

    @property
    def described(self) -> list[str]:
        """The settings that describe a table and are not as they come."""
        return [
            field.name
            for field in fields(self)
            if field.name in _TABLE_SETTINGS and getattr(self, field.name) != field.default
        ]

    @property
    def wanted(self) -> Wanted:
        """What of coded events becomes the parts of a fact."""
        if self.format is None or self.format == "table":
            raise ConfigError(
                f"the format of coded events must be one of {', '.join(CODINGS)}; found '{self.format}'"
            )
        levels = tuple(CODINGS[self.format].relations)
        return Wanted(self.format, self.entity or "name", self.relation_level or levels[0])

    @property
    def columns(self) -> tuple[str, str, str, str]:
        """The columns of subject, relation, object and time."""
        return self.subject, self.relation, self.object, self.time


def _choose(setting: str, value: str | None, known: Sequence[str | None]) -> None:
    if value not in known:
        names = [name for name in known if name]
        raise ConfigError(f"{setting} must be one of {', '.join(names)}; found '{value}'")
