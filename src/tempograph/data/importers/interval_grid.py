"""Parse the starts and ends of facts, and put them on time steps once all of them are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tempograph.data.importers.bad_rows import NO_END, NO_START, NOTHING_KNOWN, START_AFTER_END
from tempograph.data.importers.date_formats import DateFormats
from tempograph.data.importers.interval_steps import IntervalSteps
from tempograph.data.importers.option_words import COMMAND_LINE, OptionWords
from tempograph.data.importers.partial_dates import (
    BoundTexts,
    Known,
    known_dates,
    parse_bounds,
    parse_marks,
    widen,
)
from tempograph.data.importers.time_grid import Placed, TimeFault
from tempograph.data.importers.time_parsing import Integers, Mask, format_pattern, parse_dates
from tempograph.data.spans import Bounds
from tempograph.typing import EmptyBound, Granularity

_KNOWN_BITS = 4
"""Behind the four `Bounds`, a row keeps what its start says (`Known`), then what its end says."""
NEITHER_KNOWN = "neither the start nor the end is known; fill in one of them or remove the row"
_LAST_SECOND = 86_399
"""The last second of a day, from its first one."""
_WITHOUT_START = Bounds.OPEN_START | Bounds.UNKNOWN_START
_WITHOUT_END = Bounds.OPEN_END | Bounds.UNKNOWN_END


class IntervalGrid:
    """Reads when facts start and end, and finds time steps that suit these dates.

    A fact lasts from the first second of its start to the last second of its end, until `place`
    turns seconds into steps.
    """

    columns = 2
    """The number of columns that say when a fact holds."""

    def __init__(
        self,
        time_format: str | None = None,
        granularity: Granularity | None = None,
        day_first: bool | None = None,
        all_times: Callable[[], Iterable[pa.Array]] | None = None,
        words: OptionWords = COMMAND_LINE,
        empty: tuple[EmptyBound, EmptyBound] = ("unknown", "open"),
        bins: int | None = None,
    ) -> None:
        self._format = time_format
        dates = time_format is not None and time_format != "integer"
        self._pattern = format_pattern(str(time_format)) if dates else None
        self._dates = DateFormats(day_first, all_times, words)
        self._empty = tuple(Known.OPEN if each == "open" else Known.UNKNOWN for each in empty)
        self._steps = IntervalSteps(granularity, bins, time_format == "integer", words)
        self._words = words
        self._remarks: list[str] = []
        self._timed = [False, False]
        """Whether times of day were read in a column of times of the starts, and of the ends."""

    def read(self, times: Sequence[pa.Array]) -> tuple[Integers, list[TimeFault]]:
        """The first and last second of each fact and what is known of them, [n, 3]; its faults."""
        start, end = (self._parse(column) for column in times)
        for number, column in enumerate(times):
            if pa.types.is_timestamp(column.type):
                self._timed[number] |= bool(((start, end)[number].known == Known.MOMENT).any())
        bounds, faults = self.check(start, end)
        packed = bounds + (start.known << _KNOWN_BITS) + (end.known << 2 * _KNOWN_BITS)
        return np.column_stack([start.first, end.last, packed]), faults

    def check(self, start: BoundTexts, end: BoundTexts) -> tuple[Integers, list[TimeFault]]:
        """Which bounds of facts are open or unknown (`Bounds`), [n], and the faults."""
        known: list[Integers] = []
        for each, empty in zip((start, end), self._empty, strict=True):
            known.append(np.where(each.known == Known.EMPTY, empty, each.known))
        bounds = (
            (known[0] == Known.OPEN) * Bounds.OPEN_START
            + (known[0] == Known.UNKNOWN) * Bounds.UNKNOWN_START
            + (known[1] == Known.OPEN) * Bounds.OPEN_END
            + (known[1] == Known.UNKNOWN) * Bounds.UNKNOWN_END
        )
        unreadable = [each.known == Known.UNREADABLE for each in (start, end)]
        readable = ~(unreadable[0] | unreadable[1])
        dated = (start.known >= Known.INTEGER) & (end.known >= Known.INTEGER)
        return bounds, [
            TimeFault(NO_START, unreadable[0], (0,)),
            TimeFault(NO_END, unreadable[1], (1,)),
            TimeFault(NOTHING_KNOWN, readable & _says_nothing(bounds, start, end), (0, 1)),
            TimeFault(START_AFTER_END, dated & (start.first > end.last), (0, 1)),
        ]

    def place(self, rows: Integers) -> Placed:
        """When facts hold, in steps, and the labels of all steps.   rows [n, 3] of `read`."""
        packed = rows[:, 2]
        known = np.stack([packed >> _KNOWN_BITS, packed >> 2 * _KNOWN_BITS], axis=1) % (
            1 << _KNOWN_BITS
        )
        bounds = packed % (1 << _KNOWN_BITS)
        self._remarks = self._remarks_on_empty(known)
        seconds, known = self._settle_midnights(rows[:, :2], known)
        placed = self._steps.place(seconds, known, bounds)
        self._remarks += self._steps.remarks
        return placed

    def explain(self, *values: str | None) -> str:
        """What is wrong with the value of a bound, or with the values of both."""
        texts = [(value or "").strip() for value in values]
        if len(texts) == 1:
            return self._explain_bound(texts[0])
        if not any(known in (Known.INTEGER, *_DATED) for known in self._known(texts)):
            return NEITHER_KNOWN
        return explain_order(*texts)

    def is_unclear(self, *values: str | None) -> bool:
        """Whether a bound is a date whose day and month cannot be distinguished."""
        texts = [(value or "").strip() for value in values]
        return self._pattern is None and any(map(self._dates.explain_order, texts))

    @property
    def unclear(self) -> str | None:
        """The first date that was refused because the order of its day and month is unknown."""
        return self._dates.unclear

    @property
    def day_first(self) -> bool | None:
        """Whether the day comes first in dates such as 01/02/2024, if that is known."""
        return self._dates.day_first

    def remarks(self) -> list[str]:
        """What was decided: the order of day and month, empty bounds, the length of a step."""
        return [*self._dates.remarks(), *self._remarks]

    def _settle_midnights(self, seconds: Integers, known: Integers) -> tuple[Integers, Integers]:
        """Midnights [n, 2] as moments if others of their column are, else as days.

        An end at midnight before its start is that day.
        """
        seconds = seconds.copy()
        moment = (known == Known.MIDNIGHT) & self._timed
        begins = seconds[:, 1] - _LAST_SECOND
        moment[:, 1] &= (known[:, 0] < Known.INTEGER) | (seconds[:, 0] <= begins)
        seconds[:, 1] = np.where(moment[:, 1], begins, seconds[:, 1])
        settled = np.where(moment, Known.MOMENT, Known.DAY)
        return seconds, np.where(known == Known.MIDNIGHT, settled, known)

    def _parse(self, column: pa.Array) -> BoundTexts:
        """What the bounds in a column say."""
        if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            return _read_dates(column)
        encoded = column.cast(pa.string()).dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy()
        return BoundTexts(*(part[codes] for part in self.parse_texts(encoded.dictionary)))

    def parse_texts(self, texts: pa.Array) -> BoundTexts:
        """What some distinct texts say."""
        if self._pattern is None:
            found = parse_bounds(texts, self._dates.parse)
            if self._format == "integer":
                is_date = found.known > Known.INTEGER
                return found._replace(known=np.where(is_date, Known.UNREADABLE, found.known))
            return found
        stripped = pc.utf8_trim_whitespace(texts.fill_null(""))
        moments, valid = parse_dates(stripped, self._pattern)
        timed = "<hour>" in self._pattern or "<epoch>" in self._pattern
        dates = known_dates(moments, valid, np.full(len(texts), timed))
        if not timed and "<day>" not in self._pattern:
            dates = widen(dates, Known.MONTH if "<month" in self._pattern else Known.YEAR)
        marks = parse_marks(texts)
        return dates._replace(known=np.where(marks == Known.UNREADABLE, dates.known, marks))

    def _known(self, texts: Sequence[str]) -> list[int]:
        known: list[int] = self.parse_texts(pa.array(texts, pa.string())).known.tolist()
        return known

    def _explain_bound(self, text: str) -> str:
        if self._format is not None:
            return f"the time {text!r} does not match the time format {self._format!r}"
        if reason := self._dates.explain(text):
            return reason
        return (
            f"the time {text!r} is no date such as 1926, 1926-05 or 1926-05-04, is not open (..) "
            "and not unknown (####); correct it"
        )

    def _remarks_on_empty(self, known: Integers) -> list[str]:
        """What empty bounds were taken for."""
        remarks = []
        for column, (part, means) in enumerate(zip(("start", "end"), self._empty, strict=True)):
            count = int((known[:, column] == Known.EMPTY).sum())
            if not count:
                continue
            empty = f"1 empty {part} means" if count == 1 else f"{count:,} empty {part}s mean"
            is_open = means == Known.OPEN
            true = "still true" if part == "end" else "true from the start of records"
            read = f"that the fact is {true}" if is_open else f"that the {part} is unknown"
            other = "unknown" if is_open else "open"
            option = getattr(self._words, f"empty_{part}").format(meaning=other)
            remarks.append(f"{empty} {read}; {option} says otherwise")
        return remarks


def explain_order(start: str, end: str) -> str:
    """What is wrong with a start that is after the end."""
    return f"the start {start!r} is after the end {end!r}; correct one of them"


_DATED = tuple(each for each in Known if each > Known.INTEGER)


def _says_nothing(bounds: Integers, start: BoundTexts, end: BoundTexts) -> Mask:
    """Which facts have no bound that is a date, unless both are said to be open."""
    nothing = ((bounds & _WITHOUT_START) > 0) & ((bounds & _WITHOUT_END) > 0)
    open_on_both = (start.known == Known.OPEN) & (end.known == Known.OPEN)
    mask: Mask = nothing & ~open_on_both
    return mask


def _read_dates(column: pa.Array) -> BoundTexts:
    """The bounds in a column of dates or times; missing ones are empty.

    What a time at midnight means is settled when all of them are known.
    """
    moments = column.to_numpy(zero_copy_only=False).astype("M8[s]")
    valid = ~np.isnat(moments)
    moments = np.where(valid, moments, np.datetime64(0, "s"))
    seconds = moments.astype(np.int64)
    found = known_dates(moments, valid, seconds % (_LAST_SECOND + 1) > 0)
    known = np.where(valid, found.known, Known.EMPTY)
    if pa.types.is_timestamp(column.type):
        known = np.where(known == Known.DAY, Known.MIDNIGHT, known)
    return found._replace(known=known)
