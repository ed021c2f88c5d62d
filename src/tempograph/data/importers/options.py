"""Options of an import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, get_args

from tempograph.data.graph import COLUMNS
from tempograph.data.importers.event_formats import EVENT_SCHEMAS, EventColumns
from tempograph.data.importers.text_encoding import encoding_name
from tempograph.data.importers.time_grid import TimeGrid
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

_TABLE_SETTINGS: Final = (*COLUMNS, "header", "delimiter", "encoding", "time_format", "day_first")


@dataclass(frozen=True)
class ImportOptions:
    """Which columns hold a fact, how its time is written, and how the facts are split.

    The settings from `subject` to `day_first` describe a table. Columns are given by name or, for
    text files without a header, by number from 0. By default the first line decides on the
    delimiter. A text is UTF-8, UTF-16 if it has a byte order mark, or else Windows-1252.

    Without a time format, times are dates in any common format or integers, as the first one is.
    `day_first` says how to read dates such as 01/02/2024 if no other date tells. Integers are
    steps; dates go on a grid of the granularity, by default days.

    Names are trimmed and normalized to the Unicode form NFC, or left as written with `keep_names`.

    Coded events need no description: `entity` and `relation_level` choose among their columns, by
    default the names of actors, and for relations the text of ICEWS and the full code of GDELT.
    Without a format the first lines decide.

    A faulty row of a table stops the import, or with `skip_bad` is skipped and counted, unless
    more than 5% of the rows are faulty; `max_bad` is another fraction, or a number of rows from 1.
    Faulty coded events are always skipped.
    """

    subject: str = "subject"
    relation: str = "relation"
    object: str = "object"
    time: str = "time"
    header: bool = True
    delimiter: str | None = None
    encoding: str | None = None
    time_format: str | None = None
    day_first: bool | None = None
    granularity: Granularity | None = None
    split: SplitRule = "random"
    valid_share: float = 0.1
    test_share: float = 0.1
    seed: NonNegativeInt = 0
    format: FileFormat | None = None
    entity: EntityField | None = None
    relation_level: RelationLevel | None = None
    skip_bad: bool = False
    max_bad: float | None = None
    keep_names: bool = False

    def __post_init__(self) -> None:
        _check_choice("format", self.format, (None, "table", *EVENT_SCHEMAS))
        self._check_events()
        if len(set(self.columns)) < len(COLUMNS):
            raise ConfigError(
                f"subject, relation, object and time must be four columns, found {self.columns}"
            )
        names = [column for column in self.columns if not (column.isascii() and column.isdigit())]
        if not self.header and names:
            raise ConfigError(
                f"without a header, columns are given by number from 0, found '{names[0]}'"
            )
        if self.delimiter is not None and (
            len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n'
        ):
            raise ConfigError(
                f"the delimiter must be one ASCII character such as ',', found {self.delimiter!r}"
            )
        if self.encoding is not None:
            encoding_name(self.encoding)
        _check_choice("granularity", self.granularity, (None, *GRANULARITIES))
        _check_choice("split", self.split, get_args(SplitRule))
        valid, test = self.valid_share, self.test_share
        if not (valid >= 0 and test >= 0 and valid + test < 1):
            raise ConfigError(
                "valid_share and test_share must be at least 0 and together below 1, "
                f"found {valid} and {test}"
            )
        if self.max_bad is not None and not (self.skip_bad and self.max_bad >= 0):
            raise ConfigError(
                f"max_bad must be at least 0 and come with skip_bad, found {self.max_bad}"
            )
        check_bounds(self)
        TimeGrid(self.time_format, self.granularity, self.day_first)

    def _check_events(self) -> None:
        """Check that settings of events fit the format, and that tables have none."""
        if self.format == "table" and (self.entity or self.relation_level):
            setting = "entity" if self.entity else "relation_level"
            raise ConfigError(
                f"{setting} is for the formats {', '.join(EVENT_SCHEMAS)}; "
                "for a table, name the columns"
            )
        if self.format is None or self.format == "table":
            return
        if self.table_settings:
            raise ConfigError(
                f"the format {self.format} has fixed columns and dates; "
                f"leave out {self.table_settings[0]}"
            )
        schema = EVENT_SCHEMAS[self.format]
        _check_choice(f"the entity of {self.format}", self.entity, (None, *schema.actors))
        _check_choice(
            f"the relation_level of {self.format}", self.relation_level, (None, *schema.relations)
        )
        if self.granularity == "hour":
            raise ConfigError(
                f"granularity 'hour' is too fine: events of the format {self.format} have a date "
                "but no time of day"
            )

    @property
    def table_settings(self) -> list[str]:
        """The settings that describe a table and differ from their defaults."""
        return [
            field.name
            for field in fields(self)
            if field.name in _TABLE_SETTINGS and getattr(self, field.name) != field.default
        ]

    @property
    def event_columns(self) -> EventColumns | None:
        """The columns of coded events that become the parts of a fact; None for a table."""
        if self.format is None or self.format == "table":
            return None
        levels = tuple(EVENT_SCHEMAS[self.format].relations)
        return EventColumns(self.format, self.entity or "name", self.relation_level or levels[0])

    @property
    def columns(self) -> tuple[str, str, str, str]:
        """The columns of subject, relation, object and time."""
        return self.subject, self.relation, self.object, self.time


def _check_choice(setting: str, value: str | None, known: Sequence[str | None]) -> None:
    if value not in known:
        names = ", ".join(name for name in known if name)
        raise ConfigError(f"{setting} must be one of {names}; found '{value}'")
