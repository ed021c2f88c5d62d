"""Bad rows of an import: what is wrong with them, how many there are, and where the first ones are.

A bad row of a table stops the import with one line that names file, line and value, unless
`skip_bad` is set; `csv_reader` and `table_reader` find them. Bad rows among coded events (ICEWS,
GDELT) are always skipped and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]

WRONG_WIDTH: Final = "wrong number of columns"
NOT_UTF8: Final = "bytes that are not UTF-8"
NOT_JSON: Final = "not a JSON object of texts and numbers"
EVENT_FAULTS: Final = (NOT_UTF8, "no subject", "no relation", "no object", "no valid date")
"""Faults of a coded event with the right number of columns; the first one counts."""
NAME_FAULTS: Final = ("no usable subject", "no usable relation", "no usable object")
NO_TIME: Final = "no readable time"
NO_START: Final = "no readable start"
NO_END: Final = "no readable end"
NOTHING_KNOWN: Final = "neither start nor end"
START_AFTER_END: Final = "start after end"
SPLIT_FAULT: Final = "no known split"
TABLE_FAULTS: Final = (
    *NAME_FAULTS,
    *(NO_TIME, NO_START, NO_END, NOTHING_KNOWN, START_AFTER_END),
    SPLIT_FAULT,
)
"""Faults of a row of a table, column by column; the first one counts."""


MAX_BAD: Final = 0.05
"""The fraction of bad rows above which an import stops, unless `max_bad` is set."""
EXAMPLES: Final = 3
"""How many bad values are shown for each reason."""
_MAX_LENGTH: Final = 60


@dataclass(frozen=True)
class BadValue:
    """The value that makes a row bad, and its place, as in `place`."""

    value: str
    at: str

    def __str__(self) -> str:
        return f"{self.value!r} at {self.at}"


@dataclass(frozen=True)
class SkippedRows:
    """Rows skipped for one reason; `first` is the place of the first, as in `place`.

    `examples` are the values of the first bad rows of a table; coded events have none.
    """

    reason: str
    rows: int
    first: str
    examples: tuple[BadValue, ...] = ()

    def __str__(self) -> str:
        if self.examples:
            count = f"{self.rows:,} rows, such as" if self.rows > 1 else "1 row,"
            return f"{self.reason}: {count} {', '.join(map(str, self.examples))}"
        count = f"{self.rows:,} rows, the first" if self.rows > 1 else "1 row,"
        return f"{self.reason}: {count} at {self.first}"


def place(source: Path | str, line: int) -> str:
    """The place of a row: file:line, in Parquet file:row, or "row 7 of the table"; all from 1."""
    return f"{source}:{line + 1}" if isinstance(source, Path) else f"row {line + 1} of {source}"


def bad_limit(max_bad: float | None, rows: int) -> float:
    """How many of some rows may be bad; `max_bad` is a fraction below 1, or a number of rows."""
    limit = MAX_BAD if max_bad is None else max_bad
    return limit if limit >= 1 else limit * rows


class SkipCounter:
    """Counts skipped rows by reason."""

    def __init__(self) -> None:
        self._skipped: dict[str, SkippedRows] = {}

    def add(
        self, reason: str, source: Path | str, lines: Positions, values: Sequence[str | None] = ()
    ) -> None:
        """Count rows on some lines of a file, or rows of a table, as skipped; both from 0.

        `values` are the bad values of the first of these rows.
        """
        if len(lines):
            places = [place(source, line) for line in lines[:EXAMPLES]]
            before = self._skipped.get(reason, SkippedRows(reason, 0, places[0]))
            added = [
                BadValue((value or "")[:_MAX_LENGTH], at)
                for value, at in zip(values, places, strict=False)
            ]
            self._skipped[reason] = replace(
                before,
                rows=before.rows + len(lines),
                examples=(*before.examples, *added)[:EXAMPLES],
            )

    def count(self) -> int:
        """How many rows were skipped."""
        return sum(skip.rows for skip in self._skipped.values())

    def rows(self) -> tuple[SkippedRows, ...]:
        """The skipped rows, reason by reason."""
        reasons = (WRONG_WIDTH, NOT_JSON, *EVENT_FAULTS, *TABLE_FAULTS)
        return tuple(self._skipped[reason] for reason in reasons if reason in self._skipped)
