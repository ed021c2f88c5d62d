"""Results as tables: of Arrow, pandas and polars, and as HTML in a notebook."""

from __future__ import annotations

import importlib
from html import escape
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tempograph.data.graph import COLUMNS, Facts, TemporalGraph
from tempograph.errors import ConfigError

_SHOWN_ROWS: Final = 20
"""Rows that a notebook shows."""


class Tabular:
    """A result that can be turned into a table by its own `to_arrow`.

    Times are the labels of the time grid, as text: they mean the same for days, weeks and
    integers, and can be passed to a Predictor as they are.
    """

    def to_arrow(self) -> pa.Table:
        """The result as a pyarrow Table."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The result as a DataFrame of pandas, which must be installed."""
        _require("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The result as a DataFrame of polars, which must be installed."""
        return _require("polars").from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The result as Arrow data, for any library that reads it."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """The first rows as an HTML table."""
        table = self.to_arrow()
        head = "".join(f"<th>{escape(name)}</th>" for name in table.column_names)
        rows = [
            "".join(f"<td>{_cell(value)}</td>" for value in row.values())
            for row in table.slice(0, _SHOWN_ROWS).to_pylist()
        ]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        more = len(table) - len(rows)
        caption = escape(repr(self)) + (f", {more:,} more" if more else "")
        return (
            f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )


class ResultTable(Tabular):
    """A table of results; whatever else a pyarrow Table can do, such as `filter`, it can do too."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def to_arrow(self) -> pa.Table:
        """The table as a pyarrow Table."""
        return self._table

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        rows: list[dict[str, Any]] = self._table.to_pylist()
        return rows

    def equals(self, other: Any) -> bool:
        """Whether another table has the same columns and rows."""
        return bool(self._table.equals(other.to_arrow() if isinstance(other, Tabular) else other))

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        return self._table[column]

    def __getattr__(self, name: str) -> Any:
        # Copying and pickling look for private names before there is a table.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._table, name)

    def __repr__(self) -> str:
        return f"ResultTable({len(self):,} rows: {', '.join(self._table.column_names)})"


def name_columns(graph: TemporalGraph, facts: Facts) -> dict[str, pa.Array]:
    """Facts [n, 4] as four columns of names."""
    names = (graph.entities, graph.relations, graph.entities, graph.times)
    return {
        column: pa.DictionaryArray.from_arrays(
            facts[:, index].astype(np.int32), list(names[index])
        ).cast(pa.string())
        for index, column in enumerate(COLUMNS)
    }


def _require(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ConfigError(
            f"to_{package} needs {package}, which is not installed; run 'pip install {package}', "
            "or use to_arrow"
        ) from None


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))
