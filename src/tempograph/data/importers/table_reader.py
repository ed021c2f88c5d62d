"""Read tables of dated facts in batches; a faulty row is reported with its line, or skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from tempograph.data.arrow_tables import TABLE
from tempograph.data.graph import COLUMNS
from tempograph.data.importers.bad_rows import EXAMPLES, TABLE_FAULTS, Positions, SkipCounter
from tempograph.data.importers.csv_reader import (
    SKIP_HINT,
    TableFile,
    column_positions,
    open_table,
    read_blocks,
    read_records,
    read_time_blocks,
)
from tempograph.data.importers.json_reader import json_encoding, read_json_lines
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.sources import (
    delimiter_of,
    file_size,
    is_json_lines,
    is_parquet,
    readable,
)
from tempograph.data.importers.text_encoding import WINDOWS_1252
from tempograph.data.importers.time_grid import TimeGrid
from tempograph.data.importers.time_parsing import (
    Integers,
    Mask,
    format_pattern,
    parse_dates,
    to_mask,
)
from tempograph.errors import DataError

Batch = tuple[list[pa.Array], Integers, int]
"""Subjects, relations, objects and times as given, their steps, and the bytes or rows read."""


class _RowError(Exception):
    """What is wrong with one row of a batch."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def read_table(
    path: Path,
    options: ImportOptions,
    grid: TimeGrid,
    skips: SkipCounter | None,
    remarks: list[str],
) -> Iterator[Batch]:
    """The rows of a file in batches; with `skips`, faulty rows are counted there and left out.

    What was detected about the file is added to `remarks`.
    """
    with readable(path):
        if is_parquet(path):
            yield from _parquet_batches(path, options, grid, skips)
        elif is_json_lines(path):
            yield from _json_batches(path, options, grid, skips, remarks)
        else:
            yield from _text_batches(path, options, grid, skips, remarks)


def read_times(path: Path, options: ImportOptions) -> Iterator[pa.Array]:
    """The times of a file as text, in batches; none if they are dates or numbers already."""
    with readable(path):
        if is_json_lines(path):
            for columns, _, _ in read_json_lines(path, options, SkipCounter()):
                yield columns[3]
            return
        if not is_parquet(path):
            yield from read_time_blocks(open_table(path, options))
            return
        with pa.parquet.ParquetFile(path) as file:
            if pa.types.is_string(file.schema_arrow.field(options.time).type):
                for batch in file.iter_batches(columns=[options.time]):
                    yield batch.column(options.time)


def read_fact_table(path: Path, options: ImportOptions) -> pa.Table:
    """The columns subject, relation, object and time of a whole table, as text.

    Dates in Parquet stay dates; times of a format other than integer become timestamps.
    """
    columns = options.columns
    with readable(path):
        if is_parquet(path):
            table = pa.parquet.read_table(path)
        else:
            delimiter = options.delimiter or delimiter_of(path) or ","
            table = pa.csv.read_csv(
                path,
                read_options=pa.csv.ReadOptions(use_threads=False),
                parse_options=pa.csv.ParseOptions(delimiter=delimiter),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(columns, pa.string())
                ),
            )
        column_positions(path, table.column_names, columns)
        facts = {
            part: _as_date_or_text(table[name]) for part, name in zip(COLUMNS, columns, strict=True)
        }
        if options.time_format not in (None, "integer") and pa.types.is_string(facts["time"].type):
            facts["time"] = _parse_times(path, facts["time"], str(options.time_format))
        return pa.table(facts)


def table_columns(table: pa.Table, options: ImportOptions) -> list[pa.ChunkedArray]:
    """The columns of subjects, relations, objects and times of a table in memory, as they are.

    Times in text of a format other than integer become timestamps.
    """
    column_positions(TABLE, table.column_names, options.columns)
    *names, times = (table[name] for name in options.columns)
    if options.time_format not in (None, "integer") and pa.types.is_string(times.type):
        times = pa.chunked_array([_parse_times(TABLE, times, str(options.time_format))])
    return [*names, times]


def _as_date_or_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("s"), safe=False)
    return column if pa.types.is_date(column.type) else _as_text(column)


def _parse_times(path: Path | str, times: pa.ChunkedArray, time_format: str) -> pa.Array:
    texts = pc.utf8_trim_whitespace(times.combine_chunks())
    moments, valid = parse_dates(texts, format_pattern(time_format))
    if not valid.all():
        row = int(np.argmin(valid))
        reason = TimeGrid(time_format).explain(texts[row].as_py())
        raise DataError(f"{path}: row {row + 1}: {reason}")
    return pa.array(moments)


def _parquet_batches(
    path: Path, options: ImportOptions, grid: TimeGrid, skips: SkipCounter | None
) -> Iterator[Batch]:
    with pa.parquet.ParquetFile(path) as file:
        _check_fields(path, file.schema_arrow, options)
        size, rows = file_size(path), file.metadata.num_rows
        if not rows:
            raise DataError(f"{path}: the file has no rows, so there is nothing to import")
        found = file.iter_batches(min(1 << 16, rows // 50 + 1), columns=list(options.columns))
        for columns, steps, done in _arrow_batches(path, found, options, grid, skips, SKIP_HINT):
            yield columns, steps, size * done // rows


def read_arrow(
    table: pa.Table, options: ImportOptions, grid: TimeGrid, skips: SkipCounter | None = None
) -> Iterator[Batch]:
    """The rows of a table in memory in batches, like `read_table`; counts rows, not bytes."""
    _check_fields(TABLE, table.schema, options)
    if not len(table):
        raise DataError(f"{TABLE} has no rows, so there is nothing to import")
    found = table.select(list(options.columns)).to_batches(1 << 16)
    hint = "ImportOptions(skip_bad=True) skips such rows"
    yield from _arrow_batches(TABLE, found, options, grid, skips, hint)


def _check_fields(source: Path | str, schema: pa.Schema, options: ImportOptions) -> None:
    for position in column_positions(source, schema.names, options.columns):
        field = schema.field(position)
        if pa.types.is_nested(field.type):
            raise DataError(
                f"{source}: column '{field.name}' must hold text, numbers or dates, "
                f"not {field.type}"
            )


def _arrow_batches(
    source: Path | str,
    batches: Iterable[pa.RecordBatch],
    options: ImportOptions,
    grid: TimeGrid,
    skips: SkipCounter | None,
    hint: str,
) -> Iterator[Batch]:
    """The valid rows of Arrow batches, and the rows read so far."""
    done = 0
    for batch in batches:
        *names, times = (batch.column(column) for column in options.columns)
        try:
            columns = [*(_as_text(column) for column in names), times]
            lines = done + np.arange(len(batch))
            columns, steps = _valid_rows(columns, grid, skips, source, lines)
        except _RowError as error:
            row = done + error.row + 1
            raise DataError(f"{source}: row {row}: {error}; {hint}") from None
        except pa.ArrowInvalid:
            raise DataError(
                f"{source}: rows {done + 1} to {done + len(batch)} hold text that is not UTF-8"
            ) from None
        done += len(batch)
        yield columns, steps, done


def _json_batches(
    path: Path,
    options: ImportOptions,
    grid: TimeGrid,
    skips: SkipCounter | None,
    remarks: list[str],
) -> Iterator[Batch]:
    if options.encoding is None and json_encoding(path, options) == WINDOWS_1252:
        remarks.append(_windows_remark(path))
    for columns, lines, done in read_json_lines(path, options, skips):
        try:
            valid = _valid_rows(columns, grid, skips, path, np.array(lines) - 1)
        except _RowError as error:
            raise DataError(f"{path}:{lines[error.row]}: {error}; {SKIP_HINT}") from None
        yield *valid, done


def _windows_remark(path: Path) -> str:
    return f"{path}: is not UTF-8, read as Windows-1252; --encoding sets another"


def _text_batches(
    path: Path,
    options: ImportOptions,
    grid: TimeGrid,
    skips: SkipCounter | None,
    remarks: list[str],
) -> Iterator[Batch]:
    file = open_table(path, options)
    if options.delimiter is None and file.delimiter != delimiter_of(path):
        remarks.append(f"{path}: the delimiter is {file.delimiter!r}; --delimiter sets another")
    rows = done = 0
    while True:
        try:
            for columns, done in _skip_rows(read_blocks(file), rows):
                columns, steps = _valid_rows(columns, grid)
                yield columns, steps, done
                rows += len(steps)
            problem = None
        except (_RowError, pa.ArrowInvalid) as error:
            problem = str(error)
        # The rows so far are ASCII, so they are the same in both encodings.
        other = None if problem is None or options.encoding else file.as_windows_1252()
        if other is None:
            break
        file = other
    if file.encoding == WINDOWS_1252 and options.encoding is None:
        remarks.append(_windows_remark(path))
    if problem is not None:
        if skips is None:
            raise _first_fault(file, grid, problem) from None
        for columns, lines, read in read_records(file, skips, rows):
            valid = _valid_rows(columns, grid, skips, path, np.array(lines) - 1)
            yield *valid, max(done, read)


def _skip_rows(
    blocks: Iterator[tuple[list[pa.Array], int]], count: int
) -> Iterator[tuple[list[pa.Array], int]]:
    """Blocks of rows without the first ones."""
    for columns, done in blocks:
        skipped = min(count, len(columns[0]))
        count -= skipped
        yield ([column[skipped:] for column in columns] if skipped else columns), done


def _first_fault(file: TableFile, grid: TimeGrid, message: str) -> DataError:
    """The error of the first faulty row, found by reading the file again record by record."""
    for columns, lines, _ in read_records(file):
        try:
            _valid_rows(columns, grid)
        except _RowError as error:
            return DataError(f"{file.path}:{lines[error.row]}: {error}; {SKIP_HINT}")
    return DataError(f"{file.path}: {message}")


def _valid_rows(
    columns: list[pa.Array],
    grid: TimeGrid,
    skips: SkipCounter | None = None,
    source: Path | str | None = None,
    lines: Positions | None = None,
) -> tuple[list[pa.Array], Integers]:
    """The valid rows of a batch and their steps.

    With `skips`, the others, on lines of a file from 0, are counted; else the first one is raised.
    """
    steps, dated = grid.steps(columns[3])
    faulty = np.stack([*(_invalid_names(names) for names in columns[:3]), ~dated], axis=1)
    if not faulty.any():
        return columns, steps
    if skips is None or lines is None:
        row, column = (int(index) for index in np.argwhere(faulty)[0])
        value = columns[column][row].cast(pa.string()).as_py()
        raise _RowError(row, _explain(COLUMNS[column], value, grid))
    if grid.unclear is not None:
        # An option reads these dates, so they are not skipped.
        times = pc.utf8_trim_whitespace(columns[3].cast(pa.string()))
        row = pc.index(times, grid.unclear).as_py()
        if row >= 0:
            raise DataError(f"{source}:{lines[row] + 1}: {grid.explain(grid.unclear)}")
    for column, reason in enumerate(TABLE_FAULTS):
        first = faulty[:, column] & ~faulty[:, :column].any(axis=1)
        values = columns[column].take(pa.array(np.flatnonzero(first)[:EXAMPLES]))
        skips.add(reason, str(source), lines[first], values.cast(pa.string()).to_pylist())
    valid = ~faulty.any(axis=1)
    return [column.filter(pa.array(valid)) for column in columns], steps[valid]


def _explain(part: str, value: str | None, grid: TimeGrid) -> str:
    """What is wrong with a value of a row."""
    if part == "time":
        return grid.explain(value and value[:60])
    if value and value.strip():
        return f"the {part} {value[:60]!r} contains a line break; a name must be one line"
    return f"the {part} is empty; fill it in or remove the row"


def _invalid_names(names: pa.Array) -> Mask:
    """Which names are missing, blank or contain a line break."""
    blank = pc.or_(pc.equal(names, ""), pc.utf8_is_space(names))
    broken = pc.or_(pc.match_substring(names, "\n"), pc.match_substring(names, "\r"))
    return to_mask(pc.or_(blank, broken).fill_null(True))


def _as_text(names: pa.Array) -> pa.Array:
    """A column of names as text; a float that is NaN is a missing name."""
    if pa.types.is_floating(names.type):
        names = pc.if_else(pc.is_nan(names), None, names)
    text = names.cast(pa.string())
    # Arrow does not check that text in a Parquet file is UTF-8.
    text.validate(full=True)
    return text
