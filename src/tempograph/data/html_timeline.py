"""A small picture of facts on a time axis, as SVG for a notebook."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Final

from tempograph.data.html_table import Html, html_note

_WIDTH: Final = 620
_RIGHT: Final = _WIDTH - 10
_MARK_HEIGHT: Final = 14
_MAX_NAME: Final = 26
"""The longest name of a row, in letters."""
_FOR: Final = "#3b82c4"
_AGAINST: Final = "#d9772b"
_ASKED: Final = "#c2473b"
"""Colors for white and black pages; direction and shape say the same."""


@dataclass(frozen=True)
class TimelineMark:
    """A fact on the axis; a positive size is drawn upwards, a negative one downwards."""

    time: str
    size: float
    text: str
    """Shown when the mouse is over the mark."""
    known: bool = False
    """Known facts have a dot."""


@dataclass(frozen=True)
class TimelineRow:
    """The marks of one answer, or of all facts."""

    name: str
    marks: Sequence[TimelineMark]


def html_timeline(
    title: str, description: str, rows: Sequence[TimelineRow], asked: str | None = None
) -> Html:
    """Rows of marks above one time axis, a line at the time that is asked about, and a legend.

    Empty if fewer than two times occur, or if their labels are neither dates nor numbers.
    """
    marks = [mark for row in rows for mark in row.marks]
    labels = {mark.time for mark in marks} | ({asked} if asked is not None else set())
    positions = time_positions(labels)
    if not marks or len(labels) < 2 or positions is None:
        return Html()
    first, last = min(labels, key=positions.__getitem__), max(labels, key=positions.__getitem__)
    start, span = positions[first], positions[last] - positions[first] or 1.0
    left = 12 + 6.2 * max(_width(_shorten(row.name)) for row in rows)

    def x(time: str) -> float:
        return left + (_RIGHT - left) * (positions[time] - start) / span

    scale = max(abs(mark.size) for mark in marks) or 1.0
    below = _MARK_HEIGHT if any(mark.size < 0 for mark in marks) else 3
    above = _MARK_HEIGHT if len(rows) > 1 or below > 3 else 2 * _MARK_HEIGHT
    top = 4 if asked is None else 20
    parts, base = [], top
    for row in rows:
        base += above + 2
        parts.append(_draw_row(row, x, base, left, above, scale))
        base += below + 2
    if asked is not None:
        parts.insert(0, _draw_asked(asked, x(asked), top, base, left))
    parts += [
        f'<path d="M{left:.1f} {base}H{_RIGHT}" stroke="currentColor"/>',
        _draw_text(left, base + 13, first),
        _draw_text(_RIGHT, base + 13, last, "end"),
    ]
    height = base + 18
    return Html(
        f'<svg role="img" aria-label="{escape(title)}" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="11" '
        f'fill="currentColor"><title>{escape(title)}</title><desc>{escape(description)}</desc>'
        f"{''.join(parts)}</svg>{html_note(description)}"
    )


def time_positions(labels: Collection[str]) -> dict[str, float] | None:
    """Where each label is on a time axis; None unless all are dates or all are numbers."""
    for position in (_number, _days):
        found = {label: position(label) for label in labels}
        positions = {label: value for label, value in found.items() if value is not None}
        if len(positions) == len(found):
            return positions
    return None


def _number(label: str) -> float | None:
    return float(label) if re.fullmatch(r"-?\d{1,18}", label, re.ASCII) else None


def _days(label: str) -> float | None:
    """The days from 1970 to a date, an hour, a week such as 2024-W05, or a month."""
    with suppress(ValueError):
        moment = datetime.fromisoformat(f"{label}-01" if len(label) == 7 else label)
        return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds() / 86400
    return None


def _draw_row(
    row: TimelineRow, x: Callable[[str], float], base: int, left: float, above: int, scale: float
) -> str:
    parts = [
        f'<path d="M{left:.1f} {base}H{_RIGHT}" stroke="currentColor" stroke-opacity=".25"/>',
        _draw_text(left - 8, base + 1, _shorten(row.name), "end"),
    ]
    for mark in row.marks:
        height = 3 + (above - 3) * abs(mark.size) / scale
        up, color = (-1, _FOR) if mark.size >= 0 else (1, _AGAINST)
        drawn = f'<path d="M{x(mark.time):.1f} {base}v{up * height:.1f}" stroke-width="3"/>'
        if mark.known:
            drawn += f'<circle cx="{x(mark.time):.1f}" cy="{base}" r="3.5" fill="{color}"/>'
        parts.append(f'<g stroke="{color}"><title>{escape(mark.text)}</title>{drawn}</g>')
    return "".join(parts)


def _draw_asked(label: str, x: float, top: int, bottom: int, left: float) -> str:
    """A dashed line below a triangle, with the label of the time above it."""
    half = 3.2 * _width(label) + 20
    anchor, at = "middle", x
    if x - half < left:
        anchor, at = "start", left
    elif x + half > _WIDTH:
        anchor, at = "end", _WIDTH
    return (
        f'<g stroke="{_ASKED}"><path d="M{x:.1f} {top}V{bottom}" stroke-dasharray="3 2"/>'
        f'<path d="M{x - 4:.1f} {top - 5}h8l-4 6z" fill="{_ASKED}"/></g>'
        f"{_draw_text(at, top - 8, f'asked: {label}', anchor)}"
    )


def _draw_text(x: float, y: int, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _shorten(name: str) -> str:
    """The name, or the beginning of it that fits."""
    if _width(name) <= _MAX_NAME:
        return name
    short = name
    while _width(short) >= _MAX_NAME:
        short = short[:-1]
    return f"{short.rstrip()}…"


def _width(text: str) -> int:
    """The width of a text in letters; Chinese and Japanese characters are twice as wide."""
    return sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)
