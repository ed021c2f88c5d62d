"""Read tables that are columns already: Parquet files and tables in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from tempograph.data.importers.bad_rows import SkipCounter
from tempograph.data.importers.csv_reader import column_positions
from tempograph.data.importers.option_words import COMMAND_LINE, PYTHON, OptionWords
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.row_checks import Batch, FaultyRowError, Grid, valid_rows
from tempograph.data.importers.sources import file_size
from tempograph.errors import DataError


def read_parquet(
    path: Path, options: ImportOptions, grid: Grid, skips: SkipCounter | None
) -> Iterator[Batch]:
    """The rows of a Parquet file in batches, and the bytes read so far."""
    with pa.parquet.ParquetFile(path) as file:
        check_fields(path, file.schema_arrow, options)
        size, rows = file_size(path), file.metadata.num_rows
        if not rows:
            raise DataError(f"{path}: the file has no rows, so there is nothing to import")
        found = file.iter_batches(min(1 << 16, rows // 50 + 1), columns=list(options.used_columns))
        for columns, steps, done in _read_batches(path, found, options, grid, skips, COMMAND_LINE):
            yield columns, steps, size * done // rows


def read_arrow(
    table: pa.Table, name: str, options: ImportOptions, grid: Grid, skips: SkipCounter | None = None
) -> Iterator[Batch]:
    """The rows of a table in memory in batches, and the rows read so far; errors name it."""
    check_fields(name, table.schema, options)
    if not len(table):
        raise DataError(f"{name} has no rows, so there is nothing to import")
    found = table.select(list(options.used_columns)).to_batches(1 << 16)
    yield from _read_batches(name, found, options, grid, skips, PYTHON)


def holds_text(kind: pa.DataType) -> bool:
    """Whether the values of a column are text, not dates or numbers."""
    if pa.types.is_dictionary(kind):
        return holds_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def as_text(names: pa.Array) -> pa.Array:
    """A column of names as text; a float that is NaN is a missing name."""
    if pa.types.is_floating(names.type):
        names = pc.if_else(pc.is_nan(names), None, names)
    text = names.cast(pa.string())
    # Arrow does not check that text in a Parquet file is UTF-8.
    text.validate(full=True)
    return text


def check_fields(source: Path | str, schema: pa.Schema, options: ImportOptions) -> None:
    """Refuse a table that lacks one of the columns, or has it twice or nested."""
    for position in column_positions(source, schema.names, options.used_columns):
        field = schema.field(position)
        if pa.types.is_nested(field.type):
            raise DataError(
                f"{source}: column '{field.name}' must hold text, numbers or dates, "
                f"not {field.type}"
            )


def _read_batches(
    source: Path | str,
    batches: Iterable[pa.RecordBatch],
    options: ImportOptions,
    grid: Grid,
    skips: SkipCounter | None,
    words: OptionWords,
) -> Iterator[Batch]:
    """The valid rows of Arrow batches, and the rows read so far."""
    done = 0
    for batch in batches:
        subjects, relations, objects, *others = map(batch.column, options.used_columns)
        times, splits = others[: grid.columns], others[grid.columns :]
        try:
            names = map(as_text, (subjects, relations, objects))
            columns = [*names, *times, *map(as_text, splits)]
            lines = done + np.arange(len(batch))
            columns, steps = valid_rows(columns, grid, skips, source, lines)
        except FaultyRowError as error:
            row = done + error.row + 1
            raise DataError(f"{source}: row {row}: {error.describe(words.skip_hint)}") from None
        except pa.ArrowInvalid:
            raise DataError(
                f"{source}: rows {done + 1} to {done + len(batch)} hold text that is not UTF-8"
            ) from None
        done += len(batch)
        yield columns, steps, done
