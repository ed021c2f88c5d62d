"""Check the rows of a table: names that are not empty, times and splits that can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tempograph.data.graph import COLUMNS
from tempograph.data.importers.bad_rows import (
    EXAMPLES,
    NAME_FAULTS,
    SPLIT_FAULT,
    Positions,
    SkipCounter,
)
from tempograph.data.importers.interval_grid import IntervalGrid
from tempograph.data.importers.own_splits import explain_split, parse_splits
from tempograph.data.importers.time_grid import TimeFault, TimeGrid
from tempograph.data.importers.time_parsing import Integers, Mask, to_mask

Grid = TimeGrid | IntervalGrid
"""What reads when facts are, from a column of times, or from those of start and end."""

Batch = tuple[list[pa.Array], Integers, int]
"""Subjects, relations and objects, when facts are, and the bytes or rows read.

Times are as their grid reads them, [n, 1 or 3], or steps [n]. With a split column, the splits as
text come after the objects.
"""
_NAMES: Final = COLUMNS[:3]


class FaultyRowError(Exception):
    """What is wrong with one row of a batch."""

    def __init__(self, row: int, message: str, skippable: bool = True) -> None:
        super().__init__(message)
        self.row = row
        self._skippable = skippable

    def describe(self, skip_hint: str) -> str:
        """What is wrong, and how to skip such rows if they can be skipped."""
        return f"{self}; {skip_hint}" if self._skippable else str(self)


def valid_rows(
    columns: list[pa.Array],
    grid: Grid,
    skips: SkipCounter | None = None,
    source: Path | str = "",
    lines: Positions | None = None,
) -> tuple[list[pa.Array], Integers]:
    """The valid rows of a batch without its times, and when they are, as the grid reads it.

    With `skips`, the others, on lines of a file from 0, are counted; else the first one is raised.
    A date whose day and month cannot be distinguished is always raised.
    """
    times = columns[3 : 3 + grid.columns]
    kept = [*columns[:3], *columns[3 + grid.columns :]]
    when, faults = _find_faults(columns, grid)
    faulty = np.stack([fault.rows for fault in faults], axis=1)
    if not faulty.any():
        return kept, when
    if skips is None or lines is None:
        row, number = (int(index) for index in np.argwhere(faulty)[0])
        raise _faulty_row(row, faults[number], columns, grid)
    if grid.unclear is not None:
        # An option reads these dates, so they are not skipped.
        for column in times:
            texts = pc.utf8_trim_whitespace(column.cast(pa.string()))
            row = pc.index(texts, grid.unclear).as_py()
            if row >= 0:
                raise FaultyRowError(row, grid.explain(grid.unclear), skippable=False)
    for number, fault in enumerate(faults):
        first = np.flatnonzero(faulty[:, number] & ~faulty[:, :number].any(axis=1))
        shown = [
            " to ".join(value or "" for value in _values(columns, fault, int(row)))
            for row in first[:EXAMPLES]
        ]
        skips.add(fault.reason, source, lines[first], shown)
    valid = ~faulty.any(axis=1)
    return [column.filter(pa.array(valid)) for column in kept], when[valid]


def _find_faults(columns: list[pa.Array], grid: Grid) -> tuple[Integers, list[TimeFault]]:
    """When facts are, and the faults of their names, times and splits, in this order."""
    end = 3 + grid.columns
    when, time_faults = grid.read(columns[3:end])
    names = zip(NAME_FAULTS, columns[:3], strict=True)
    return when, [
        *(
            TimeFault(reason, _invalid_names(column), (number,))
            for number, (reason, column) in enumerate(names)
        ),
        *(
            fault._replace(columns=tuple(3 + column for column in fault.columns))
            for fault in time_faults
        ),
        *(TimeFault(SPLIT_FAULT, ~parse_splits(column)[1], (end,)) for column in columns[end:]),
    ]


def _values(columns: list[pa.Array], fault: TimeFault, row: int) -> list[str | None]:
    """The values of a row that have a fault."""
    return [columns[number][row].cast(pa.string()).as_py() for number in fault.columns]


def _faulty_row(row: int, fault: TimeFault, columns: list[pa.Array], grid: Grid) -> FaultyRowError:
    """The error of a row, which names the part of the fact and its value."""
    column, values = fault.columns[0], _values(columns, fault, row)
    value = values[0]
    if column >= 3 + grid.columns:
        return FaultyRowError(row, explain_split(value))
    if column >= 3:
        shown = [value and value[:60] for value in values]
        return FaultyRowError(row, grid.explain(*shown), not grid.is_unclear(*values))
    if value and value.strip():
        part = f"the {_NAMES[column]} {value[:60]!r}"
        return FaultyRowError(row, f"{part} contains a line break; a name must be one line")
    return FaultyRowError(row, explain_empty(_NAMES[column]))


def explain_empty(part: str) -> str:
    """What is wrong with a part of a fact that has no value."""
    return f"the {part} is empty; fill it in or remove the row"


def _invalid_names(names: pa.Array) -> Mask:
    """Which names are missing, blank or contain a line break."""
    blank = pc.or_(pc.equal(names, ""), pc.utf8_is_space(names))
    broken = pc.or_(pc.match_substring(names, "\n"), pc.match_substring(names, "\r"))
    return to_mask(pc.or_(blank, broken).fill_null(True))
