"""Parse columns of dates and integers, as people write them."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tempograph.errors import ConfigError

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Moments = NDArray[np.datetime64]

# Not from the calendar module, whose names depend on the locale.
_MONTHS: Final = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
)
_SHORT_MONTHS: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
MONTH_PATTERN: Final = rf"(?P<month_name>{_MONTHS}|{_SHORT_MONTHS}|Sept)"
_HOUR, _SIXTY = r"2[0-3]|[01]\d", r"[0-5]\d"
ISO_PATTERN: Final = (
    r"(?P<year>\d{4})-(?P<month>1[0-2]|0[1-9])-(?P<day>3[01]|[12]\d|0[1-9])"
    rf"(?:[T ](?P<hour>{_HOUR})(?::?(?P<minute>{_SIXTY})(?::?(?P<second>{_SIXTY})(?:[.,]\d+)?)?)?"
    rf" ?(?:Z|(?:\+|(?P<west>-))(?P<zone_hour>{_HOUR}):?(?P<zone_minute>{_SIXTY})?)?)?"
)
# The directives of strptime, with English names in any locale; %s is seconds since 1970.
_DIRECTIVES: Final = {
    "Y": r"(?P<year>\d{4})",
    "y": r"(?P<short_year>\d\d)",
    "m": r"(?P<month>1[0-2]|0[1-9]|[1-9])",
    "b": rf"(?P<month_name>{_SHORT_MONTHS})",
    "B": rf"(?P<month_name>{_MONTHS})",
    "d": r"(?P<day>3[01]|[12]\d|0[1-9]| ?[1-9])",
    "a": r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)",
    "A": r"(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)",
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


def format_pattern(time_format: str) -> str:
    """The regular expression of a strptime format, with a named group for each part of the time."""
    pattern = ""
    for directive, space, literal in re.findall(r"%(.?)|(\s+)|([^%\s]+)", time_format):
        if not space and not literal and directive not in _DIRECTIVES:
            known = " ".join(f"%{name}" for name in _DIRECTIVES)
            raise ConfigError(
                f"the time format '{time_format}' uses '%{directive}', "
                f"which is not a directive; the directives are {known}"
            )
        pattern += r"\s+" if space else re.escape(literal) if literal else _DIRECTIVES[directive]
    try:
        parts = re.compile(pattern).groupindex
    except re.error:
        raise ConfigError(
            f"the time format '{time_format}' gives one part of the time twice; give each part once"
        ) from None
    if not parts.keys() & {"year", "short_year", "epoch"}:
        raise ConfigError(
            f"the time format '{time_format}' has no year; add %Y, %y or %s (seconds since 1970)"
        )
    return pattern


def parse_dates(texts: pa.Array, pattern: str) -> tuple[Moments, Mask]:
    """The UTC time of each text, to the second, and which texts are valid dates of the pattern."""
    parts = _DateParts(texts, pattern)
    if "epoch" in parts.texts:
        return parts.integers("epoch", 0).astype("M8[s]"), parts.valid
    years = parts.years()
    months = (years - 1970) * 12 + parts.months() - 1
    days = months.astype("M8[M]").astype("M8[D]") + (parts.integers("day", 1) - 1).astype("m8[D]")
    # Arrow's own strptime reads the 31st of February as the 3rd of March.
    in_calendar = (days.astype("M8[M]").astype(np.int64) == months) & (years > 0)
    in_calendar &= months // 12 + 1970 == years
    return days.astype("M8[s]") + parts.seconds().astype("m8[s]"), parts.valid & in_calendar


class _DateParts:
    """The parts of a date, such as its year, that a pattern finds in each text of a column."""

    def __init__(self, texts: pa.Array, pattern: str) -> None:
        structs = pc.extract_regex(texts, pattern=f"(?i)^(?:{pattern})$")
        self.valid = to_mask(structs.is_valid())
        self.texts = {field.name: pc.struct_field(structs, field.name) for field in structs.type}

    def integers(self, part: str, default: int) -> Integers:
        """A part as integers; the default if it is missing."""
        if part not in self.texts:
            return np.full(len(self.valid), default)
        digits = pc.utf8_trim_whitespace(self.texts[part])
        given = pc.if_else(pc.equal(digits, ""), pa.scalar(None, pa.string()), digits)
        numbers: Integers = given.cast(pa.int64()).fill_null(default).to_numpy()
        return numbers

    def years(self) -> Integers:
        """The year; two digits mean 1969 to 2068."""
        if "short_year" not in self.texts:
            return self.integers("year", 1970)
        short = self.integers("short_year", 70)
        return short + np.where(short < 69, 2000, 1900)

    def months(self) -> Integers:
        """The month from 1 to 12, given by number or name."""
        if "month_name" not in self.texts:
            return self.integers("month", 1)
        return month_numbers(self.texts["month_name"])

    def seconds(self) -> Integers:
        """Seconds since midnight in UTC; the time zone may push them outside the day."""
        hours = self.integers("hour", 0)
        if "half" in self.texts:
            hours = hours % 12 + 12 * self._equals("half", "p")
        zone = self.integers("zone_hour", 0) * 60 + self.integers("zone_minute", 0)
        if "west" in self.texts:
            zone = np.where(self._equals("west", "-"), -zone, zone)
        return (hours * 60 + self.integers("minute", 0) - zone) * 60 + self.integers("second", 0)

    def _equals(self, part: str, text: str) -> Mask:
        return to_mask(pc.equal(pc.utf8_lower(self.texts[part]), text).fill_null(False))


def month_numbers(names: pa.Array) -> Integers:
    """The month, from 1 to 12, of each English name, in any case; 1 for others."""
    short = pc.utf8_capitalize(pc.utf8_slice_codeunits(names, 0, 3))
    indices = pc.index_in(short, pa.array(_SHORT_MONTHS.split("|"))).fill_null(0)
    months: Integers = indices.cast(pa.int64()).to_numpy() + 1
    return months


def parse_integers(texts: pa.Array) -> tuple[Integers, Mask]:
    """The integer of each text, and which texts are integers."""
    valid = pc.match_substring_regex(texts, r"^-?\d{1,18}$").fill_null(False)
    return pc.if_else(valid, texts, "0").cast(pa.int64()).to_numpy(), to_mask(valid)


def compact_format(integers: Integers) -> str | None:
    """The format of integers that are dates without separators, such as 20140131, else None."""
    first, last = int(integers.min()), int(integers.max())
    for time_format in ("%Y%m", "%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S"):
        tail = "0101000000"[: 2 * time_format.count("%") - 2]
        if not int(f"1900{tail}") <= first <= last < int(f"2101{tail}"):
            continue
        texts = pa.array(np.unique(integers)).cast(pa.string())
        if parse_dates(texts, format_pattern(time_format))[1].all():
            return time_format
    return None


def to_mask(values: pa.Array) -> Mask:
    """Arrow booleans as a NumPy mask."""
    mask: Mask = values.to_numpy(zero_copy_only=False)
    return mask
