"""Rows of files that are skipped: why, how many, and where the first of them stands."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]

RAGGED: Final = "wrong number of columns"
UNDECODABLE: Final = "bytes that are not UTF-8"
FAULTS: Final = (UNDECODABLE, "no subject", "no relation", "no object", "no valid date")
"""What a row of coded events is skipped for if it has the right number of columns; the first fault counts."""
UNUSABLE: Final = (
    "no usable subject",
    "no usable relation",
    "no usable object",
    "no readable time",
)
"""What a row of a table is skipped for, part by part; the first fault counts."""


@dataclass(frozen=True)
class Skipped:
    """Why rows were skipped, how many, and where the first of them stands, as file:line or, of Parquet, file:row."""

    reason: str
    rows: int
    first: str

    def __str__(self) -> str:
        return f"{self.reason}: {f'{self.rows:,} rows, the first' if self.rows > 1 else '1 row,'} at {self.first}"


class Skips:
    """Counts the rows that are skipped."""

    def __init__(self) -> None:
        self._rows: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, reason: str, text: str, lines: Places) -> None:
        """Skip rows of a text: those on these lines, counted from 0."""
        if len(lines):
            self._rows[reason] += len(lines)
            self._first.setdefault(reason, f"{text}:{lines[0] + 1}")

    def found(self) -> tuple[Skipped, ...]:
        """What was skipped, reason by reason."""
        reasons = [reason for reason in (RAGGED, *FAULTS, *UNUSABLE) if reason in self._first]
        return tuple(Skipped(reason, self._rows[reason], self._first[reason]) for reason in reasons)
