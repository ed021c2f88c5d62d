"""Check the rows of a table: names that are not empty, times and splits that can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tempograph.data.graph import COLUMNS
from tempograph.data.importers.bad_rows import EXAMPLES, TABLE_FAULTS, Positions, SkipCounter
from tempograph.data.importers.own_splits import explain_split, parse_splits
from tempograph.data.importers.time_grid import TimeGrid
from tempograph.data.importers.time_parsing import Integers, Mask, to_mask

Batch = tuple[list[pa.Array], Integers, int]
"""Subjects, relations, objects and times as given, their steps, and the bytes or rows read.

With a split column, the splits as text come after the times.
"""
_PARTS: Final = (*COLUMNS, "split")


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
    grid: TimeGrid,
    skips: SkipCounter | None = None,
    source: Path | str = "",
    lines: Positions | None = None,
) -> tuple[list[pa.Array], Integers]:
    """The valid rows of a batch and their steps.

    With `skips`, the others, on lines of a file from 0, are counted; else the first one is raised.
    A date whose day and month cannot be told apart is always raised.
    """
    steps, dated = grid.steps(columns[3])
    invalid = [*(_invalid_names(names) for names in columns[:3]), ~dated]
    invalid += [~parse_splits(splits)[1] for splits in columns[4:]]
    faulty = np.stack(invalid, axis=1)
    if not faulty.any():
        return columns, steps
    if skips is None or lines is None:
        row, column = (int(index) for index in np.argwhere(faulty)[0])
        value = columns[column][row].cast(pa.string()).as_py()
        skippable = _PARTS[column] != "time" or not grid.is_unclear(value)
        raise FaultyRowError(row, _explain(_PARTS[column], value, grid), skippable)
    if grid.unclear is not None:
        # An option reads these dates, so they are not skipped.
        times = pc.utf8_trim_whitespace(columns[3].cast(pa.string()))
        row = pc.index(times, grid.unclear).as_py()
        if row >= 0:
            raise FaultyRowError(row, grid.explain(grid.unclear), skippable=False)
    for column, reason in enumerate(TABLE_FAULTS[: len(columns)]):
        first = faulty[:, column] & ~faulty[:, :column].any(axis=1)
        values = columns[column].take(pa.array(np.flatnonzero(first)[:EXAMPLES]))
        skips.add(reason, source, lines[first], values.cast(pa.string()).to_pylist())
    valid = ~faulty.any(axis=1)
    return [column.filter(pa.array(valid)) for column in columns], steps[valid]


def _explain(part: str, value: str | None, grid: TimeGrid) -> str:
    """What is wrong with a value of a row."""
    if part == "time":
        return grid.explain(value and value[:60])
    if part == "split":
        return explain_split(value)
    if value and value.strip():
        return f"the {part} {value[:60]!r} contains a line break; a name must be one line"
    return explain_empty(part)


def explain_empty(part: str) -> str:
    """What is wrong with a part of a fact that has no value."""
    return f"the {part} is empty; fill it in or remove the row"


def _invalid_names(names: pa.Array) -> Mask:
    """Which names are missing, blank or contain a line break."""
    blank = pc.or_(pc.equal(names, ""), pc.utf8_is_space(names))
    broken = pc.or_(pc.match_substring(names, "\n"), pc.match_substring(names, "\r"))
    return to_mask(pc.or_(blank, broken).fill_null(True))
