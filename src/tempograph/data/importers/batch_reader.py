"""Read the facts of a batch from a file: its columns, and the lines that are no facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from tempograph.data.importers.arrow_reader import as_text, check_fields
from tempograph.data.importers.bad_rows import Positions, SkipCounter, SkippedRows
from tempograph.data.importers.csv_reader import TableFile, open_table, read_blocks, read_records
from tempograph.data.importers.event_formats import EventColumns, detect_format, find_layouts
from tempograph.data.importers.event_reader import DATE_FORMAT, read_events
from tempograph.data.importers.json_reader import json_encoding, read_json_lines
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.sources import is_json_lines, is_parquet, readable
from tempograph.data.importers.time_grid import TimeGrid

BROKEN_LINE: Final = "a line that cannot be read"
Places = Callable[[Sequence[int]], list[str]]
"""Where some rows, in ascending order, come from, such as events.csv:17."""


@dataclass(frozen=True, eq=False)
class FileFacts:
    """The columns of a file, as text or dates, where its rows are, and its broken lines.

    There are four, or five of facts with a start and an end.
    """

    columns: list[pa.ChunkedArray]
    places: Places
    broken: dict[int, str] = field(default_factory=dict)
    """The rows of lines that cannot be read, which have no values, and what is wrong with each."""
    skipped: tuple[SkippedRows, ...] = ()
    """Rows of coded events that are no events; they are not among the rows."""


class _BrokenLines(SkipCounter):
    """Collects the lines that cannot be read, instead of counting them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[int, str] = {}

    def add(
        self, reason: str, source: Path | str, lines: Positions, values: Sequence[str | None] = ()
    ) -> None:
        """Collect lines of a file, counted from 0, with the reason and their text."""
        for line, value in zip(lines.tolist(), values, strict=True):
            self.lines[line + 1] = f"{reason}: {(value or '')[:60]!r}"


def read_file(path: Path, options: ImportOptions) -> FileFacts:
    """The facts of a file of any kind that can be imported; nothing is skipped but non-events."""
    with readable(path):
        if options.format is None:
            options = replace(options, format=detect_format(path) or "table")
        if events := options.event_columns:
            return _read_events(path, events)
        if is_parquet(path):
            return _read_parquet(path, options)
        if is_json_lines(path):
            lines = _BrokenLines()
            encoding = json_encoding(path, options)
            blocks = read_json_lines(path, options.fact_columns, encoding, lines)
            return _with_lines(path, blocks, lines, len(options.fact_columns))
        return _read_text(path, options)


def _read_events(path: Path, events: EventColumns) -> FileFacts:
    skips, parts = SkipCounter(), list[list[pa.Array]]()
    layouts, grid = find_layouts(path, events), TimeGrid(DATE_FORMAT, "day")
    for columns, steps, _ in read_events(path, layouts, events, grid, skips):
        parts.append([*columns[:3], pa.array(steps.astype("M8[D]"))])
    columns = _join(parts, (pa.string(), pa.string(), pa.string(), pa.date32()))
    places: Places = lambda rows: [f"{path}: event {row + 1}" for row in rows]  # noqa: E731
    return FileFacts(columns, places, skipped=skips.rows())


def _read_parquet(path: Path, options: ImportOptions) -> FileFacts:
    check_fields(path, pa.parquet.read_schema(path), options)
    table = pa.parquet.read_table(path, columns=list(options.fact_columns))
    places: Places = lambda rows: [f"{path}: row {row + 1}" for row in rows]  # noqa: E731
    return FileFacts([_as_date_or_text(table[name]) for name in options.fact_columns], places)


def _as_date_or_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates and timestamps as they are; numbers are names and labels, never ids."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("s"), safe=False)
    return column if pa.types.is_date(column.type) else as_text(column)


def _read_text(path: Path, options: ImportOptions) -> FileFacts:
    kinds = (pa.string(),) * len(options.fact_columns)
    file: TableFile | None = open_table(path, options)
    while file is not None:
        last = file
        try:
            parts = [columns for columns, _ in read_blocks(file)]
            return FileFacts(_join(parts, kinds), partial(_find_lines, file))
        except pa.ArrowInvalid:
            # A line is broken, or all of them are in another encoding.
            file = None if options.encoding else file.as_windows_1252()
    lines = _BrokenLines()
    return _with_lines(path, read_records(last, lines), lines, len(kinds))


def _join(
    parts: Sequence[Sequence[pa.Array]], kinds: Sequence[pa.DataType]
) -> list[pa.ChunkedArray]:
    """The columns of blocks of rows."""
    return [
        pa.chunked_array([part[number] for part in parts], kind)
        for number, kind in enumerate(kinds)
    ]


def _with_lines(
    path: Path,
    blocks: Iterable[tuple[list[pa.Array], Positions | list[int], int]],
    broken: _BrokenLines,
    width: int,
) -> FileFacts:
    """The rows of blocks with known lines, and an empty row for each broken line between them."""
    parts, numbers = list[list[pa.Array]](), list[Positions]()
    for part, rows_at, _ in blocks:
        parts.append(part)
        numbers.append(np.asarray(rows_at, np.int64))
    lines = np.concatenate([*numbers, np.array([*broken.lines], np.int64)])
    order = np.argsort(lines)
    kept = len(lines) - len(broken.lines)
    index = pa.array(order, mask=order >= kept)
    columns = [column.take(index) for column in _join(parts, (pa.string(),) * width)]
    rows = np.flatnonzero(order >= kept)
    messages = {int(row): broken.lines[int(lines[order[row]])] for row in rows}
    return FileFacts(columns, partial(_known_lines, path, lines[order]), messages)


def _known_lines(path: Path, lines: NDArray[np.int64], rows: Sequence[int]) -> list[str]:
    return [f"{path}:{lines[row]}" for row in rows]


def _find_lines(file: TableFile, rows: Sequence[int]) -> list[str]:
    """The lines of some rows, found by reading the file again up to the last of them."""
    found: list[str] = []
    before = 0
    for _, lines, _ in read_records(file) if rows else ():
        inside = [row for row in rows if before <= row < before + len(lines)]
        found += [f"{file.path}:{lines[row - before]}" for row in inside]
        before += len(lines)
        if len(found) == len(rows):
            break
    return found
