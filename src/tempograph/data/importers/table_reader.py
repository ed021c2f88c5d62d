"""Read tables of dated facts in batches; a faulty row is reported with its line, or skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tempograph.data.importers.arrow_reader import holds_text, read_parquet
from tempograph.data.importers.bad_rows import SkipCounter
from tempograph.data.importers.csv_reader import (
    TableFile,
    open_table,
    read_blocks,
    read_column_blocks,
    read_records,
)
from tempograph.data.importers.json_reader import json_encoding, read_json_lines
from tempograph.data.importers.option_words import COMMAND_LINE
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.row_checks import Batch, FaultyRowError, Grid, valid_rows
from tempograph.data.importers.sources import delimiter_of, is_json_lines, is_parquet, readable
from tempograph.data.importers.text_encoding import WINDOWS_1252
from tempograph.errors import DataError


def read_table(
    path: Path, options: ImportOptions, grid: Grid, skips: SkipCounter | None, remarks: list[str]
) -> Iterator[Batch]:
    """The rows of a file in batches; with `skips`, faulty rows are counted there and left out.

    What was detected about the file is added to `remarks`.
    """
    with readable(path):
        if is_parquet(path):
            yield from read_parquet(path, options, grid, skips)
        elif is_json_lines(path):
            yield from _json_batches(path, options, grid, skips, remarks)
        else:
            yield from _text_batches(path, options, grid, skips, remarks)


def read_column(path: Path, column: str, options: ImportOptions) -> Iterator[pa.Array]:
    """A column of a file in batches of text; none if it holds dates or numbers."""
    with readable(path):
        if is_json_lines(path):
            encoding = json_encoding(path, options)
            for (texts,), _, _ in read_json_lines(path, [column], encoding, SkipCounter()):
                yield texts
            return
        if not is_parquet(path):
            yield from read_column_blocks(open_table(path, options), column)
            return
        with pa.parquet.ParquetFile(path) as file:
            if holds_text(file.schema_arrow.field(column).type):
                for batch in file.iter_batches(columns=[column]):
                    yield batch.column(column)


def _json_batches(
    path: Path, options: ImportOptions, grid: Grid, skips: SkipCounter | None, remarks: list[str]
) -> Iterator[Batch]:
    encoding = json_encoding(path, options)
    remarks += _encoding_remarks(path, encoding, options)
    for columns, lines, done in read_json_lines(path, options.used_columns, encoding, skips):
        try:
            valid = valid_rows(columns, grid, skips, path, lines - 1)
        except FaultyRowError as error:
            raise _at_line(path, lines[error.row], error) from None
        yield *valid, done


def _encoding_remarks(path: Path, encoding: str, options: ImportOptions) -> list[str]:
    """A note on the encoding of a file, if it was detected and is not UTF-8."""
    name = {WINDOWS_1252: "Windows-1252", "utf-16": "UTF-16"}.get(encoding)
    if options.encoding is not None or name is None:
        return []
    return [f"{path}: is not UTF-8, read as {name}; --encoding sets another"]


def _text_batches(
    path: Path, options: ImportOptions, grid: Grid, skips: SkipCounter | None, remarks: list[str]
) -> Iterator[Batch]:
    file = open_table(path, options)
    if options.delimiter is None and file.delimiter != delimiter_of(path):
        remarks.append(f"{path}: the delimiter is {file.delimiter!r}; --delimiter sets another")
    rows = done = 0
    while True:
        try:
            for columns, done in _skip_rows(read_blocks(file), rows):
                columns, steps = valid_rows(columns, grid)
                yield columns, steps, done
                rows += len(steps)
            problem = None
        except (FaultyRowError, pa.ArrowInvalid) as error:
            problem = str(error)
        # The rows so far are ASCII, so they are the same in both encodings.
        other = None if problem is None or options.encoding else file.as_windows_1252()
        if other is None:
            break
        file = other
    remarks += _encoding_remarks(path, file.encoding, options)
    if problem is not None:
        if skips is None:
            raise _first_fault(file, grid, problem) from None
        for columns, lines, read in read_records(file, skips, rows):
            try:
                valid = valid_rows(columns, grid, skips, path, np.array(lines) - 1)
            except FaultyRowError as error:
                raise _at_line(path, lines[error.row], error) from None
            yield *valid, max(done, read)


def _skip_rows(
    blocks: Iterator[tuple[list[pa.Array], int]], count: int
) -> Iterator[tuple[list[pa.Array], int]]:
    """Blocks of rows without the first ones."""
    for columns, done in blocks:
        skipped = min(count, len(columns[0]))
        count -= skipped
        yield ([column[skipped:] for column in columns] if skipped else columns), done


def _first_fault(file: TableFile, grid: Grid, message: str) -> DataError:
    """The error of the first faulty row, found by reading the file again record by record."""
    for columns, lines, _ in read_records(file):
        try:
            valid_rows(columns, grid)
        except FaultyRowError as error:
            return _at_line(file.path, lines[error.row], error)
    return DataError(f"{file.path}: {message}")


def _at_line(path: Path, line: int, error: FaultyRowError) -> DataError:
    return DataError(f"{path}:{line}: {error.describe(COMMAND_LINE.skip_hint)}")
