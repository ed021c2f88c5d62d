"""Bad rows of an import: what is wrong with them, how many there are, and where the first one is.

A bad row of a table stops the import with one line that names file, line and value, unless
`skip_bad` is set; `csv_reader` and `table_reader` find them. Bad rows among coded events (ICEWS,
GDELT) are always skipped and counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]

WRONG_WIDTH: Final = "wrong number of columns"
NOT_UTF8: Final = "bytes that are not UTF-8"
EVENT_FAULTS: Final = (NOT_UTF8, "no subject", "no relation", "no object", "no valid date")
"""Faults of a coded event with the right number of columns; the first one counts."""
TABLE_FAULTS: Final = (
    "no usable subject",
    "no usable relation",
    "no usable object",
    "no readable time",
)
"""Faults of a row of a table, column by column; the first one counts."""


@dataclass(frozen=True)
class SkippedRows:
    """Rows skipped for one reason; `first` is file:line or, in Parquet, file:row."""

    reason: str
    rows: int
    first: str

    def __str__(self) -> str:
        count = f"{self.rows:,} rows, the first" if self.rows > 1 else "1 row,"
        return f"{self.reason}: {count} at {self.first}"


class SkipCounter:
    """Counts skipped rows by reason."""

    def __init__(self) -> None:
        self._skipped: dict[str, SkippedRows] = {}

    def add(self, reason: str, file: str, lines: Positions) -> None:
        """Count rows on some lines of a file as skipped; lines start at 0."""
        if len(lines):
            new = SkippedRows(reason, 0, f"{file}:{lines[0] + 1}")
            before = self._skipped.get(reason, new)
            self._skipped[reason] = replace(before, rows=before.rows + len(lines))

    def rows(self) -> tuple[SkippedRows, ...]:
        """The skipped rows, reason by reason."""
        reasons = (WRONG_WIDTH, *EVENT_FAULTS, *TABLE_FAULTS)
        return tuple(self._skipped[reason] for reason in reasons if reason in self._skipped)
