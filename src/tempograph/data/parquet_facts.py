"""Facts in Parquet files: a column of ids for each part, read and written block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from tempograph.data.graph import COLUMNS, SPAN_COLUMNS, Facts, first_out_of_range
from tempograph.data.spans import spans_of
from tempograph.errors import DataError

ROW_GROUP: Final = 1 << 20
"""The facts of a row group: what is decoded at a time."""


def read_parquet_facts(path: Path, sizes: tuple[int, int, int, int]) -> Facts:
    """The facts in a Parquet file, [n, 4 or 6].

    The file is memory-mapped, and each row group is decoded into its rows of the result, so that
    reading takes little more memory than the facts.
    """
    try:
        with pa.parquet.ParquetFile(path, memory_map=True) as file:
            names = _columns(path, file.schema_arrow)
            facts = np.empty((file.metadata.num_rows, len(names)), np.int64)
            start = 0
            for group in range(file.num_row_groups):
                # Arrow threads that are still starting when a command ends abort the process.
                table = file.read_row_group(group, columns=list(names), use_threads=False)
                block = facts[start : start + len(table)]
                for index, name in enumerate(names):
                    block[:, index] = _integers(path, name, table[name], start)
                _check_block(path, block, sizes, start)
                start += len(table)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path}: not a complete Parquet file ({reason})") from None
    return facts


class ParquetFactWriter:
    """Writes facts, given in blocks of any length, in row groups of one length."""

    def __init__(self, path: Path, width: int) -> None:
        self._names = SPAN_COLUMNS if width == len(SPAN_COLUMNS) else COLUMNS
        schema = pa.schema([(name, pa.int32()) for name in self._names])
        # Relations and times have few values or long runs; ids of entities have neither.
        repeated = [name for name in self._names if name not in ("subject", "object")]
        self._file = pa.parquet.ParquetWriter(
            path, schema, compression="zstd", use_dictionary=repeated
        )
        self._pending: list[Facts] = []
        self._rows = 0

    def write(self, facts: Facts) -> None:
        """Write a block of facts."""
        self._pending.append(facts)
        self._rows += len(facts)
        if self._rows >= ROW_GROUP:
            whole = np.concatenate(self._pending)
            end = len(whole) - len(whole) % ROW_GROUP
            for start in range(0, end, ROW_GROUP):
                self._write_group(whole[start : start + ROW_GROUP])
            self._pending, self._rows = [whole[end:].copy()], len(whole) - end

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        if self._rows:
            self._write_group(np.concatenate(self._pending))
        self._file.close()

    def _write_group(self, facts: Facts) -> None:
        columns = [pa.array(column.astype(np.int32)) for column in facts.T]
        self._file.write_table(pa.table(columns, list(self._names)), row_group_size=ROW_GROUP)


@contextmanager
def parquet_fact_writer(path: Path, width: int) -> Iterator[ParquetFactWriter]:
    """A writer of facts with 4 or 6 columns, closed at the end of the block."""
    writer = ParquetFactWriter(path, width)
    try:
        yield writer
    finally:
        writer.close()


def write_parquet_facts(path: Path, blocks: Iterable[Facts], width: int) -> None:
    """Write blocks of facts [n, width] to a file."""
    with parquet_fact_writer(path, width) as writer:
        for facts in blocks:
            writer.write(facts)


def _columns(path: Path, schema: pa.Schema) -> tuple[str, ...]:
    """The columns of the facts; a file without them, or with other values than ids, is refused."""
    names = SPAN_COLUMNS if "start" in schema.names else COLUMNS
    for name in names:
        if schema.names.count(name) != 1:
            raise DataError(
                f"{path}: expected the columns {', '.join(names)}, found {', '.join(schema.names)}"
            )
        if not pa.types.is_integer(kind := schema.field(name).type):
            raise DataError(f"{path}: column '{name}' must hold integer ids, not {kind}")
    return names


def _integers(path: Path, name: str, column: pa.ChunkedArray, start: int) -> Facts:
    """The ids in a column of a row group, whose first row is `start`."""
    if column.null_count:
        row = start + pc.index(pc.is_null(column), True).as_py() + 1
        raise DataError(f"{path}: row {row}: the {name} is empty; give an id")
    integers: Facts = column.to_numpy()
    if integers.dtype == np.uint64 and (integers > np.iinfo(np.int64).max).any():
        row = int(np.argmax(integers > np.iinfo(np.int64).max))
        raise DataError(f"{path}: row {start + row + 1}: id {integers[row]} is out of range")
    return integers


def _check_block(path: Path, facts: Facts, sizes: tuple[int, int, int, int], start: int) -> None:
    """Refuse ids out of range and facts that end before they start."""
    faulty = first_out_of_range(facts, sizes)
    if faulty is not None:
        row, column, value, size = faulty
        raise DataError(
            f"{path}: row {start + row + 1}: {column} id {value} is out of range; "
            f"the dataset has ids 0 to {size - 1}"
        )
    first, last, _ = spans_of(facts)
    if (first > last).any():
        row = int(np.argmax(first > last))
        raise DataError(
            f"{path}: row {start + row + 1}: the start {first[row]} is after the end {last[row]}"
        )
