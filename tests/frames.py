"""Facts in every form that people have them in: DataFrames, Arrow tables, rows, files."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tempograph import TemporalGraph
from tempograph.data.graph import COLUMNS, Facts

Columns = dict[str, list[Any]]


class Stream:
    """A table that can do nothing but export Arrow data."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def pandas() -> Any:
    return pytest.importorskip("pandas", reason="pandas is not installed")


def polars() -> Any:
    return pytest.importorskip("polars", reason="polars is not installed")


def _pandas_timestamps(columns: Columns) -> Any:
    frame = pandas().DataFrame(columns)
    frame["time"] = pandas().to_datetime(frame["time"])
    return frame.astype({"subject": "category"})


def _polars_categories(columns: Columns) -> Any:
    frame = polars().DataFrame(columns)
    return frame.with_columns(polars().col("subject").cast(polars().Categorical))


def _rows(columns: Columns) -> list[tuple[Any, ...]]:
    return list(zip(*(columns[name] for name in COLUMNS), strict=True))


FORMS: dict[str, Callable[[Columns], Any]] = {
    "pandas": lambda columns: pandas().DataFrame(columns),
    "pandas, timestamps and categories": _pandas_timestamps,
    "pandas, time as index": lambda columns: _pandas_timestamps(columns).set_index("time"),
    "polars": lambda columns: polars().DataFrame(columns),
    "polars, categories": _polars_categories,
    "arrow": lambda columns: pa.table(columns),
    "arrow, dictionaries": lambda columns: pa.table(
        columns | {"object": pa.array(columns["object"]).dictionary_encode()}
    ),
    "arrow stream": lambda columns: Stream(pa.table(columns)),
    "tuples": _rows,
    "tuples with NumPy times": lambda columns: [
        (*row[:3], np.datetime64(row[3])) for row in _rows(columns)
    ],
    "tuples with text": lambda columns: [(*row[:3], str(row[3])) for row in _rows(columns)],
    "dicts": lambda columns: pa.table(columns).to_pylist(),
}
"""Ways to hold four columns, of which the time is one of dates."""


def fact_columns(graph: TemporalGraph, facts: Facts) -> Columns:
    """Facts as columns of names and dates."""
    rows = [graph.describe(fact) for fact in facts]
    columns: Columns = {name: [row[name] for row in rows] for name in COLUMNS}
    columns["time"] = [date.fromisoformat(time) for time in columns["time"]]
    return columns
