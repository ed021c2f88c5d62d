"""Tables in memory as Arrow tables: DataFrames, anything that exports Arrow, and rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa

from tempograph.data.graph import COLUMNS, INTERVAL_PARTS
from tempograph.errors import DataError

TABLE: Final = "the table"
"""How messages name a table in memory, where they name the path of a file."""


@runtime_checkable
class ArrowStream(Protocol):
    """A table that exports Arrow data: a DataFrame of pandas or polars, a pyarrow Table, ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The table as a PyCapsule that holds an Arrow C stream."""


TableLike: TypeAlias = ArrowStream | Iterable[Sequence[Any] | Mapping[str, Any]]
"""A DataFrame or Arrow table, or rows: tuples (subject, relation, object, time), or dicts."""


def to_arrow_table(data: TableLike) -> pa.Table:
    """The table as an Arrow table of plain columns: no dictionaries, views or nanoseconds."""
    try:
        table = pa.table(data) if isinstance(data, ArrowStream) else _from_rows(data)
        return pa.table([_plain(column) for column in table.columns], names=table.column_names)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(" ".join(map(str, error.args)).split())
        raise DataError(
            f"{TABLE} cannot be read: {reason}; pass columns with distinct names, each with "
            "one kind of value"
        ) from None


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        kind = _plain_type(column.type.value_type)
        # Arrow cannot cast a dictionary of views, which polars makes of categories.
        chunks = [chunk.dictionary.cast(kind).take(chunk.indices) for chunk in column.chunks]
        return pa.chunked_array(chunks, kind)
    return column.cast(_plain_type(column.type), safe=False)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_timestamp(kind):
        # The times of Python end at microseconds.
        return pa.timestamp("us", kind.tz)
    return kind


def _from_rows(data: Iterable[Sequence[Any] | Mapping[str, Any]]) -> pa.Table:
    rows: list[Any] = data.tolist() if isinstance(data, np.ndarray) else list(data)
    if rows and all(isinstance(row, Mapping) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pa.table({name: _column(name, [row.get(name) for row in rows]) for name in names})
    lengths = {len(row) for row in rows if _is_row(row)}
    names = list(INTERVAL_PARTS if lengths == {len(INTERVAL_PARTS)} else COLUMNS)
    for number, row in enumerate(rows):
        if not _is_row(row) or len(row) != len(names):
            raise DataError(
                f"row {number} must be a subject, a relation, an object and a time, found {row!r}"
            )
    return pa.table(
        {name: _column(name, [row[place] for row in rows]) for place, name in enumerate(names)}
    )


def _is_row(row: Any) -> bool:
    return isinstance(row, Sequence) and not isinstance(row, str)


def _column(name: str, values: list[Any]) -> pa.Array:
    values = [plain_time(value) for value in values]
    if any(isinstance(value, datetime) for value in values):
        # Arrow would cut the hours off if a date came first.
        values = [_at_midnight(value) for value in values]
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"the column '{name}' holds values of several kinds ({error}); write all of them one "
            "way"
        ) from None


def plain_time(value: Any) -> Any:
    """A NumPy time as a datetime, or None for NaT; any other value as it is."""
    return value.astype("M8[us]").item() if isinstance(value, np.datetime64) else value


def _at_midnight(value: Any) -> Any:
    """A date as a datetime; any other value as it is."""
    plain_date = isinstance(value, date) and not isinstance(value, datetime)
    return datetime(value.year, value.month, value.day) if plain_date else value
