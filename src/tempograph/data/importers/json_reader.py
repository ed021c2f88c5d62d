"""Read JSON lines: one object per line, whose keys are the columns of a table."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tempograph.data.importers.bad_rows import NOT_JSON, NOT_UTF8, Positions, SkipCounter
from tempograph.data.importers.csv_reader import column_positions
from tempograph.data.importers.json_blocks import parse_object, read_alike
from tempograph.data.importers.option_words import COMMAND_LINE
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.sources import Binary, open_unpacked
from tempograph.data.importers.text_encoding import (
    WINDOWS_1252,
    Recoder,
    detect_encoding,
    is_windows_1252,
)
from tempograph.errors import DataError

_BLOCK: Final = 1 << 20
_HEADER_ROWS: Final = 100
_MAX_LENGTH: Final = 60
# Bytes that cannot be decoded, and halves of characters such as \ud83d, which are not text.
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def json_encoding(path: Path, options: ImportOptions) -> str:
    """The encoding of the options, or else UTF-8, UTF-16 or Windows-1252, as the bytes tell."""
    with open_unpacked(path) as (_, content):
        encoding, _ = detect_encoding(content, options.encoding)
    if options.encoding or encoding == "utf-16":
        return encoding
    with open_unpacked(path) as (_, content):
        return WINDOWS_1252 if is_windows_1252(content) else "utf-8"


def json_columns(path: Path, encoding: str) -> list[str]:
    """The keys of the first objects, in order of appearance."""
    with open_unpacked(path) as (_, content):
        lines = (line for block in _blocks(content, encoding) for line in _lines(block))
        values = [parse_object(line) for line in islice(filter(None, lines), _HEADER_ROWS)]
    if not values:
        raise DataError(f"{path}: the file is empty, so there is nothing to import")
    names = list(dict.fromkeys(key for value in values if value for key in value))
    if not names:
        raise DataError(f"{path}: none of the first lines is a JSON object; write one in each line")
    return names


def read_json_lines(
    path: Path, columns: Sequence[str], encoding: str, skips: SkipCounter | None
) -> Iterator[tuple[list[pa.Array], Positions, int]]:
    """Some columns as text, the line of each row from 1, and the bytes read so far.

    Lines that are no objects are counted in `skips`, or stop the import.
    """
    column_positions(path, json_columns(path, encoding), columns)
    first = 1
    with open_unpacked(path) as (file, content):
        for block in _blocks(content, encoding):
            alike = read_alike(block, columns)
            if alike is not None:
                count = len(alike[0])
                yield alike, first + np.arange(count), file.tell()
            else:
                lines = _lines(block)
                count = len(lines)
                reader = _LineReader(path, columns, skips)
                rows, numbers = reader.read(lines, first)
                # The rows before a broken one come first: one of them may be faulty already.
                if rows:
                    yield _to_columns(rows), np.array(numbers), file.tell()
                if reader.fault:
                    raise reader.fault
            first += count


class _LineReader:
    """Reads lines one by one, up to the first that is not an object unless these are counted."""

    def __init__(self, path: Path, columns: Sequence[str], skips: SkipCounter | None) -> None:
        self.fault: DataError | None = None
        """The error of the line that stopped the reading."""
        self._path = path
        self._columns = columns
        self._skips = skips

    def read(self, lines: Sequence[str], first: int) -> tuple[list[list[str | None]], list[int]]:
        """The rows of some lines that are not blank, and the numbers of these lines."""
        rows, numbers = [], []
        for number, text in enumerate(lines, first):
            if not text:
                continue
            row = _row(parse_object(text), self._columns)
            if row is not None and _is_text(row):
                rows.append(row)
                numbers.append(number)
                continue
            shown = text.encode(errors="surrogateescape").decode(errors="backslashreplace")
            if self._skips is None:
                self.fault = DataError(
                    f"{self._path}:{number}: expected a JSON object of texts and numbers in UTF-8, "
                    f"found {shown[:_MAX_LENGTH]!r}; {COMMAND_LINE.skip_hint}"
                )
                break
            reason = NOT_JSON if row is None else NOT_UTF8
            self._skips.add(reason, self._path, np.array([number - 1]), [shown])
        return rows, numbers


def _blocks(content: Binary, encoding: str) -> Iterator[bytes]:
    """A text in blocks of whole lines, as UTF-8; undecodable bytes stay as they are."""
    source = content if encoding == "utf-8" else Recoder(content, encoding)
    pending = source.read(_BLOCK).removeprefix(b"\xef\xbb\xbf")
    while data := source.read(_BLOCK):
        lines, end, rest = pending.rpartition(b"\n")
        if end:
            yield lines + end
        pending = rest + data
    if pending:
        yield pending


def _lines(block: bytes) -> list[str]:
    """The lines of a block without surrounding blanks; undecodable bytes are surrogates."""
    text = block.decode("utf-8", "surrogateescape")
    return [line.strip() for line in io.StringIO(text, newline=None)]


def _row(value: dict[str, Any] | None, columns: Sequence[str]) -> list[str | None] | None:
    """Some values of an object as text, numbers as JSON writes them; None for nested values."""
    if value is None:
        return None
    row = [value.get(column) for column in columns]
    if any(isinstance(field, dict | list) for field in row):
        return None
    return [
        field if field is None or isinstance(field, str) else json.dumps(field) for field in row
    ]


def _is_text(row: Sequence[str | None]) -> bool:
    """Whether all fields can be written in UTF-8."""
    text = "".join(field for field in row if field)
    return text.isascii() or _SURROGATE.search(text) is None


def _to_columns(rows: Sequence[Sequence[str | None]]) -> list[pa.Array]:
    return [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
