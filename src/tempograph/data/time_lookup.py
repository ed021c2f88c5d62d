"""Find the time steps of a batch, written in any way that an import reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import pyarrow as pa

from tempograph.data.graph import TemporalGraph, When
from tempograph.data.importers.date_formats import DateFormats
from tempograph.data.importers.later_steps import extend_times, later_label
from tempograph.data.importers.option_words import COMMAND_LINE, OptionWords
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.time_grid import TimeGrid
from tempograph.data.importers.time_parsing import format_pattern, parse_dates
from tempograph.data.row_errors import RowError
from tempograph.errors import QueryError

UNREADABLE_TIME: Final = "an unreadable time"
UNCLEAR_TIME: Final = "a date that may have the day or the month first"
UNKNOWN_TIME: Final = "a time that is not on the grid"
_INTEGER: Final = re.compile(r"-?\d{1,18}", re.ASCII)


class TimeLookup:
    """Finds the ids of times on the grid of a graph; the options say how texts are written.

    With `extend`, times after the last step get ids as well: `graph` has these steps then. Such a
    time may be counted from the last step: +3 is the third after it.
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

    def __call__(self, values: Sequence[When]) -> list[int | RowError]:
        """The id of each of some distinct times, or why it has none."""
        dates, errors = self._parse([value for value in values if isinstance(value, str)])
        labels: dict[int, str] = {}
        for number, value in enumerate(values):
            if isinstance(value, str | date) and value not in errors:
                when = dates.get(value, value) if isinstance(value, str) else value
                try:
                    labels[number] = self._label(when)
                except QueryError as error:
                    errors[value] = RowError(UNKNOWN_TIME, str(error))
        far: dict[str, str] = {}
        if self._extend:
            self.graph, far = extend_times(self._original, labels.values())
        found: list[int | RowError] = []
        for number, value in enumerate(values):
            label = labels.get(number)
            if value in errors:
                found.append(errors[value])
            elif label in far:
                found.append(RowError(UNKNOWN_TIME, far[label]))
            else:
                found.append(self._find(value, label))
        return found

    def _parse(self, texts: list[str]) -> tuple[dict[Any, date], dict[Any, RowError]]:
        """The dates that texts other than labels are, and what is wrong with unreadable ones."""
        texts = [text for text in texts if not self._original.has_time(text.strip())]
        if not texts or not self._original.has_dates:
            return {}, {}
        stripped = pa.array([text.strip() for text in texts])
        time_format = self._options.time_format
        errors: dict[Any, RowError] = {}
        if time_format is None or time_format == "integer":
            formats = DateFormats(self._options.day_first, words=self._words)
            moments, valid = formats.parse(stripped)
            for text in (text for text, fits in zip(texts, valid, strict=True) if not fits):
                # Any other text may be the label of a later step, such as 2025-01.
                if unclear := formats.explain_order(text.strip()):
                    errors[text] = RowError(UNCLEAR_TIME, unclear)
        else:
            moments, valid = parse_dates(stripped, format_pattern(time_format))
            grid = TimeGrid(time_format)
            errors = {
                text: RowError(UNREADABLE_TIME, grid.explain(text))
                for text, fits in zip(texts, valid, strict=True)
                if not fits
            }
        parsed = zip(texts, moments.tolist(), valid, strict=True)
        # A year beyond those of Python's dates is no date, but a number.
        dates = {text: moment for text, moment, fits in parsed if fits and isinstance(moment, date)}
        return dates, errors

    def _label(self, when: str | date) -> str:
        """The label that a time has or would have; an integer may have leading zeros."""
        if isinstance(when, str):
            when = when.strip()
            if self._extend and (later := later_label(self._original, when)) is not None:
                return later
            if _INTEGER.fullmatch(when) and not self._original.has_time(when):
                when = str(int(when))
        return self._original.time_label(when)

    def _find(self, value: When, label: str | None) -> int | RowError:
        try:
            if label is not None and self.graph.has_time(label):
                return self.graph.time_id(label)
            if isinstance(value, str):
                # The error names the time as it is written, and the steps before any were added.
                return self._original.time_id(value.strip())
            return (self._original if isinstance(value, date) else self.graph).time_id(value)
        except QueryError as error:
            return RowError(UNKNOWN_TIME, str(error))
