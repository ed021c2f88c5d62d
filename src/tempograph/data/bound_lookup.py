"""Find when the facts of a batch hold: their starts and ends on the time grid of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tempograph.data.binned_times import find_bin
from tempograph.data.graph import TemporalGraph
from tempograph.data.id_lookup import EncodedColumn, plain_value
from tempograph.data.importers.bad_rows import NO_END, NO_START, NOTHING_KNOWN, START_AFTER_END
from tempograph.data.importers.interval_grid import NEITHER_KNOWN, IntervalGrid, explain_order
from tempograph.data.importers.interval_steps import fill_bounds
from tempograph.data.importers.later_steps import extend_times, find_grid
from tempograph.data.importers.option_words import COMMAND_LINE, OptionWords
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.partial_dates import BoundTexts, Known, known_dates
from tempograph.data.importers.time_grid import step_labels, steps_since_1970
from tempograph.data.row_errors import RowError, RowErrors
from tempograph.data.spans import Integers
from tempograph.data.time_lookup import UNCLEAR_TIME, UNKNOWN_TIME
from tempograph.errors import QueryError

_NONE: Final = -(2**62)
"""Stands for no step; steps before the first one are negative numbers above it."""
_ANY_SECOND: Final = 2**62
"""A bound given as a step may be at any second: steps say then whether a start is after an end."""


@dataclass(frozen=True, eq=False)
class _Values:
    """What the distinct values of a column say, and where their dates are on the grid."""

    texts: list[str]
    says: BoundTexts
    step: Integers
    errors: list[RowError | None]


class BoundLookup:
    """Finds the steps at which facts start and end; the options say how texts are written.

    A bound is a label, an id, or what an import reads: a date, also one known to the year or the
    month alone, open, unknown or empty. With `extend`, bounds may be after the last step: `graph`
    has these steps then, and facts with an open end hold to the last of them.
    """

    def __init__(
        self,
        graph: TemporalGraph,
        options: ImportOptions | None = None,
        extend: bool = False,
        words: OptionWords = COMMAND_LINE,
    ) -> None:
        self.graph = graph
        self._original = graph
        self._options = options or ImportOptions()
        self._extend = extend
        self._words = words
        self._steps = find_grid(graph)

    def __call__(self, start: EncodedColumn, end: EncodedColumn) -> tuple[Integers, RowErrors]:
        """Start, end and `Bounds` of each row, [n, 3], and what is wrong with it."""
        options = self._options
        texts = [value for each in (start, end) for value in each.values if isinstance(value, str)]
        grid = IntervalGrid(
            options.time_format,
            day_first=options.day_first,
            all_times=lambda: [pa.array(texts, pa.string())],
            words=self._words,
            empty=(options.empty_start or "unknown", options.empty_end or "open"),
        )
        found = [
            self._read(grid, part, column) for part, column in (("start", start), ("end", end))
        ]
        self._add_steps(found)
        codes = (start.codes, end.codes)
        first, last = (
            BoundTexts(*(part[code] for part in each.says))
            for each, code in zip(found, codes, strict=True)
        )
        errors, later = (
            _errors_of(each.errors, code) for each, code in zip(found, codes, strict=True)
        )
        errors = errors.then(later)
        bounds, faults = grid.check(first, last)
        faulty = {fault.reason: fault.rows for fault in faults}
        errors = errors.then(RowErrors.at(faulty[NOTHING_KNOWN], NOTHING_KNOWN, NEITHER_KNOWN))
        given = np.column_stack([each.step[code] for each, code in zip(found, codes, strict=True)])
        steps = fill_bounds(given, bounds, len(self.graph.times))
        swapped = (faulty[START_AFTER_END] | (steps[0] > steps[1])) & ~errors.mask
        rows = np.flatnonzero(swapped)
        shown = [
            explain_order(*(each.texts[code[row]] for each, code in zip(found, codes, strict=True)))
            for row in rows.tolist()
        ]
        errors = errors.then(RowErrors.at(swapped, START_AFTER_END, pa.array(shown, pa.string())))
        spans = np.column_stack([*steps, bounds])
        spans[errors.mask] = (-2, -2, 0)
        return spans, errors

    def _read(self, grid: IntervalGrid, part: str, column: EncodedColumn) -> _Values:
        """What the distinct values of a column say."""
        values = [plain_value(part, value) for value in column.values]
        says = BoundTexts(*np.zeros((3, len(values)), np.int64))
        step = np.full(len(values), _NONE)
        errors: list[RowError | None] = [
            value if isinstance(value, RowError) else None for value in values
        ]
        says.known[[value is None for value in values]] = Known.EMPTY
        texts = [code for code, value in enumerate(values) if isinstance(value, str)]
        parsed = grid.parse_texts(pa.array([values[code] for code in texts], pa.string()))
        _put(says, texts, parsed)
        days = [code for code, value in enumerate(values) if isinstance(value, date)]
        _put(says, days, _say_dates([values[code] for code in days]))
        seconds = says.first if part == "start" else says.last
        dated = np.flatnonzero(says.known >= Known.INTEGER)
        step[dated] = self._steps_of(seconds[dated], says.known[dated])
        for code, value in enumerate(values):
            label = value.strip() if isinstance(value, str) else None
            if isinstance(value, int | np.integer) or (label and self._original.has_time(label)):
                try:
                    step[code] = self._original.time_id(label or value)
                except QueryError as error:
                    errors[code] = RowError(UNKNOWN_TIME, str(error))
                if says.known[code] < Known.INTEGER or self._steps is None or label is None:
                    says.known[code] = Known.DAY
                    says.first[code], says.last[code] = -_ANY_SECOND, _ANY_SECOND
            elif label is not None and says.known[code] == Known.UNREADABLE:
                kind = NO_START if part == "start" else NO_END
                kind = UNCLEAR_TIME if grid.is_unclear(label) else kind
                errors[code] = RowError(kind, grid.explain(label))
        shown = ["" if value is None else str(value).strip() for value in values]
        for code in np.flatnonzero(says.known >= Known.INTEGER).tolist():
            if errors[code] is None:
                errors[code] = self._explain_step(part, shown[code], int(step[code]))
        return _Values(shown, says, step, errors)

    def _steps_of(self, seconds: Integers, known: Integers) -> Integers:
        """The steps of some seconds, counted from the first one; `_NONE` off the grid."""
        moments, times = seconds.astype("M8[s]"), self._original.times
        if self._steps is None:
            days = np.datetime_as_string(moments.astype("M8[D]")).tolist()
            labels = [find_bin(times, day) for day in days]
            ids = [_NONE if label is None else self._original.time_id(label) for label in labels]
            return np.array(ids, np.int64)
        granularity, last = self._steps
        if granularity is not None:
            numbers = steps_since_1970(moments, granularity)
        else:
            numbers = steps_since_1970(moments, "year") + 1970
            if not self._original.has_dates:
                # The steps are numbers, and no years.
                numbers = np.where(known == Known.INTEGER, numbers, _NONE)
        return np.where(numbers == _NONE, _NONE, numbers - (last - len(times) + 1))

    def _explain_step(self, part: str, text: str, step: int) -> RowError | None:
        """Why a bound has no step, or None if it has one or may get one."""
        graph = self._original
        times = graph.times
        if 0 <= step < len(times) or (self._extend and step >= len(times)):
            return None
        if _NONE < step < 0:
            return RowError(
                UNKNOWN_TIME,
                f"the {part} '{text}' is before the first step of {graph.name}, {times[0]}, and "
                "earlier steps cannot be added",
            )
        hint = "; if the fact still holds, its end is '..'" if part == "end" else ""
        span = f"{len(times)} steps, {times[0]} to {times[-1]}"
        return RowError(
            UNKNOWN_TIME,
            f"the {part} '{text}' is not on the time grid of {graph.name} ({span}){hint}",
        )

    def _add_steps(self, found: list[_Values]) -> None:
        """Extend the grid to the steps after the last one; some are too far away."""
        if not self._extend or self._steps is None:
            return
        granularity, last = self._steps
        count, labels = len(self._original.times), dict[int, str]()
        for each in found:
            for step in each.step[each.step >= count].tolist():
                number = last + 1 + step - count
                labels[step] = step_labels(number, number, granularity)[0]
        self.graph, far = extend_times(self._original, labels.values())
        for each in found:
            for code in np.flatnonzero(each.step >= count).tolist():
                label = labels[int(each.step[code])]
                if label in far:
                    each.errors[code] = RowError(UNKNOWN_TIME, far[label])


def _put(says: BoundTexts, codes: list[int], parsed: BoundTexts) -> None:
    for column, values in zip(says, parsed, strict=True):
        column[codes] = values


def _say_dates(values: list[Any]) -> BoundTexts:
    """The bounds that dates are; if one of them has a time of day, all times are moments."""
    plain = [
        value.astimezone(UTC).replace(tzinfo=None)
        if isinstance(value, datetime) and value.tzinfo is not None
        else value
        for value in values
    ]
    moments = np.array([np.datetime64(value, "s") for value in plain], "M8[s]")
    timed = bool((moments.astype(np.int64) % 86_400).any())
    is_moment = np.array([timed and isinstance(value, datetime) for value in values], bool)
    return known_dates(moments, np.ones(len(values), bool), is_moment)


def _errors_of(errors: list[RowError | None], codes: Any) -> RowErrors:
    """The error of the value of each row."""
    rows = pa.array(codes)
    kinds = pa.array([error and error.kind for error in errors], pa.string())
    texts = pa.array([error and error.text for error in errors], pa.string())
    return RowErrors(kinds.take(rows), texts.take(rows))
