"""Tables as files: Parquet, or CSV if the file is called so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tempograph.io import atomic_file


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table atomically, as CSV if the file ends in .csv, and as Parquet otherwise."""
    with atomic_file(path) as temporary:
        if path.suffix.lower() == ".csv":
            pyarrow.csv.write_csv(_flat(table), temporary)
        else:
            pq.write_table(table, temporary)


def _flat(table: pa.Table) -> pa.Table:
    """The table with text in place of lists, which a CSV file cannot hold."""
    for index, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            texts = [_text(value) for value in table[field.name].to_pylist()]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
    return table


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(map(_text, value))
    if isinstance(value, dict):
        return ", ".join(_text(each) for each in value.values() if each is not None)
    return "" if value is None else str(value)
