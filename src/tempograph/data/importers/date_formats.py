"""Read columns in which dates are written in several ways.

A date such as 01/02/2024 is the 1st of February or the 2nd of January. Other dates of the column
with the same separator tell: 13/02/2024 has the day first. If none tells, the date is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tempograph.data.importers.time_parsing import (
    ISO_PATTERN,
    MONTH_PATTERN,
    Mask,
    Moments,
    parse_dates,
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


class DateFormats:
    """Parses dates written in several ways; `all_times` reads all times of the column."""

    def __init__(
        self, day_first: bool | None, all_times: Callable[[], Iterable[pa.Array]] | None = None
    ) -> None:
        self.unclear: str | None = None
        """The first date that was refused because the order of its day and month is unknown."""
        self._day_first = day_first
        self._all_times = all_times
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
        """Why a date is refused if the order of its day and month is unknown, else None."""
        for separator in _SEPARATORS:
            both = _both_orders(pa.array([text]), separator)[2]
            if both[0] and self._day_first is None:
                shown = [self._shown.get((separator, day_first)) for day_first in (True, False)]
                why = (
                    f"{shown[0]!r} and {shown[1]!r} differ" if all(shown) else "no other one tells"
                )
                return f"the time {text!r} may have the day or the month first, and {why}"
        return None

    def remarks(self) -> list[str]:
        """What was decided about the order of day and month."""
        return list(self._remarks.values())

    def _parse_numeric(self, texts: pa.Array, separator: str) -> tuple[Moments, Mask]:
        """The times of dates such as 31/01/2024, and which texts are such dates."""
        days, months, both = _both_orders(texts, separator)
        if self._day_first is not None:
            return days if self._day_first else months
        valid = days[1] | months[1]
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
        order, other = ("day", "month") if day_first else ("month", "day")
        self._remarks.setdefault(
            separator,
            f"dates such as {texts[int(both.argmax())].as_py()!r} are read with the {order} first, "
            f"as {shown[day_first]!r} shows; --{other}-first reads them the other way",
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


def _both_orders(
    texts: pa.Array, separator: str
) -> tuple[tuple[Moments, Mask], tuple[Moments, Mask], Mask]:
    """Texts read with the day first, with the month first, and which are two different dates."""
    sign = "[.]" if separator == "." else separator
    days = parse_dates(texts, f"{_DAY}{sign}{_MONTH}{sign}{_YEAR}{_CLOCK}")
    months = parse_dates(texts, f"{_MONTH}{sign}{_DAY}{sign}{_YEAR}{_CLOCK}")
    return days, months, days[1] & months[1] & (days[0] != months[0])
