"""Read columns in which dates are written in several ways.

A date such as 01/02/2024 is the 1st of February or the 2nd of January. Other dates of the column
with the same separator tell: 13/02/2024 has the day first. If none tells, the date is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tempograph.data.importers.option_words import COMMAND_LINE, OptionWords
from tempograph.data.importers.time_parsing import (
    ISO_PATTERN,
    MONTH_PATTERN,
    Mask,
    Moments,
    format_pattern,
    parse_dates,
    parse_integers,
)

_YEAR, _DAY, _MONTH = r"(?P<year>\d{4})", r"(?P<day>\d{1,2})", r"(?P<month>\d{1,2})"
_CLOCK: Final = (
    r"(?:[T ](?P<hour>2[0-3]|[01]?\d):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:[.,]\d+)?)?)?"
)
_UNAMBIGUOUS: Final = (
    ISO_PATTERN,
    rf"{_YEAR}[/.]{_MONTH}[/.]{_DAY}{_CLOCK}",
    rf"{_DAY}[ -]{MONTH_PATTERN}\.?,?[ -]{_YEAR}{_CLOCK}",
    rf"{MONTH_PATTERN}\.? {_DAY},? {_YEAR}{_CLOCK}",
)
_SEPARATORS: Final = "/.-"
_SHORT_YEARS: Final = tuple(
    sign.join(parts) + clock
    for sign in _SEPARATORS + " "
    for parts in (("%d", "%m", "%y"), ("%m", "%d", "%y"), ("%y", "%m", "%d"), ("%d", "%b", "%y"))
    for clock in ("", " %H:%M", " %H:%M:%S")
)
"""Formats of dates that leave out the century; they are read only if the user passes one."""
_NO_DAY: Final = ("%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%m-%Y", "%b %Y", "%B %Y", "%b-%Y")
"""Formats of months, which suit steps of a month."""


class DateFormats:
    """Parses dates written in several ways; `all_times` reads all times of the column."""

    def __init__(
        self,
        day_first: bool | None,
        all_times: Callable[[], Iterable[pa.Array]] | None = None,
        words: OptionWords = COMMAND_LINE,
    ) -> None:
        self.unclear: str | None = None
        """The first date that was refused because the order of its day and month is unknown."""
        self._day_first = day_first
        self._all_times = all_times
        self._words = words
        self._orders: set[bool] = set()
        self._shown: dict[tuple[str, bool], str] = {}
        self._remarks: dict[str, str] = {}

    def parse(self, texts: pa.Array) -> tuple[Moments, Mask]:
        """The UTC time of each text, to the second, and which texts are valid dates."""
        moments, valid = parse_dates(texts, ISO_PATTERN)
        if valid.all():
            return moments, valid
        rows = np.flatnonzero(~valid)
        others = texts.take(pa.array(rows))
        for pattern in _UNAMBIGUOUS[1:]:
            found, fits = parse_dates(others, pattern)
            moments[rows[fits]], valid[rows[fits]] = found[fits], True
        for separator in _SEPARATORS:
            found, fits = self._parse_numeric(others, separator)
            moments[rows[fits]], valid[rows[fits]] = found[fits], True
        return moments, valid

    def explain(self, text: str) -> str | None:
        """Why a date is refused: its order is unclear or another one, or its year is short."""
        if unclear := self.explain_order(text):
            return unclear
        if self._day_first is not None and look_like_dates(pa.array([text]))[0]:
            order = self._words.day_first if self._day_first else self._words.month_first
            return f"the time {text!r} is no date with {order}; correct it, or leave that out"
        for formats, problem, more in (
            (_SHORT_YEARS, f"the year of the time {text!r} has two digits", ""),
            (_NO_DAY, f"the time {text!r} has no day", f" and {self._words.month}"),
        ):
            if fitting := _fitting_formats(text, formats):
                shown = " or ".join(self._words.time_format.format(format=each) for each in fitting)
                return f"{problem}; correct it, or pass {shown}{more}"
        return None

    def explain_order(self, text: str) -> str | None:
        """Why a date is refused if the order of its day and month is unknown, else None."""
        for separator in _SEPARATORS:
            both = _both_orders(pa.array([text]), separator)[2]
            if both[0] and self._day_first is None:
                shown = [self._shown.get((separator, day_first)) for day_first in (True, False)]
                why = (
                    f"{shown[0]!r} and {shown[1]!r} differ" if all(shown) else "no other one tells"
                )
                return (
                    f"the time {text!r} may have the day or the month first, and {why}; "
                    f"pass {self._words.day_first} or {self._words.month_first}"
                )
        return None

    def remarks(self) -> list[str]:
        """What was decided about the order of day and month."""
        return list(self._remarks.values())

    @property
    def day_first(self) -> bool | None:
        """Whether the day comes first in dates such as 01/02/2024; None if they do not agree."""
        if self._day_first is not None or len(self._orders) != 1:
            return self._day_first
        return True in self._orders

    def _parse_numeric(self, texts: pa.Array, separator: str) -> tuple[Moments, Mask]:
        """The times of dates such as 31/01/2024, and which texts are such dates."""
        days, months, both = _both_orders(texts, separator)
        if self._day_first is not None:
            return days if self._day_first else months
        valid = days[1] | months[1]
        if (days[1] & ~months[1]).any():
            self._orders.add(True)
        if (months[1] & ~days[1]).any():
            self._orders.add(False)
        if not both.any():
            return np.where(days[1], days[0], months[0]), valid
        if self._all_times is not None:
            # Other dates may tell, wherever they are; this is read once, and only if needed.
            for times in self._all_times():
                self._collect(times)
            self._all_times = None
        self._collect(texts)
        shown = {first: self._shown.get((separator, first)) for first in (True, False)}
        if (shown[True] is None) == (shown[False] is None):
            self.unclear = self.unclear or texts[int(both.argmax())].as_py()
            return np.where(days[1], days[0], months[0]), valid & ~both
        day_first = shown[True] is not None
        self._orders.add(day_first)
        order = "day" if day_first else "month"
        other = self._words.month_first if day_first else self._words.day_first
        self._remarks.setdefault(
            separator,
            f"dates such as {texts[int(both.argmax())].as_py()!r} are read with the {order} first, "
            f"as {shown[day_first]!r} shows; {other} reads them the other way",
        )
        moments = np.where(both, (days if day_first else months)[0], days[0])
        return np.where(days[1], moments, months[0]), valid

    def _collect(self, texts: pa.Array) -> None:
        """Keep a date that has the day first, and one that has the month first."""
        distinct = pc.utf8_trim_whitespace(texts.cast(pa.string()).unique())
        for separator in _SEPARATORS:
            (_, days), (_, months), _ = _both_orders(distinct, separator)
            for day_first, only in ((True, days & ~months), (False, months & ~days)):
                if only.any():
                    self._shown.setdefault(
                        (separator, day_first), distinct[int(only.argmax())].as_py()
                    )


def look_like_dates(texts: pa.Array) -> Mask:
    """Which texts are dates in some format."""
    masks = [parse_dates(texts, pattern)[1] for pattern in _UNAMBIGUOUS]
    for separator in _SEPARATORS:
        days, months, _ = _both_orders(texts, separator)
        masks += [days[1], months[1]]
    dates: Mask = np.any(masks, axis=0)
    return dates


def first_is_integer(texts: pa.Array) -> bool:
    """Whether the first text that is an integer or a date is an integer."""
    integers, dates = parse_integers(texts)[1], look_like_dates(texts)
    return bool(integers[(integers | dates).argmax()])


def _fitting_formats(text: str, formats: Sequence[str]) -> list[str]:
    """The formats in which a text is a date."""
    fitting = [
        time_format
        for time_format in formats
        if parse_dates(pa.array([text]), format_pattern(time_format))[1][0]
    ]
    # Few people write a short year first, so this is named only if nothing else fits.
    return [each for each in fitting if not each.startswith("%y")] or fitting


def _both_orders(
    texts: pa.Array, separator: str
) -> tuple[tuple[Moments, Mask], tuple[Moments, Mask], Mask]:
    """Texts read with the day first, with the month first, and which are two different dates."""
    sign = "[.]" if separator == "." else separator
    days = parse_dates(texts, f"{_DAY}{sign}{_MONTH}{sign}{_YEAR}{_CLOCK}")
    months = parse_dates(texts, f"{_MONTH}{sign}{_DAY}{sign}{_YEAR}{_CLOCK}")
    return days, months, days[1] & months[1] & (days[0] != months[0])
