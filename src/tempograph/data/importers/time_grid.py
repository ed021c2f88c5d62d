"""Equally spaced time steps: parse times to steps, and label steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tempograph.data.importers.bad_rows import NO_TIME
from tempograph.data.importers.date_formats import DateFormats, first_is_integer, look_like_dates
from tempograph.data.importers.option_words import COMMAND_LINE, OptionWords
from tempograph.data.importers.time_parsing import (
    Integers,
    Mask,
    Moments,
    compact_format,
    format_pattern,
    parse_dates,
    parse_integers,
    to_mask,
)
from tempograph.errors import ConfigError, DataError
from tempograph.typing import Granularity

MAX_STEPS: Final = 1_000_000

_UNITS: Final = {"hour": "M8[h]", "day": "M8[D]", "month": "M8[M]", "year": "M8[Y]"}


class TimeFault(NamedTuple):
    """A fault of times: the reason to count, the rows that have it, and the columns to show."""

    reason: str
    rows: Mask
    columns: tuple[int, ...]


class Placed(NamedTuple):
    """When facts hold, [n, 1] steps or [n, 3] of start, end and bounds; the labels of all steps."""

    rows: Integers
    labels: tuple[str, ...]


class TimeGrid:
    """Parses the times of a dataset to steps.

    Unless a time format says so, the first time decides whether all are integers or all are dates,
    in any common format. `day_first` says how to read dates such as 01/02/2024; without it, other
    dates decide, of those that `all_times` reads.
    """

    columns = 1
    """The number of columns that say when a fact is."""

    def __init__(
        self,
        time_format: str | None = None,
        granularity: Granularity | None = None,
        day_first: bool | None = None,
        all_times: Callable[[], Iterable[pa.Array]] | None = None,
        words: OptionWords = COMMAND_LINE,
    ) -> None:
        if time_format is not None and day_first is not None:
            raise ConfigError(
                f"the time format '{time_format}' has an order of day and month; "
                "leave out day_first"
            )
        self._format = time_format
        self._granularity = granularity
        dates = time_format is not None and time_format != "integer"
        self._pattern = format_pattern(str(time_format)) if dates else None
        self._dates = DateFormats(day_first, all_times, words)
        self._integers: bool | None = None
        if time_format is not None:
            self._decide(time_format == "integer")

    def read(self, times: Sequence[pa.Array]) -> tuple[Integers, list[TimeFault]]:
        """The step of each time in the one column, [n, 1], and the times that are no such."""
        steps, valid = self.steps(times[0])
        return steps[:, None], [TimeFault(NO_TIME, ~valid, (0,))]

    def place(self, rows: Integers) -> Placed:
        """The steps of `read`, counted from the first, and the labels of all steps."""
        steps, labels = self.label(rows[:, 0])
        return Placed(steps[:, None], labels)

    def steps(self, times: pa.Array) -> tuple[Integers, Mask]:
        """The step of each time, and which times are valid.

        Integers are steps themselves; dates are counted from 1970 in units of the granularity. A
        date or timestamp column is taken as it is, whatever the time format; others are parsed.
        """
        if pa.types.is_date(times.type) or pa.types.is_timestamp(times.type):
            self._decide(False)
            steps = steps_since_1970(
                times.to_numpy(zero_copy_only=False), self._granularity or "day"
            )
            return steps, to_mask(times.is_valid()) & (not self._integers)
        encoded = times.cast(pa.string()).dictionary_encode(null_encoding="encode")
        distinct = pc.utf8_trim_whitespace(encoded.dictionary)
        codes = encoded.indices.to_numpy()
        if len(distinct) and self._integers is None:
            self._decide(first_is_integer(distinct))
        if self._integers:
            steps, valid = parse_integers(distinct)
        else:
            moments, valid = (
                parse_dates(distinct, self._pattern)
                if self._pattern
                else self._dates.parse(distinct)
            )
            steps = steps_since_1970(moments, self._granularity or "day")
        return steps[codes], valid[codes]

    def explain(self, value: str | None) -> str:
        """What is wrong with an invalid time, and how to correct it."""
        text = (value or "").strip()
        if text.casefold() in ("", "nan", "nat", "null", "none"):
            return f"the time is {repr(text) if text else 'empty'}; fill it in or remove the row"
        if self._format is not None:
            return f"the time {value!r} does not match the time format {self._format!r}"
        texts = pa.array([text])
        other = look_like_dates(texts) if self._integers else parse_integers(texts)[1]
        if other[0]:
            this, others = ("a date", "integers") if self._integers else ("an integer", "dates")
            return (
                f"the time {value!r} is {this}, but those before it are {others}; "
                "write all of them one way"
            )
        if reason := self._dates.explain(text):
            return reason
        return (
            f"the time {value!r} is neither a date such as 2014-01-31T05:00 nor an integer; "
            "correct it, or pass its time format, such as '%d/%m/%Y'"
        )

    def is_unclear(self, value: str | None) -> bool:
        """Whether an invalid time is a date whose day and month cannot be distinguished."""
        dates = self._format is None and not self._integers
        return dates and self._dates.explain_order((value or "").strip()) is not None

    @property
    def unclear(self) -> str | None:
        """The first date that was refused because the order of its day and month is unknown."""
        return self._dates.unclear

    @property
    def day_first(self) -> bool | None:
        """Whether the day comes first in dates such as 01/02/2024, if that is known."""
        return self._dates.day_first

    def remarks(self) -> list[str]:
        """What was decided about the order of day and month."""
        return self._dates.remarks()

    def label(self, steps: Integers) -> tuple[Integers, tuple[str, ...]]:
        """The steps counted from the first, and the labels of all steps from first to last."""
        first, last = int(steps.min()), int(steps.max())
        if self._integers and self._format is None:
            check_integers(first, last, steps)
        granularity = None if self._integers else self._granularity or "day"
        return steps - first, check_length(first, last, granularity)

    def _decide(self, integers: bool) -> None:
        """Set whether the times are integers, unless that is known already."""
        if self._integers is None:
            self._integers = integers
        if self._integers and self._granularity is not None:
            raise ConfigError(
                f"granularity '{self._granularity}' is for dates, but the times are integers, "
                "which are steps themselves; leave it out, or pass a time format such as "
                "'%Y%m%d' if they are dates"
            )


def check_integers(first: int, last: int, steps: Integers) -> None:
    """Refuse integers from first to last that look like dates."""
    if dates := compact_format(steps):
        # As steps, the months of 20140131 would be seventy steps apart.
        raise DataError(
            f"the times, from {first} to {last}, look like dates: pass the time format "
            f"'{dates}', or 'integer' if they count steps"
        )


def check_length(first: int, last: int, granularity: Granularity | None) -> tuple[str, ...]:
    """The labels of all steps from first to last, unless there are too many."""
    if last - first >= MAX_STEPS:
        start, end = (step_labels(step, step, granularity)[0] for step in (first, last))
        raise DataError(
            f"the times run from {start} to {end}, which is {last - first + 1:,} steps "
            f"and more than {MAX_STEPS:,}; {_how_to_have_fewer(first, last, granularity)}"
        )
    return step_labels(first, last, granularity)


def _how_to_have_fewer(first: int, last: int, granularity: Granularity | None) -> str:
    if granularity is not None:
        return "choose a coarser granularity"
    if first >= 10**8 and last < 10**10:
        return "they look like seconds since 1970: pass the time format '%s' and a granularity"
    return "number them more coarsely, or pass a time format such as '%Y%m%d' if they are dates"


def steps_since_1970(moments: Moments, granularity: Granularity) -> Integers:
    """Whole units of the granularity from 1970 to each moment; weeks begin on Monday."""
    if granularity == "week":
        # 1970 began on a Thursday, so day 0 is the fourth day of week 0.
        return (moments.astype("M8[D]").astype(np.int64) + 3) // 7
    return moments.astype(_UNITS[granularity]).astype(np.int64)


def _pad_year(label: str) -> str:
    """A label whose year has four digits before Christ as well: NumPy writes -044."""
    return f"-0{label[1:]}" if re.match(r"-\d{3}\b", label) else label


def step_labels(first: int, last: int, granularity: Granularity | None) -> tuple[str, ...]:
    """The labels of all steps from first to last; integers without a granularity."""
    if granularity is None:
        return tuple(str(step) for step in range(first, last + 1))
    steps = np.arange(first, last + 1)
    if granularity != "week":
        labels = np.datetime_as_string(steps.astype(_UNITS[granularity])).tolist()
        return tuple(map(_pad_year, labels) if labels[0].startswith("-") else labels)
    # An ISO week belongs to the year of its Thursday.
    thursdays = (steps * 7).astype("M8[D]")
    years = thursdays.astype("M8[Y]")
    weeks = (thursdays - years.astype("M8[D]")).astype(np.int64) // 7 + 1
    return tuple(f"{year}-W{week:02d}" for year, week in zip(years.astype(str), weeks, strict=True))
