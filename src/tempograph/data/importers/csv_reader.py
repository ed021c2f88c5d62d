"""Read delimited text: fast with Arrow, or record by record to find the line of a faulty row."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv

from tempograph.data.importers.bad_rows import NOT_UTF8, WRONG_WIDTH, SkipCounter
from tempograph.data.importers.option_words import COMMAND_LINE
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.sources import Binary, delimiter_of, open_unpacked, suffix_of
from tempograph.data.importers.text_encoding import (
    WINDOWS_1252,
    Recoder,
    decoding_errors,
    describe_undecoded,
    detect_encoding,
    find_delimiter,
    is_windows_1252,
)
from tempograph.data.suggestions import did_you_mean
from tempograph.errors import DataError

_Record = tuple[int, list[str]]

_BLOCK: Final = 1 << 20
_SLOW_ROWS: Final = 10_000
# No file can contain this: undecodable bytes are read as the code points DC80 to DCFF.
_END: Final = "\udfff"


@dataclass(frozen=True)
class TableFile:
    """A text file, its fields, and the positions of those that are used."""

    path: Path
    delimiter: str
    header: bool
    fields: tuple[str, ...]
    used: tuple[int, ...]
    encoding: str = "utf-8"

    def as_windows_1252(self) -> TableFile | None:
        """The same file in Windows-1252, if it is not UTF-8 but may be that, else None."""
        if self.encoding != "utf-8":
            return None
        with open_unpacked(self.path) as (_, content):
            return replace(self, encoding=WINDOWS_1252) if is_windows_1252(content) else None


def open_table(path: Path, options: ImportOptions) -> TableFile:
    """Read the header of a text file."""
    expected = options.delimiter or delimiter_of(path)
    if expected is None:
        raise DataError(
            f"{path}: the suffix '{suffix_of(path)}' is unknown; import .csv, .tsv, .txt or "
            ".jsonl, plain or gzipped, or .parquet, or pass the delimiter of a text file"
        )
    with open_unpacked(path) as (_, content):
        encoding, head = detect_encoding(content, options.encoding)
    delimiter = options.delimiter or find_delimiter(head, expected)
    with _records(path, delimiter, encoding) as (records, _):
        first = list(islice(records, 1 + options.header))
    if not first:
        raise DataError(f"{path}: the file is empty, so there is nothing to import")
    line, fields = first[0]
    if message := describe_undecoded(fields, encoding):
        raise DataError(f"{path}:{line}: {message}")
    if len(first) == 1 and options.header:
        raise DataError(f"{path}: the file has no rows, so there is nothing to import")
    names = tuple(fields) if options.header else tuple(map(str, range(len(fields))))
    used = column_positions(path, names, options.used_columns)
    return TableFile(path, delimiter, options.header, names, used, encoding)


def column_positions(
    path: Path | str, names: Sequence[str], columns: Sequence[str]
) -> tuple[int, ...]:
    """The positions of some columns among all; a missing or repeated one is refused."""
    for column in columns:
        if column not in names:
            known = ", ".join(repr(name) for name in names)
            raise DataError(
                f"{path}: there is no column '{column}' among {known}{did_you_mean(column, names)}"
            )
        if names.count(column) > 1:
            raise DataError(
                f"{path}: {names.count(column)} columns are named '{column}'; rename all but one"
            )
    return tuple(names.index(column) for column in columns)


def read_blocks(file: TableFile) -> Iterator[tuple[list[pa.Array], int]]:
    """The used columns as text, block by block, and the bytes of the file read so far."""
    columns = [file.fields[position] for position in file.used]
    with open_unpacked(file.path) as (packed, content):
        source = _Source(packed, content, file.encoding)
        reader = _open_csv(file, source, columns)
        for number, batch in enumerate(reader):
            yield [batch.column(column) for column in columns], source.positions[number]
    if source.quotes % 2:
        # Arrow reads an unclosed quotation mark as a field that runs to the end of the file.
        with _records(file.path, file.delimiter, file.encoding) as (records, _):
            deque(records, maxlen=0)


def read_column_blocks(file: TableFile, column: str) -> Iterator[pa.Array]:
    """One column alone as text, block by block, up to bytes that cannot be read."""
    with open_unpacked(file.path) as (packed, content), suppress(pa.ArrowInvalid):
        reader = _open_csv(
            file, _Source(packed, content, file.encoding), [column], lambda _: "skip"
        )
        for batch in reader:
            yield batch.column(column)


def _open_csv(
    file: TableFile,
    source: _Source,
    columns: list[str],
    handle_invalid: Callable[[pa.csv.InvalidRow], str] | None = None,
) -> pa.csv.CSVStreamingReader:
    """Arrow's reader of some columns as text."""
    return pa.csv.open_csv(
        source,
        read_options=pa.csv.ReadOptions(
            block_size=_BLOCK, use_threads=False, column_names=None if file.header else file.fields
        ),
        parse_options=pa.csv.ParseOptions(
            delimiter=file.delimiter, newlines_in_values=True, invalid_row_handler=handle_invalid
        ),
        convert_options=pa.csv.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(columns, pa.string()),
            strings_can_be_null=False,
        ),
    )


class _Source:
    """A file for Arrow, in UTF-8, that records where each block ends and counts quotation marks."""

    closed = False

    def __init__(self, packed: Binary, content: Binary, encoding: str) -> None:
        self._packed = packed
        self._content = content if encoding == "utf-8" else Recoder(content, encoding)
        self.positions: list[int] = []
        self.quotes = 0

    def read(self, size: int) -> bytes:
        block = self._content.read(size)
        self.positions.append(self._packed.tell())
        self.quotes += block.count(b'"')
        return block


def read_records(
    file: TableFile, skips: SkipCounter | None = None, first_row: int = 0
) -> Iterator[tuple[list[pa.Array], list[int], int]]:
    """The used columns as text, the line where each row starts, and the bytes read so far.

    Records that cannot be read are counted in `skips`, or stop the import.
    """
    pending: list[_Record] = []
    fault: DataError | None = None
    with _records(file.path, file.delimiter, file.encoding) as (records, packed):
        try:
            for line, fields in islice(records, file.header + first_row, None):
                if broken := _record_fault(file, fields):
                    if skips is None:
                        raise DataError(f"{file.path}:{line}: {broken[1]}")
                    record = file.delimiter.join(fields).encode(errors="surrogateescape")
                    value = record.decode(errors="backslashreplace")
                    skips.add(broken[0], file.path, np.array([line - 1]), [value])
                    continue
                pending.append((line, [fields[position] for position in file.used]))
                if len(pending) == _SLOW_ROWS:
                    yield *_to_columns(pending), packed.tell()
                    pending.clear()
        except DataError as error:
            fault = error
        # The rows before a broken one come first: one of them may be faulty already.
        if pending:
            yield *_to_columns(pending), packed.tell()
    if fault:
        raise fault


def _record_fault(file: TableFile, fields: Sequence[str]) -> tuple[str, str] | None:
    """Why a record cannot be read, as a reason to count and as a message; None if it can."""
    if len(fields) != len(file.fields):
        found = f"expected {len(file.fields)} fields, found {len(fields)}"
        return WRONG_WIDTH, f"{found}; {COMMAND_LINE.skip_hint}"
    message = describe_undecoded([fields[position] for position in file.used], file.encoding)
    return (NOT_UTF8, f"{message}; {COMMAND_LINE.skip_hint}") if message else None


def _to_columns(rows: list[_Record]) -> tuple[list[pa.Array], list[int]]:
    columns = zip(*(fields for _, fields in rows), strict=True)
    return [pa.array(column) for column in columns], [line for line, _ in rows]


@contextmanager
def _records(
    path: Path, delimiter: str, encoding: str
) -> Iterator[tuple[Iterator[_Record], Binary]]:
    """The records of a text file, and the file on disk, whose position shows the progress."""
    with open_unpacked(path) as (packed, content):
        marked = "utf-8-sig" if encoding == "utf-8" else encoding
        errors = decoding_errors(encoding)
        text = io.TextIOWrapper(content, encoding=marked, errors=errors, newline="")
        yield _parse_records(text, path, delimiter), packed


def _parse_records(text: io.TextIOWrapper, path: Path, delimiter: str) -> Iterator[_Record]:
    """Each record with the line where it starts; blank lines are not records."""
    reader = csv.reader(chain(text, [_END]), delimiter=delimiter)
    line = 1
    try:
        for fields in reader:
            if fields == [_END]:
                return
            if fields and fields[-1].endswith(_END):
                raise DataError(
                    f"{path}:{line}: a quotation mark opened in this row is never closed"
                )
            if fields:
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}:{line}: {error}; is a quotation mark left open?") from None
