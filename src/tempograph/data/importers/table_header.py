"""The names of the columns of a file."""

from __future__ import annotations

import csv
from contextlib import closing
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tempograph.data.importers.date_formats import look_like_dates
from tempograph.data.importers.json_reader import json_columns, json_encoding
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.sources import (
    delimiter_of,
    is_json_lines,
    is_parquet,
    readable,
    texts,
)
from tempograph.data.importers.text_encoding import detect_encoding, find_delimiter
from tempograph.data.importers.time_parsing import parse_integers
from tempograph.errors import DataError

_MAX_LENGTH: Final = 60


def header_of(path: Path, options: ImportOptions) -> list[str]:
    """The names of the columns of a table; for text, the fields of the first line."""
    with readable(path):
        if is_parquet(path):
            return list(pq.read_schema(path).names)
        if is_json_lines(path):
            return json_columns(path, json_encoding(path, options))
        with closing(texts(path)) as found:
            _, line = detect_encoding(next(found).content, options.encoding)
    if not line:
        raise DataError(f"{path}: the file is empty, so there is nothing to import")
    delimiter = options.delimiter or find_delimiter(line, delimiter_of(path) or ",")
    names = next(csv.reader([line], delimiter=delimiter))
    if len(names) == 1:
        shown = repr(line[:_MAX_LENGTH])
        raise DataError(
            f"{path}: the first line has one field, {shown}; pass its delimiter with --delimiter"
        )
    return names


def lacks_header(path: Path, names: list[str]) -> bool:
    """Whether a text file seems to have no header: a column is named by a date or a number."""
    if is_parquet(path) or is_json_lines(path):
        return False
    stripped = pa.array([name.strip() for name in names], pa.string())
    return bool((look_like_dates(stripped) | parse_integers(stripped)[1]).any())
