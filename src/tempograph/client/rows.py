"""Facts and questions in any form as rows and objects of JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tempograph.data.arrow_tables import TABLE, ArrowStream, TableLike, plain_time, to_arrow_table
from tempograph.data.graph import COLUMNS, INTERVAL_PARTS
from tempograph.data.spans import INTERVAL_COLUMNS, OPEN, SURELY_UNKNOWN, Bounds
from tempograph.errors import DataError

Value = str | int | None
Row = tuple[Value, ...]
"""The parts of a fact or a question, each a name or an id, or None."""


class Rows(NamedTuple):
    """Facts or questions, and the names of their parts."""

    rows: list[Row]
    parts: tuple[str, ...] = COLUMNS

    def objects(self, start: int, stop: int) -> list[dict[str, Value]]:
        """Some of the rows as objects of JSON."""
        return [dict(zip(self.parts, row, strict=True)) for row in self.rows[start:stop]]


def question_rows(data: TableLike) -> Rows:
    """The questions of a table; one of the four columns may be absent."""
    given = _read(data)
    if isinstance(given, pa.Table):
        absent = [name for name in COLUMNS if name not in given.column_names]
        if len(absent) == 1:
            given = given.append_column(absent[0], pa.nulls(len(given)))
    return _json_rows(given, COLUMNS)


def fact_rows(data: TableLike, intervals: bool) -> Rows:
    """The facts of a table; with `intervals`, they may have a start and an end."""
    given = _read(data)
    return _json_rows(given, _parts_of(given) if intervals else COLUMNS)


def _read(data: TableLike) -> pa.Table | list[Any]:
    if isinstance(data, ArrowStream):
        return to_arrow_table(data)
    if isinstance(data, np.ndarray):
        rows: list[Any] = data.tolist()
        ids_of_intervals = data.dtype.kind in "iu" and data.shape[1:] == (INTERVAL_COLUMNS,)
        return [_with_marks(*row) for row in rows] if ids_of_intervals else rows
    return list(data)


def _with_marks(
    subject: int, relation: int, object_: int, start: int, end: int, bounds: int
) -> Row:
    """A fact in ids with its start and its end, each a mark if it is open or unknown."""
    first = OPEN if bounds & Bounds.OPEN_START else start
    last = OPEN if bounds & Bounds.OPEN_END else end
    return (
        *(subject, relation, object_),
        SURELY_UNKNOWN if bounds & Bounds.UNKNOWN_START else first,
        SURELY_UNKNOWN if bounds & Bounds.UNKNOWN_END else last,
    )


def _parts_of(given: pa.Table | list[Any]) -> tuple[str, ...]:
    """The parts of facts: with a start and an end if these are given, and a time beside them."""
    if isinstance(given, pa.Table):
        names = set(given.column_names)
    else:
        names = {name for row in given if isinstance(row, Mapping) for name in row}
        if {len(row) for row in given if isinstance(row, Sequence)} == {len(INTERVAL_PARTS)}:
            return INTERVAL_PARTS
    if not {"start", "end"} <= names:
        return COLUMNS
    return (*INTERVAL_PARTS, "time") if "time" in names else INTERVAL_PARTS


def _json_rows(given: pa.Table | list[Any], parts: tuple[str, ...]) -> Rows:
    if isinstance(given, pa.Table):
        absent = [name for name in parts if name not in given.column_names]
        if absent:
            names = ", ".join(map(repr, given.column_names))
            raise DataError(f"{TABLE}: there is no column '{absent[0]}' among {names}; add it")
        given = given.select(parts).to_pylist()
    return Rows([_row(number, row, parts) for number, row in enumerate(given)], parts)


def _row(number: int, row: Any, parts: tuple[str, ...]) -> Row:
    values = [row.get(name) for name in parts] if isinstance(row, Mapping) else row
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != len(parts):
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
