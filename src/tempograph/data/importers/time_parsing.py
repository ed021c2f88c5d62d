"""Times as people write them, read as whole steps of an equally spaced grid."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tempograph.errors import ConfigError, DataError
from tempograph.typing import Granularity

MOST_STEPS: Final = 1_000_000

Steps = NDArray[np.int64]
Mask = NDArray[np.bool_]
Moments = NDArray[np.datetime64]

_UNITS: Final = {"hour": "M8[h]", "day": "M8[D]", "month": "M8[M]", "year": "M8[Y]"}
_MONTHS: Final = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS: Final = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_HOUR, _SIXTY = r"2[0-3]|[01]\d", r"[0-5]\d"
_ISO: Final = (
    r"(?P<year>\d{4})-(?P<month>1[0-2]|0[1-9])-(?P<day>3[01]|[12]\d|0[1-9])"
    rf"(?:[T ](?P<hour>{_HOUR})(?::?(?P<minute>{_SIXTY})(?::?(?P<second>{_SIXTY})(?:[.,]\d+)?)?)?"
    rf" ?(?:Z|(?:\+|(?P<west>-))(?P<zone_hour>{_HOUR}):?(?P<zone_minute>{_SIXTY})?)?)?"
)
# What Python's strptime reads, with English names in any locale; %s is seconds since 1970.
_DIRECTIVES: Final = {
    "Y": r"(?P<year>\d{4})",
    "y": r"(?P<short_year>\d\d)",
    "m": r"(?P<month>1[0-2]|0[1-9]|[1-9])",
    "b": rf"(?P<month_name>{'|'.join(name[:3] for name in _MONTHS)})",
    "B": rf"(?P<month_name>{'|'.join(_MONTHS)})",
    "d": r"(?P<day>3[01]|[12]\d|0[1-9]| ?[1-9])",
    "a": rf"(?:{'|'.join(name[:3] for name in _DAYS)})",
    "A": rf"(?:{'|'.join(_DAYS)})",
    "H": rf"(?P<hour>{_HOUR}|\d)",
    "I": r"(?P<hour>1[0-2]|0[1-9]|[1-9])",
    "p": r"(?P<half>[ap])m",
    "M": rf"(?P<minute>{_SIXTY}|\d)",
    "S": rf"(?P<second>{_SIXTY}|\d)",
    "f": r"\d{1,6}",
    "z": rf"(?:Z|(?:\+|(?P<west>-))(?P<zone_hour>{_HOUR}):?(?P<zone_minute>{_SIXTY}))",
    "s": r"(?P<epoch>-?\d{1,12})",
    "%": "%",
}


class Clock:
    """Reads the times of one dataset as steps: the first one tells whether all are integers or all are dates."""

    def __init__(
        self, time_format: str | None = None, granularity: Granularity | None = None
    ) -> None:
        self._format = time_format
        self._granularity = granularity
        self._pattern = (
            _ISO if time_format in (None, "integer") else format_pattern(str(time_format))
        )
        self._integers: bool | None = None
        if time_format is not None:
            self._settle(time_format == "integer")

    def steps(self, times: pa.Array) -> tuple[Steps, Mask]:
        """The step of each time, and which of them could be read.

        Integers are steps themselves; dates are counted from 1970 in units of the granularity. A date or timestamp
        column is taken as it is, whatever the time format; any other is read as text.
        """
        if pa.types.is_date(times.type) or pa.types.is_timestamp(times.type):
            self._settle(False)
            steps = steps_at(times.to_numpy(zero_copy_only=False), self._granularity or "day")
            return steps, _mask(times.is_valid()) & (not self._integers)
        encoded = times.cast(pa.string()).dictionary_encode(null_encoding="encode")
        distinct = pc.utf8_trim_whitespace(encoded.dictionary)
        codes = encoded.indices.to_numpy()
        if len(distinct) and self._integers is None:
            self._settle(_begins_with_an_integer(distinct))
        steps, readable = self._read(distinct)
        return steps[codes], readable[codes]

    def complaint(self, value: str | None) -> str:
        """What is wrong with a time that could not be read, and the way out."""
        text = (value or "").strip()
        if text.casefold() in ("", "nan", "nat", "null", "none"):
            return f"the time is {repr(text) if text else 'empty'}; fill it in or remove the row"
        if self._format is not None:
            return f"the time {value!r} does not match the time format {self._format!r}"
        other = (
            read_dates(pa.array([text]), _ISO)
            if self._integers
            else read_integers(pa.array([text]))
        )
        if other[1][0]:
            kinds = ("a date", "integers") if self._integers else ("an integer", "dates")
            return f"the time {value!r} is {kinds[0]}, but those before it are {kinds[1]}; write all of them one way"
        return (
            f"the time {value!r} is neither an ISO date such as 2014-01-31T05:00 nor an integer; "
            "correct it, or pass the time format it has, such as '%d/%m/%Y'"
        )

    def grid(self, steps: Steps) -> tuple[Steps, tuple[str, ...]]:
        """The steps counted from the first one on, and the labels of all steps from the first to the last."""
        first, last = int(steps.min()), int(steps.max())
        if self._integers and self._format is None:
            _refuse_digits_that_are_dates(steps)
        if last - first >= MOST_STEPS:
            ends = [self._labels(end, end)[0] for end in (first, last)]
            raise DataError(
                f"the times run from {ends[0]} to {ends[1]}, which is {last - first + 1:,} steps "
                f"and more than {MOST_STEPS:,}; {self._coarser(first, last)}"
            )
        return steps - first, self._labels(first, last)

    def _settle(self, integers: bool) -> None:
        """Say what the times are, unless that is known already."""
        if self._integers is None:
            self._integers = integers
        if self._integers and self._granularity is not None:
            raise ConfigError(
                f"granularity '{self._granularity}' is for dates, but the times are integers, which are steps "
                "themselves; leave it out, or pass a time format such as '%Y%m%d' if they are dates"
            )

    def _read(self, distinct: pa.Array) -> tuple[Steps, Mask]:
        if self._integers:
            return read_integers(distinct)
        moments, readable = read_dates(distinct, self._pattern)
        return steps_at(moments, self._granularity or "day"), readable

    def _labels(self, first: int, last: int) -> tuple[str, ...]:
        return labels(first, last, None if self._integers else self._granularity or "day")

    def _coarser(self, first: int, last: int) -> str:
        if not self._integers:
            return "choose a coarser granularity"
        if first >= 10**8 and last < 10**10:
            return "they look like seconds since 1970: pass the time format '%s' and a granularity"
        return "number them more coarsely, or pass a time format such as '%Y%m%d' if they are dates"


def format_pattern(time_format: str) -> str:
    """The regular expression that a strptime format stands for, with a named group for each part of the time."""
    pattern = ""
    for directive, space, literal in re.findall(r"%(.?)|(\s+)|([^%\s]+)", time_format):
        if not space and not literal and directive not in _DIRECTIVES:
            known = " ".join(f"%{name}" for name in _DIRECTIVES)
            raise ConfigError(
                f"the time format '{time_format}' has '%{directive}'; the directives are {known}"
            )
        pattern += r"\s+" if space else re.escape(literal) if literal else _DIRECTIVES[directive]
    try:
        parts = re.compile(pattern).groupindex
    except re.error:
        raise ConfigError(
            f"the time format '{time_format}' names one part of the time twice"
        ) from None
    if not parts.keys() & {"year", "short_year", "epoch"}:
        raise ConfigError(
            f"the time format '{time_format}' has no year; it needs %Y, %y or %s (seconds since 1970)"
        )
    return pattern


def read_dates(texts: pa.Array, pattern: str) -> tuple[Moments, Mask]:
    """The moment each text stands for, in UTC and to the second, and which of them fit the pattern and the calendar."""
    parts = _Parts(texts, pattern)
    if "epoch" in parts.texts:
        return parts.number("epoch", 0).astype("M8[s]"), parts.found
    years = parts.years()
    months = (years - 1970) * 12 + parts.months() - 1
    days = months.astype("M8[M]").astype("M8[D]") + (parts.number("day", 1) - 1).astype("m8[D]")
    # Arrow's own strptime reads the 31st of February as the 3rd of March.
    in_calendar = (days.astype("M8[M]").astype(np.int64) == months) & (years > 0)
    return days.astype("M8[s]") + parts.seconds().astype("m8[s]"), parts.found & in_calendar


class _Parts:
    """The parts of a time, such as its year, that a pattern finds in each of many texts."""

    def __init__(self, texts: pa.Array, pattern: str) -> None:
        structs = pc.extract_regex(texts, pattern=f"(?i)^(?:{pattern})$")
        self.found = _mask(structs.is_valid())
        self.texts = {field.name: pc.struct_field(structs, field.name) for field in structs.type}

    def number(self, part: str, default: int) -> Steps:
        """A part as a number, or the default where it is left out."""
        if part not in self.texts:
            return np.full(len(self.found), default)
        digits = pc.utf8_trim_whitespace(self.texts[part])
        given = pc.if_else(pc.equal(digits, ""), pa.scalar(None, pa.string()), digits)
        numbers: Steps = given.cast(pa.int64()).fill_null(default).to_numpy()
        return numbers

    def years(self) -> Steps:
        """The year; one of two digits lies between 1969 and 2068."""
        if "short_year" not in self.texts:
            return self.number("year", 1970)
        short = self.number("short_year", 70)
        return short + np.where(short < 69, 2000, 1900)

    def months(self) -> Steps:
        """The month from 1 to 12, by number or by the first letters of its name."""
        if "month_name" not in self.texts:
            return self.number("month", 1)
        names = pc.utf8_capitalize(pc.utf8_slice_codeunits(self.texts["month_name"], 0, 3))
        places = pc.index_in(names, pa.array([name[:3] for name in _MONTHS])).fill_null(0)
        months: Steps = places.cast(pa.int64()).to_numpy() + 1
        return months

    def seconds(self) -> Steps:
        """Seconds since midnight in UTC; below 0 or beyond a day where the time zone makes it another day."""
        hours = self.number("hour", 0)
        if "half" in self.texts:
            hours = hours % 12 + 12 * self._is("half", "p")
        zone = self.number("zone_hour", 0) * 60 + self.number("zone_minute", 0)
        if "west" in self.texts:
            zone = np.where(self._is("west", "-"), -zone, zone)
        return (hours * 60 + self.number("minute", 0) - zone) * 60 + self.number("second", 0)

    def _is(self, part: str, text: str) -> Mask:
        return _mask(pc.equal(pc.utf8_lower(self.texts[part]), text).fill_null(False))


def read_integers(texts: pa.Array) -> tuple[Steps, Mask]:
    """The integer each text stands for, and which of them stand for one."""
    fits = pc.match_substring_regex(texts, r"^-?\d{1,18}$").fill_null(False)
    numbers = pc.if_else(fits, texts, "0").cast(pa.int64())
    return numbers.to_numpy(), _mask(fits)


def _begins_with_an_integer(texts: pa.Array) -> bool:
    """Whether the first of the texts that is an integer or an ISO date is an integer."""
    integers, dates = read_integers(texts)[1], read_dates(texts, _ISO)[1]
    either = integers | dates
    return bool(integers[either.argmax()])


def steps_at(moments: Moments, granularity: Granularity) -> Steps:
    """How many whole units of the granularity lie between 1970 and each moment; weeks begin on Monday."""
    if granularity == "week":
        # 1970 began on a Thursday, so that day 0 is the fourth day of week 0.
        return (moments.astype("M8[D]").astype(np.int64) + 3) // 7
    return moments.astype(_UNITS[granularity]).astype(np.int64)


def labels(first: int, last: int, granularity: Granularity | None) -> tuple[str, ...]:
    """The names of all steps from the first to the last; without a granularity the steps are plain integers."""
    if granularity is None:
        return tuple(str(step) for step in range(first, last + 1))
    steps = np.arange(first, last + 1)
    if granularity != "week":
        return tuple(np.datetime_as_string(steps.astype(_UNITS[granularity])).tolist())
    # The year an ISO week belongs to is that of its Thursday.
    thursdays = (steps * 7).astype("M8[D]")
    years = thursdays.astype("M8[Y]")
    weeks = (thursdays - years.astype("M8[D]")).astype(np.int64) // 7 + 1
    return tuple(f"{year}-W{week:02d}" for year, week in zip(years.astype(str), weeks, strict=True))


def _refuse_digits_that_are_dates(steps: Steps) -> None:
    """Integers such as 20140131 would make a grid with seventy steps between one month and the next."""
    first, last = int(steps.min()), int(steps.max())
    for compact in ("%Y%m", "%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S"):
        tail = "0101000000"[: 2 * compact.count("%") - 2]
        if not int(f"1900{tail}") <= first <= last < int(f"2101{tail}"):
            continue
        if read_dates(pa.array(np.unique(steps)).cast(pa.string()), format_pattern(compact))[
            1
        ].all():
            raise DataError(
                f"the times, from {first} to {last}, look like dates: pass the time format '{compact}', "
                "or 'integer' if they do count steps"
            )


def _mask(values: pa.Array) -> Mask:
    mask: Mask = values.to_numpy(zero_copy_only=False)
    return mask
