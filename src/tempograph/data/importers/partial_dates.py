"""Read dates that are known to the year, the month or the day: the first and last second of each.

A bound of a fact may also be open (`..`), unknown (`####-##-##`) or empty. Years may have fewer
than four digits, a sign, or unknown digits: `360-##-##`, `-0044-03-15`, `+1926-00-00T00:00:00Z`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tempograph.data.importers.time_parsing import (
    MONTH_PATTERN,
    Integers,
    Mask,
    Moments,
    month_numbers,
    to_mask,
)

Dates = Callable[[pa.Array], tuple[Moments, Mask]]
"""Reads full dates: the time of each text, and which texts are dates."""


class Known(IntEnum):
    """What a bound says. From `INTEGER` on, it is a date, known ever more precisely."""

    UNREADABLE = 0
    EMPTY = 1
    OPEN = 2
    UNKNOWN = 3
    INTEGER = 4
    """A number alone: a year, or a step if all bounds are numbers."""
    VAGUE = 5
    """A decade, a century or a millennium."""
    YEAR = 6
    MONTH = 7
    DAY = 8
    MOMENT = 9
    MIDNIGHT = 10
    """A time at midnight: a day, unless others of its column have a time of day."""


class BoundTexts(NamedTuple):
    """What bounds say (`Known`), and the first and last second of their dates, [n] each."""

    known: Integers
    first: Integers
    last: Integers


_EMPTY: Final = ("", "nan", "nat", "null", "none", "n/a", "0000-00-00", "0000-00-00 00:00:00")
_OPEN: Final = (
    *("..", "open", "present", "now", "today", "ongoing", "current"),
    *("novalue", "no value", "infinity", "-infinity"),
    *(f"9999-12-31{midnight}" for midnight in ("", " 00:00:00", "t00:00:00", "t00:00:00z")),
)
_UNKNOWN: Final = r"^(?:#+(?:-##){0,2}|\?+|unknown|unknown value|some ?value)$|^_:|/genid/"
_YEAR: Final = r"(?P<sign>[+-])?(?P<year>\d{1,10})(?P<lost>#{1,3})?"
_MIDNIGHT: Final = r"(?:[T ]00:00:00(?:\.0+)?Z?)?"
_PATTERNS: Final = (
    rf"{_YEAR}(?:\.0)?(?P<era> ?(?:bce?|b\.c\.))?",
    rf"{_YEAR}-(?P<month>0[0-9]|1[0-2]|##)(?:-(?P<day>3[01]|[012]\d|##))?{_MIDNIGHT}",
    r"(?P<year>\d{4})/(?P<month>1[0-2]|0?[1-9])",
    # 1926.5 is a number and not the month of May.
    r"(?P<year>\d{4})[.](?P<month>1[0-2]|0[1-9])",
    r"(?P<month>1[0-2]|0?[1-9])[/.-](?P<year>\d{4})",
    rf"{MONTH_PATTERN}\.?,?[ -](?P<year>\d{{4}})",
)
_LAST_DAY: Final = int(np.datetime64("9999-12-31", "s").astype(np.int64))
_SHORT_YEAR: Final = r"^\d{1,2}-\d\d"
"""A year of two digits, such as 12-05-24, may be a day."""


def parse_marks(texts: pa.Array) -> Integers:
    """Which texts are empty, open or unknown (`Known`); the others may be dates."""
    lower = _plain(texts)
    known = np.full(len(lower), Known.UNREADABLE, np.int64)
    known[to_mask(pc.is_in(lower, pa.array(_EMPTY)))] = Known.EMPTY
    known[to_mask(pc.is_in(lower, pa.array(_OPEN)))] = Known.OPEN
    known[to_mask(pc.match_substring_regex(lower, _UNKNOWN))] = Known.UNKNOWN
    return known


def parse_bounds(texts: pa.Array, dates: Dates) -> BoundTexts:
    """What some distinct texts say; `dates` reads those that are full dates."""
    lower, known = _plain(texts), parse_marks(texts)
    first, last = np.zeros((2, len(lower)), np.int64)
    for pattern in _PATTERNS:
        rows = np.flatnonzero(known == Known.UNREADABLE)
        if len(rows):
            known[rows], first[rows], last[rows] = _parse(lower.take(pa.array(rows)), pattern)
    rows = np.flatnonzero(known == Known.UNREADABLE)
    if len(rows):
        others = pc.utf8_trim_whitespace(texts.take(pa.array(rows)).cast(pa.string()))
        known[rows], first[rows], last[rows] = known_dates(
            *dates(others), to_mask(pc.match_substring(others, ":"))
        )
    return BoundTexts(known, first, last)


def known_dates(moments: Moments, valid: Mask, to_the_second: Mask) -> BoundTexts:
    """Bounds that are dates, or moments [n] where the time of day is given as well.

    Databases write 9999-12-31 for an end that is open.
    """
    known = np.where(to_the_second, Known.MOMENT, Known.DAY)
    seconds = moments.astype("M8[s]").astype(np.int64)
    day = seconds // 86_400 * 86_400
    known = np.where(day == _LAST_DAY, Known.OPEN, known)
    return BoundTexts(
        np.where(valid, known, Known.UNREADABLE),
        np.where(to_the_second, seconds, day),
        np.where(to_the_second, seconds, day + 86_399),
    )


def widen(bounds: BoundTexts, known: Known) -> BoundTexts:
    """Bounds read with a format that has no day or no month: they last a month or a year."""
    unit = {Known.YEAR: "M8[Y]", Known.MONTH: "M8[M]"}.get(known)
    if unit is None:
        return bounds
    start = bounds.first.astype("M8[s]").astype(unit)
    first, end = (each.astype("M8[s]").astype(np.int64) for each in (start, start + 1))
    return BoundTexts(np.where(bounds.known == Known.DAY, known, bounds.known), first, end - 1)


def _plain(texts: pa.Array) -> pa.Array:
    """Texts in lower case without surrounding blanks; a missing one is empty."""
    return pc.utf8_lower(pc.utf8_trim_whitespace(texts.cast(pa.string()).fill_null("")))


def _parse(texts: pa.Array, pattern: str) -> BoundTexts:
    """The bounds that are partial dates of a pattern; the others are unreadable."""
    structs = pc.extract_regex(texts, pattern=f"(?i)^(?:{pattern})$")
    parts = {field.name: pc.struct_field(structs, field.name) for field in structs.type}
    valid = to_mask(structs.is_valid())
    if "sign" in parts:
        valid &= ~to_mask(pc.match_substring_regex(texts, _SHORT_YEAR))

    def numbers(part: str) -> Integers:
        """A part as a number; 0 if it is missing or unknown."""
        if part not in parts:
            return np.zeros(len(texts), np.int64)
        digits = pc.if_else(pc.match_substring_regex(parts[part], r"^\d+$"), parts[part], "0")
        found: Integers = digits.fill_null("0").cast(pa.int64()).to_numpy()
        return found

    def given(part: str, pattern: str = ".") -> Mask:
        """Whether a part is there."""
        if part not in parts:
            return np.zeros(len(texts), bool)
        return to_mask(pc.match_substring_regex(parts[part], pattern).fill_null(False))

    lost = pc.utf8_length(parts["lost"]).fill_null(0).to_numpy() if "lost" in parts else 0
    span = 10 ** np.asarray(lost, np.int64)
    before = given("sign", "-") | given("era")
    year = numbers("year") * span
    # The years that -4## stands for end at -400.
    year = np.where(before, -year - span + 1, year)
    month = month_numbers(parts["month_name"]) if "month_name" in parts else numbers("month")
    day = numbers("day")
    months = (year - 1970) * 12 + np.maximum(month, 1) - 1
    length = np.where(month > 0, 1, 12 * span)
    first = months.astype("M8[M]").astype("M8[D]") + np.maximum(day - 1, 0)
    after = np.where(day > 0, first + 1, (months + length).astype("M8[M]").astype("M8[D]"))
    # There is no 31st of February, and no day of an unknown month.
    valid &= (first.astype("M8[M]").astype(np.int64) == months) & ((month > 0) | (day == 0))
    valid &= (span == 1) | ((month == 0) & (abs(year) < 10_000))
    precision = np.select(
        [span > 1, day > 0, month > 0, given("month") | given("sign", "[+]") | given("era")],
        [Known.VAGUE, Known.DAY, Known.MONTH, Known.YEAR],
        Known.YEAR if "month" in parts or "month_name" in parts else Known.INTEGER,
    )
    first, last = (each.astype("M8[s]").astype(np.int64) for each in (first, after))
    return BoundTexts(np.where(valid, precision, Known.UNREADABLE), first, last - 1)
