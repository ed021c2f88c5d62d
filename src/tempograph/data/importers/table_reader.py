"""Tables of dated events on disk, read in batches: fast, and where a row is faulty slowly, to name or skip its line."""

from __future__ import annotations

import csv
import gzip
import io
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from tempograph.data.graph import COLUMNS
from tempograph.data.importers.skipped_rows import RAGGED, UNDECODABLE, UNUSABLE, Places, Skips
from tempograph.data.importers.sources import (
    delimiter_of,
    is_gzipped,
    is_parquet,
    readable,
    suffix_of,
)
from tempograph.data.importers.time_parsing import Clock, Mask, Steps
from tempograph.errors import DataError, did_you_mean

_Binary = io.BufferedReader | gzip.GzipFile
_Record = tuple[int, list[str]]

_BLOCK: Final = 1 << 20
_SLOW_ROWS: Final = 10_000
# No file can hold this: undecodable bytes are read as the code points from DC80 to DCFF.
_END: Final = "\udfff"
_WAY_ON: Final = "--skip-bad skips such rows"


@dataclass(frozen=True)
class Layout:
    """The columns of subject, relation, object and time, by name or number, and how a text file is laid out."""

    columns: tuple[str, str, str, str]
    header: bool
    delimiter: str | None


Batch = tuple[list[pa.Array], Steps, int]
"""Subjects, relations, objects and times as they stand in a file, the steps of the times, and the bytes done so far."""


class _RowError(Exception):
    """What is wrong with one row of a batch."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def read_batches(
    path: Path, size: int, layout: Layout, clock: Clock, skips: Skips | None = None
) -> Iterator[Batch]:
    """The rows of a file, checked; whatever goes wrong on the way is a DataError that names the file.

    With `skips` faulty rows are counted there and left out.
    """
    with readable(path):
        if is_parquet(path):
            yield from _parquet_batches(path, size, layout, clock, skips)
        else:
            yield from _text_batches(path, layout, clock, skips)


def _check(columns: Sequence[pa.Array], clock: Clock) -> Steps:
    """The steps of a batch of subjects, relations, objects and times; raises the error of the first faulty row."""
    steps, faulty = _faults(columns, clock)
    if not faulty.any():
        return steps
    row, column = (int(index) for index in np.argwhere(faulty)[0])
    value = columns[column][row].cast(pa.string()).as_py()
    if column == 3:
        raise _RowError(row, clock.complaint(value and value[:60]))
    if value and value.strip():
        raise _RowError(
            row,
            f"the {COLUMNS[column]} {value[:60]!r} contains a line break; a name must be one line",
        )
    raise _RowError(row, f"the {COLUMNS[column]} is empty; fill it in or remove the row")


def _faults(columns: Sequence[pa.Array], clock: Clock) -> tuple[Steps, Mask]:
    """The steps of a batch, and which parts of its rows cannot be used, [rows, 4]."""
    steps, readable = clock.steps(columns[3])
    return steps, np.stack([*(_unusable(names) for names in columns[:3]), ~readable], axis=1)


def _sound(
    columns: Sequence[pa.Array], clock: Clock, skips: Skips, path: Path, lines: Places
) -> tuple[list[pa.Array], Steps]:
    """The rows of a batch that can be used, and their steps; the others, on lines from 0, are skipped."""
    steps, faulty = _faults(columns, clock)
    for place, reason in enumerate(UNUSABLE):
        skips.add(reason, str(path), lines[faulty[:, place] & ~faulty[:, :place].any(axis=1)])
    sound = ~faulty.any(axis=1)
    return [column.filter(pa.array(sound)) for column in columns], steps[sound]


def _unusable(names: pa.Array) -> Mask:
    """Which names are missing, blank or broken over lines."""
    blank = pc.or_(pc.equal(names, ""), pc.utf8_is_space(names))
    broken = pc.or_(pc.match_substring(names, "\n"), pc.match_substring(names, "\r"))
    mask: Mask = pc.or_(blank, broken).fill_null(True).to_numpy(zero_copy_only=False)
    return mask


def find_columns(path: Path, names: Sequence[str], columns: Sequence[str]) -> tuple[int, ...]:
    """The places of some columns among all; one that is not there, or there twice, is refused."""
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


def _parquet_batches(
    path: Path, size: int, layout: Layout, clock: Clock, skips: Skips | None
) -> Iterator[Batch]:
    with pa.parquet.ParquetFile(path) as file:
        for place in find_columns(path, file.schema_arrow.names, layout.columns):
            field = file.schema_arrow.field(place)
            if pa.types.is_nested(field.type):
                raise DataError(
                    f"{path}: column '{field.name}' must hold text, numbers or dates, not {field.type}"
                )
        rows, done = file.metadata.num_rows, 0
        if not rows:
            raise DataError(f"{path}: the file has no rows, so there is nothing to import")
        for batch in file.iter_batches(min(1 << 16, rows // 50 + 1), columns=list(layout.columns)):
            *names, times = (batch.column(column) for column in layout.columns)
            try:
                columns = [*(as_text(column) for column in names), times]
                if skips is None:
                    steps = _check(columns, clock)
                else:
                    columns, steps = _sound(
                        columns, clock, skips, path, done + np.arange(len(batch))
                    )
            except _RowError as error:
                raise DataError(f"{path}: row {done + error.row + 1}: {error}; {_WAY_ON}") from None
            except pa.ArrowInvalid:
                raise DataError(
                    f"{path}: rows {done + 1} to {done + len(batch)} hold text that is not UTF-8"
                ) from None
            done += len(batch)
            yield columns, steps, size * done // rows


def as_text(names: pa.Array) -> pa.Array:
    """A column of names as text, where a float that is not a number is no name."""
    if pa.types.is_floating(names.type):
        names = pc.if_else(pc.is_nan(names), None, names)
    text = names.cast(pa.string())
    # Arrow takes the text in a Parquet file on trust.
    text.validate(full=True)
    return text


@dataclass(frozen=True)
class _TextFile:
    """A text file, all its fields, and the places of the four that are used."""

    path: Path
    delimiter: str
    header: bool
    fields: tuple[str, ...]
    used: tuple[int, ...]


def _text_batches(path: Path, layout: Layout, clock: Clock, skips: Skips | None) -> Iterator[Batch]:
    file = _text_file(path, layout)
    rows = done = 0
    try:
        for columns, done in _fast_columns(file):
            steps = _check(columns, clock)
            yield columns, steps, done
            rows += len(steps)
    except (_RowError, pa.ArrowInvalid) as error:
        if skips is None:
            raise _first_fault(file, clock, str(error)) from None
        for slow, lines, read in _slow_columns(file, skips, rows):
            yield *_sound(slow, clock, skips, path, np.array(lines) - 1), max(done, read)


def _text_file(path: Path, layout: Layout) -> _TextFile:
    delimiter = layout.delimiter or delimiter_of(path)
    if delimiter is None:
        raise DataError(
            f"{path}: the suffix '{suffix_of(path)}' is unknown; import .csv, .tsv, .csv.gz, .tsv.gz or .parquet, "
            "or pass the delimiter of a text file"
        )
    with _records(path, delimiter) as (records, _):
        first = list(islice(records, 1 + layout.header))
    if not first:
        raise DataError(f"{path}: the file is empty, so there is nothing to import")
    line, fields = first[0]
    _refuse_undecodable(path, line, fields)
    if len(first) == 1 and layout.header:
        raise DataError(f"{path}: the file has no rows, so there is nothing to import")
    names = tuple(fields) if layout.header else tuple(str(number) for number in range(len(fields)))
    return _TextFile(
        path, delimiter, layout.header, names, find_columns(path, names, layout.columns)
    )


def _fast_columns(file: _TextFile) -> Iterator[tuple[list[pa.Array], int]]:
    """The four columns as text, block by block, and the bytes of the file done so far."""
    columns = [file.fields[place] for place in file.used]
    with _opened(file.path) as (packed, content):
        source = _Source(packed, content)
        reader = pa.csv.open_csv(
            source,
            read_options=pa.csv.ReadOptions(
                block_size=_BLOCK,
                use_threads=False,
                column_names=None if file.header else file.fields,
            ),
            parse_options=pa.csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                include_columns=columns,
                column_types=dict.fromkeys(columns, pa.string()),
                strings_can_be_null=False,
            ),
        )
        for number, batch in enumerate(reader):
            yield [batch.column(column) for column in columns], source.positions[number]
    if source.quotes % 2:
        # Arrow takes a quotation mark that is never closed for a field that runs to the end of the file.
        with _records(file.path, file.delimiter) as (records, _):
            deque(records, maxlen=0)


class _Source:
    """A file for Arrow to read from that notes where each block ends and counts the quotation marks."""

    closed = False

    def __init__(self, packed: _Binary, content: _Binary) -> None:
        self._packed = packed
        self._content = content
        self.positions: list[int] = []
        self.quotes = 0

    def read(self, size: int) -> bytes:
        block = self._content.read(size)
        self.positions.append(self._packed.tell())
        self.quotes += block.count(b'"')
        return block


def _first_fault(file: _TextFile, clock: Clock, message: str) -> DataError:
    """Reading fast tells that something is wrong; reading again, record by record, tells where and what."""
    for columns, lines, _ in _slow_columns(file):
        try:
            _check(columns, clock)
        except _RowError as error:
            return DataError(f"{file.path}:{lines[error.row]}: {error}; {_WAY_ON}")
    return DataError(f"{file.path}: {message}")


def _slow_columns(
    file: _TextFile, skips: Skips | None = None, above: int = 0
) -> Iterator[tuple[list[pa.Array], list[int], int]]:
    """The four columns as text, the line each row begins on, and the bytes of the file done so far.

    They come some rows at a time, from the row `above` on.
    """
    pending: list[tuple[int, list[str]]] = []
    fault: DataError | None = None
    with _records(file.path, file.delimiter) as (records, packed):
        try:
            for line, fields in islice(records, file.header + above, None):
                if skips is not None and (reason := _misread(file, fields)):
                    skips.add(reason, str(file.path), np.array([line - 1]))
                    continue
                if len(fields) != len(file.fields):
                    found = f"expected {len(file.fields)} fields, found {len(fields)}"
                    raise DataError(f"{file.path}:{line}: {found}; {_WAY_ON}")
                values = [fields[place] for place in file.used]
                _refuse_undecodable(file.path, line, values)
                pending.append((line, values))
                if len(pending) == _SLOW_ROWS:
                    yield *_transposed(pending), packed.tell()
                    pending.clear()
        except DataError as error:
            fault = error
        # The rows before a broken one come first: one of them may be at fault already.
        if pending:
            yield *_transposed(pending), packed.tell()
    if fault:
        raise fault


def _misread(file: _TextFile, fields: Sequence[str]) -> str | None:
    """Why a record has no four texts to look at, if it has none."""
    if len(fields) != len(file.fields):
        return RAGGED
    try:
        "".join(fields[place] for place in file.used).encode()
    except UnicodeEncodeError:
        return UNDECODABLE
    return None


def _transposed(rows: list[tuple[int, list[str]]]) -> tuple[list[pa.Array], list[int]]:
    columns = zip(*(fields for _, fields in rows), strict=True)
    return [pa.array(column) for column in columns], [line for line, _ in rows]


def _refuse_undecodable(path: Path, line: int, fields: Sequence[str]) -> None:
    text = "".join(fields)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        raise DataError(
            f"{path}:{line}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"
        ) from None


@contextmanager
def _records(path: Path, delimiter: str) -> Iterator[tuple[Iterator[_Record], _Binary]]:
    """The records of a text file, and the file, which tells how far it has been read."""
    with _opened(path) as (packed, content):
        text = io.TextIOWrapper(content, encoding="utf-8-sig", errors="surrogateescape", newline="")
        yield _records_of(text, path, delimiter), packed


def _records_of(text: io.TextIOWrapper, path: Path, delimiter: str) -> Iterator[_Record]:
    """Each record with the line it begins on; blank lines are counted but are no records."""
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


@contextmanager
def _opened(path: Path) -> Iterator[tuple[_Binary, _Binary]]:
    """The file itself and its content: unpacked where its name or its first bytes say gzip, otherwise the same."""
    with path.open("rb") as file:
        packed = path.suffix.lower() == ".gz" or is_gzipped(file)
        yield file, gzip.GzipFile(fileobj=file) if packed else file
