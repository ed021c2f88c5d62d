"""Read JSON lines: one object per line, whose keys are the columns of a table."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tempograph.data.importers.bad_rows import NOT_JSON, NOT_UTF8, SkipCounter
from tempograph.data.importers.csv_reader import SKIP_HINT, Binary, column_positions, open_unpacked
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.text_encoding import (
    WINDOWS_1252,
    decoding_errors,
    detect_encoding,
    first_undecoded,
    is_windows_1252,
)
from tempograph.errors import DataError

_ROWS: Final = 10_000
_HEADER_ROWS: Final = 100
_MAX_LENGTH: Final = 60


def json_encoding(path: Path, options: ImportOptions) -> str:
    """The encoding of the options, or else UTF-8, UTF-16 or Windows-1252, as the bytes tell."""
    with open_unpacked(path) as (_, content):
        encoding, _ = detect_encoding(content, options.encoding)
    if options.encoding or encoding == "utf-16":
        return encoding
    with open_unpacked(path) as (_, content):
        return WINDOWS_1252 if is_windows_1252(content) else "utf-8"


def json_columns(path: Path, options: ImportOptions) -> list[str]:
    """The keys of the first objects, in order of appearance."""
    with _lines(path, options) as (lines, _):
        values = [_parse(text) for _, text in islice(lines, _HEADER_ROWS)]
    if not values:
        raise DataError(f"{path}: the file is empty, so there is nothing to import")
    return list(dict.fromkeys(key for value in values if value for key in value))


def read_json_lines(
    path: Path, options: ImportOptions, skips: SkipCounter | None
) -> Iterator[tuple[list[pa.Array], list[int], int]]:
    """The four columns as text, the line of each row, and the bytes read so far.

    Lines that are no objects are counted in `skips`, or stop the import.
    """
    names = json_columns(path, options)
    if names:
        column_positions(path, names, options.columns)
    rows: list[Sequence[str | None]] = []
    numbers: list[int] = []
    fault: DataError | None = None
    with _lines(path, options) as (lines, file):
        for number, text in lines:
            value = _parse(text)
            row = _row(value, options.columns)
            if row is None or not _is_decoded(text, row):
                shown = text.encode(errors="surrogateescape").decode(errors="backslashreplace")
                if skips is None:
                    fault = DataError(
                        f"{path}:{number}: expected a JSON object of texts and numbers in UTF-8, "
                        f"found {shown[:_MAX_LENGTH]!r}; {SKIP_HINT}"
                    )
                    break
                reason = NOT_JSON if row is None else NOT_UTF8
                skips.add(reason, str(path), np.array([number - 1]), [shown])
                continue
            rows.append(row)
            numbers.append(number)
            if len(rows) == _ROWS:
                yield _to_columns(rows), numbers, file.tell()
                rows, numbers = [], []
        # The rows before a broken one come first: one of them may be faulty already.
        if rows:
            yield _to_columns(rows), numbers, file.tell()
    if fault:
        raise fault


@contextmanager
def _lines(
    path: Path, options: ImportOptions
) -> Iterator[tuple[Iterator[tuple[int, str]], Binary]]:
    """The lines that are not blank with their numbers, and the file on disk."""
    encoding = json_encoding(path, options)
    with open_unpacked(path) as (file, content):
        marked = "utf-8-sig" if encoding == "utf-8" else encoding
        text = io.TextIOWrapper(content, encoding=marked, errors=decoding_errors(encoding))
        yield ((number, line.strip()) for number, line in enumerate(text, 1) if line.strip()), file


def _parse(text: str) -> dict[str, Any] | None:
    """The object in a line; None if it is none."""
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


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


def _is_decoded(text: str, row: Sequence[str | None]) -> bool:
    """Whether all bytes of a row could be decoded; most lines are ASCII, which is quick to see."""
    return text.isascii() or first_undecoded([field for field in row if field]) is None


def _to_columns(rows: Sequence[Sequence[str | None]]) -> list[pa.Array]:
    return [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
