"""Facts and questions in any form as rows of JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np

from tempograph.data.arrow_tables import TABLE, ArrowStream, TableLike, plain_time, to_arrow_table
from tempograph.data.graph import COLUMNS
from tempograph.errors import DataError

Value = str | int | None
Row = tuple[Value, ...]
"""Subject, relation, object and time, each a name or an id, or None."""


def json_rows(data: TableLike, optional: bool = False) -> list[Row]:
    """The rows of a table; if `optional`, one of the four columns may be absent."""
    given: list[Any]
    if isinstance(data, ArrowStream):
        table = to_arrow_table(data)
        absent = [name for name in COLUMNS if name not in table.column_names]
        if len(absent) > (1 if optional else 0):
            names = ", ".join(map(repr, table.column_names))
            raise DataError(f"{TABLE}: there is no column '{absent[0]}' among {names}; add it")
        given = table.select([name for name in COLUMNS if name not in absent]).to_pylist()
    else:
        given = data.tolist() if isinstance(data, np.ndarray) else list(data)
    return [_row(number, row) for number, row in enumerate(given)]


def _row(number: int, row: Any) -> Row:
    values = [row.get(name) for name in COLUMNS] if isinstance(row, Mapping) else row
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != len(COLUMNS):
        raise DataError(
            f"row {number} must be a subject, a relation, an object and a time, found {row!r}"
        )
    return tuple(json_value(value, f"row {number}") for value in values)


def json_value(given: Any, place: str = "the question") -> Value:
    """A name, an id or a time as JSON has it."""
    value = plain_time(given)
    if isinstance(value, np.integer) or (isinstance(value, float) and value.is_integer()):
        # pandas turns a column of ids with a missing one into floats.
        return int(value)
    if value is None or value != value:
        # NaN, and the missing time of pandas.
        return None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(f"{place}: a part of a fact is a name, an id or a time, found {given!r}")
    return value
