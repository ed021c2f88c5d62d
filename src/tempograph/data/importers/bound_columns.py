"""Find the columns that hold the start and the end of facts, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tempograph.data.importers.column_words import plain_words

STARTS: Final = "start starts started begin begins beginning since"
ENDS: Final = "end ends ended ending until till stop finish finished expires"
_SAY_WHEN: Final = {"since", "inception", "p580", "until", "till", "expires", "expiry", "p582"}
"""Words of a start or an end, whatever else is in the name."""
_STARTS: Final = {*STARTS.split(), "starting", "startdate", "starttime", "begindate"} | _SAY_WHEN
_ENDS: Final = {*ENDS.split(), "stopped", "enddate", "endtime"} | _SAY_WHEN
_DATES: Final = {"valid", "time", "date", "timestamp", "when", "datetime", "day", "month", "year"}
_NEUTRAL: Final = {*_DATES, "occurs", "validity", "effective", "utc", "at", "on", "of", "in"}
"""Words that may be beside start and end; start station is no date."""
_LATE: Final = {"until", "till", "expires", "expiry", "p582"}


class BoundColumns(NamedTuple):
    """The columns of start and end."""

    start: str
    end: str


def find_bounds(
    names: Sequence[str], start: str | None = None, end: str | None = None
) -> BoundColumns | None:
    """The columns of start and end among some, of which one or both may be given; None if unclear.

    Columns named `from` and `to` are a subject and an object, unless others have these names.
    """
    edges = ["from", "to"] if _has_other_ends(names) else []
    starts = [name for name in names if _is_bound(name, _STARTS - _LATE, "from first")]
    ends = [name for name in names if _is_bound(name, _ENDS - (_SAY_WHEN - _LATE), "to last thru")]
    starts = [start] if start else starts + [name for name in edges[:1] if name in names]
    ends = [end] if end else ends + [name for name in edges[1:] if name in names]
    pairs = [BoundColumns(first, last) for first in starts for last in ends if first != last]
    alike = [pair for pair in pairs if _rest(pair.start) == _rest(pair.end)]
    if alike:
        return alike[0]
    return pairs[0] if len(pairs) == 1 else None


def is_end(name: str) -> bool:
    """Whether a column's name says that it holds the end of a fact, such as 'valid_to'."""
    words = set(plain_words(name))
    return bool(words & set(ENDS.split())) or ("to" in words and bool(words & _DATES))


def _is_bound(name: str, words: set[str], with_date: str) -> bool:
    """Whether a name is of a start, or of an end; some words say so only beside one of a date."""
    found = set(plain_words(name))
    if found & _SAY_WHEN & words:
        return True
    if found & words:
        return found - words <= _NEUTRAL
    rest = found - set(with_date.split())
    return found != rest and bool(rest & _DATES)


def _rest(name: str) -> list[str]:
    """The words of a name without those for a start or an end."""
    paired = {"from", "first", "to", "last", "thru"}
    return [word for word in plain_words(name) if word not in _STARTS | _ENDS | paired]


def _has_other_ends(names: Sequence[str]) -> bool:
    """Whether columns are named subject and object, and none is of a time."""
    words = [plain_words(name) for name in names]
    has_time = any(set(each) & _DATES for each in words)
    return not has_time and ["subject"] in words and ["object"] in words
