"""Options of an import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, get_args

import pyarrow as pa

from tempograph.data.graph import COLUMNS, INTERVAL_PARTS
from tempograph.data.importers.event_formats import EVENT_SCHEMAS, EventColumns
from tempograph.data.importers.interval_grid import IntervalGrid
from tempograph.data.importers.option_words import COMMAND_LINE, OptionWords
from tempograph.data.importers.text_encoding import encoding_name
from tempograph.data.importers.time_grid import TimeGrid
from tempograph.errors import ConfigError
from tempograph.typing import (
    GRANULARITIES,
    EmptyBound,
    EntityField,
    FileFormat,
    Granularity,
    NonNegativeInt,
    RelationLevel,
    SplitRule,
    check_bounds,
)

TABLE_SETTINGS: Final = (
    *(*COLUMNS, "start", "end", "split_column", "header", "delimiter", "encoding"),
    *("time_format", "day_first", "empty_start", "empty_end", "bins"),
)
"""The settings that describe a table."""
SPLIT_SETTINGS: Final = {
    "split": "split",
    "valid_share": "valid_share (--valid)",
    "test_share": "test_share (--test)",
    "split_column": "split_column",
}
"""The settings that say how facts are split, as messages name them."""
_SHARE: Final = 0.1


@dataclass(frozen=True)
class ImportOptions:
    """Which columns hold a fact, how its time is written, and how the facts are split.

    The settings from `subject` to `day_first` describe a table. Columns are given by name or, for
    text files without a header, by number from 0; there, the first four are the default. By default
    the first line decides on the delimiter. A text is UTF-8, UTF-16 if it has a byte order mark, or
    else Windows-1252.

    Without a time format, times are dates in any common format or integers, as the first one is.
    `day_first` says how to read dates such as 01/02/2024 if no other date tells. Integers are
    steps; dates go on a grid of the granularity, by default days.

    Facts that hold for a while have two columns, `start` and `end`, instead of `time`. Their dates
    may be known to the year or the month alone; `..` is open and `####` unknown. An empty end is
    open, so that the fact is still true, and an empty start unknown, unless `empty_end` and
    `empty_start` say otherwise. The granularity is by default one that suits the dates; `bins`
    joins steps to that many bins with about equally many starts and ends.

    Facts are split at random unless `split` says chronological; `valid_share` and `test_share` are
    by default 0.1. If the table is split already, name its `split_column`, with the values train,
    valid and test, and leave these out.

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
    start: str | None = None
    end: str | None = None
    split_column: str | None = None
    header: bool = True
    delimiter: str | None = None
    encoding: str | None = None
    time_format: str | None = None
    day_first: bool | None = None
    empty_start: EmptyBound | None = None
    empty_end: EmptyBound | None = None
    granularity: Granularity | None = None
    bins: int | None = None
    split: SplitRule | None = None
    valid_share: float | None = None
    test_share: float | None = None
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
        self._check_times()
        if self.split_column is not None:
            if self.split_column in self.fact_columns:
                raise ConfigError(
                    f"split_column must be a column of its own, found '{self.split_column}' "
                    f"among {self.fact_columns}"
                )
            self.refuse_split_settings(f"column '{self.split_column}'", but="split_column")
        names = [
            column for column in self.used_columns if not (column.isascii() and column.isdigit())
        ]
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
        _check_choice("split", self.split, (None, *get_args(SplitRule)))
        valid, test = self.shares
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
        self.grid()

    def _check_times(self) -> None:
        """Check that the parts of a fact are columns of their own, and that settings fit them."""
        if self.has_intervals and self.time != "time":
            bounds = {"start": self.start, "end": self.end}
            found = " and ".join(f"the {part} '{name}'" for part, name in bounds.items() if name)
            raise ConfigError(
                f"facts have a time or a start and an end, found the time '{self.time}' and "
                f"{found}; leave out the one or the other"
            )
        if len(set(self.fact_columns)) < len(self.fact_columns):
            parts = "start and end must be five" if self.has_intervals else "time must be four"
            parts = f", object, {parts}" if self.has_intervals else f", object and {parts}"
            raise ConfigError(f"subject, relation{parts} columns, found {self.fact_columns}")
        if self.bins is not None and self.bins < 1:
            raise ConfigError(f"bins must be at least 1, found {self.bins}")
        _check_choice("empty_start", self.empty_start, (None, *get_args(EmptyBound)))
        _check_choice("empty_end", self.empty_end, (None, *get_args(EmptyBound)))

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

    def refuse_split_settings(self, given: str, but: str | None = None) -> None:
        """Refuse settings of a split but one, as the facts are split already by what is given."""
        for setting, shown in SPLIT_SETTINGS.items():
            if setting != but and getattr(self, setting) is not None:
                raise ConfigError(f"the facts are split already, by {given}; leave out {shown}")

    @property
    def shares(self) -> tuple[float, float]:
        """The fractions of facts in valid and test."""
        valid, test = self.valid_share, self.test_share
        return _SHARE if valid is None else valid, _SHARE if test is None else test

    @property
    def table_settings(self) -> list[str]:
        """The settings that describe a table and differ from their defaults."""
        return [name for name in self.given if name in TABLE_SETTINGS]

    @property
    def given(self) -> dict[str, Any]:
        """The settings that differ from their defaults."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }

    @property
    def event_columns(self) -> EventColumns | None:
        """The columns of coded events that become the parts of a fact; None for a table."""
        if self.format is None or self.format == "table":
            return None
        levels = tuple(EVENT_SCHEMAS[self.format].relations)
        return EventColumns(self.format, self.entity or "name", self.relation_level or levels[0])

    @property
    def has_intervals(self) -> bool:
        """Whether facts have a start and an end; otherwise they have a time."""
        return self.start is not None or self.end is not None

    @property
    def columns(self) -> tuple[str, str, str, str]:
        """The columns of subject, relation, object and time, or start if facts have one."""
        time = (self.start or "start") if self.has_intervals else self.time
        named = (self.subject, self.relation, self.object, time)
        if self.header:
            return named
        if self.has_intervals and named[:3] == COLUMNS[:3]:
            return ("0", "1", "2", time)
        return named if named != COLUMNS else ("0", "1", "2", "3")

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of a fact: with a time, or with a start and an end."""
        return INTERVAL_PARTS if self.has_intervals else COLUMNS

    @property
    def fact_columns(self) -> tuple[str, ...]:
        """The columns of subject, relation and object, and of time or of start and end."""
        return (*self.columns, self.end or "end") if self.has_intervals else self.columns

    @property
    def used_columns(self) -> tuple[str, ...]:
        """The columns of a fact, and the split column if any."""
        return (
            self.fact_columns
            if self.split_column is None
            else (*self.fact_columns, self.split_column)
        )

    def grid(
        self,
        all_times: Callable[[], Iterable[pa.Array]] | None = None,
        words: OptionWords = COMMAND_LINE,
    ) -> TimeGrid | IntervalGrid:
        """What reads the times of a table, or the starts and ends of its facts."""
        if not self.has_intervals:
            return TimeGrid(self.time_format, self.granularity, self.day_first, all_times, words)
        return IntervalGrid(
            self.time_format,
            self.granularity,
            self.day_first,
            all_times,
            words,
            (self.empty_start or "unknown", self.empty_end or "open"),
            self.bins,
        )


def _check_choice(setting: str, value: str | None, known: Sequence[str | None]) -> None:
    if value not in known:
        names = ", ".join(name for name in known if name)
        raise ConfigError(f"{setting} must be one of {names}; found '{value}'")
