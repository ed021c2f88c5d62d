"""When facts hold, in words: from labels of steps, `..` for an open bound, empty if unknown."""

from __future__ import annotations

from collections.abc import Sequence

from tempograph.data.spans import OPEN, UNKNOWN, Bounds


def span_labels(start: int, end: int, bounds: int, times: Sequence[str]) -> tuple[str, str]:
    """The labels of start and end of a fact."""
    first, last = times[start], times[end]
    if bounds & (Bounds.OPEN_START | Bounds.UNKNOWN_START):
        first = OPEN if bounds & Bounds.OPEN_START else UNKNOWN
    if bounds & (Bounds.OPEN_END | Bounds.UNKNOWN_END):
        last = OPEN if bounds & Bounds.OPEN_END else UNKNOWN
    return first, last


def span_text(start: str, end: str) -> str:
    """When a fact holds, in a table: 1926 to 1929, since 1926, until 1929, 1926 to ?, or 1928."""
    if start == end and start not in (OPEN, UNKNOWN):
        return start
    if start == OPEN and end == OPEN:
        return "always"
    if end == OPEN:
        return f"since {start or '?'}"
    if start == OPEN:
        return f"until {end or '?'}"
    return f"{start or '?'} to {end or '?'}"


def known_text(start: str, end: str) -> str:
    """Since when until when a fact is known to hold, in a sentence."""
    if start == end and start not in (OPEN, UNKNOWN):
        return f"known at {start}"
    since = "since the beginning" if start == OPEN else f"since {start}"
    until = "until now" if end == OPEN else f"until {end}"
    if start == UNKNOWN:
        return f"known {until}, start unknown"
    if end == UNKNOWN:
        return f"known {since}, end unknown"
    return f"known {since} {until}"
