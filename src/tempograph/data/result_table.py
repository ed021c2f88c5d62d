"""Results as tables: of Arrow, pandas and polars, and as HTML in a notebook."""

from __future__ import annotations

import importlib
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tempograph.data.graph import COLUMNS, Facts, TemporalGraph
from tempograph.data.html_table import SHOWN_ROWS, Html, html_block, html_note, html_table
from tempograph.data.html_timeline import TimelineMark, TimelineRow, html_timeline
from tempograph.data.span_text import span_labels
from tempograph.data.spans import EVENT_COLUMNS
from tempograph.errors import ConfigError

_FORMATS: Final = {
    "score": ".3f",
    "probability": ".1%",
    "probabilities": ".1%",
    "rank": ",g",
    "optimistic": ",d",
    "pessimistic": ",d",
    "surprise": ".2f",
}
"""How a number is written, by the last word of its column."""

_MAX_MARKS: Final = 400
"""Time steps that fit on a timeline."""


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
        """The first rows as an HTML table, below a timeline if the rows are facts."""
        table = self.to_arrow()
        rows = f"{len(table):,} {'row' if len(table) == 1 else 'rows'}"
        if len(table) > SHOWN_ROWS:
            rows = f"the first {SHOWN_ROWS} of {rows}; to_pandas() has all of them"
        return html_block(_fact_timeline(table), html_rows(table), html_note(rows))


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
        rows = f"{len(self):,} {'row' if len(self) == 1 else 'rows'}"
        return f"ResultTable({rows}: {', '.join(self._table.column_names)})"


def name_columns(graph: TemporalGraph, facts: Facts) -> dict[str, pa.Array]:
    """Facts [n, 4] as four columns of names; null for an id below 0.

    Facts [n, 6] have the columns start and end as well, and `time` is their first step.
    """
    if facts.shape[1] > EVENT_COLUMNS:
        rows = zip(*facts[:, 3:].T.tolist(), strict=True)
        labels = [
            (None, None) if start < 0 else span_labels(start, end, bounds, graph.times)
            for start, end, bounds in rows
        ]
        named_bounds = zip(*labels, strict=True) if labels else ((), ())
        named = name_columns(graph, facts[:, :EVENT_COLUMNS])
        columns = zip(("start", "end"), named_bounds, strict=True)
        return named | {name: pa.array(column, pa.string()) for name, column in columns}
    names = (graph.entities, graph.relations, graph.entities, graph.times)
    return {
        column: pa.DictionaryArray.from_arrays(
            pa.array(ids.astype(np.int32), mask=ids < 0), list(all_names)
        ).cast(pa.string())
        for column, ids, all_names in zip(COLUMNS, facts.T, names, strict=True)
    }


def _require(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ConfigError(
            f"to_{package} needs {package}, which is not installed; run 'pip install {package}', "
            "or use to_arrow"
        ) from None


def _fact_timeline(table: pa.Table) -> Html:
    """How many facts of a table are at each time step; empty for answers to several questions.

    Facts with an error do not count: their time may not be one.
    """
    if "time" not in table.column_names or "question" in table.column_names:
        return Html()
    if "error" in table.column_names:
        table = table.filter(pc.is_null(table["error"]))
    counts = {row["values"]: row["counts"] for row in table["time"].value_counts().to_pylist()}
    if len(counts) > _MAX_MARKS:
        return Html()
    marks = [
        TimelineMark(time, count, f"{time}: {count:,} {'fact' if count == 1 else 'facts'}")
        for time, count in counts.items()
    ]
    legend = f"marks: facts per time step, at most {max(counts.values(), default=0):,}"
    return html_timeline("Facts over time", legend, [TimelineRow("facts", marks)])


def html_rows(table: pa.Table) -> Html:
    """The first rows of an Arrow table, without the columns that are empty."""
    shown = table.slice(0, SHOWN_ROWS)
    names = [
        name for name in table.column_names if not len(table) or table[name].null_count < len(table)
    ]
    types = [table.schema.field(name).type for name in names]
    numbers = {
        i for i, kind in enumerate(types) if pa.types.is_integer(kind) or pa.types.is_floating(kind)
    }
    rows = [[_format(name, row[name]) for name in names] for row in shown.to_pylist()]
    return html_table(names, rows, numbers)


def _format(column: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(_format(column, each) for each in value)
    if isinstance(value, float):
        return format(value, _FORMATS.get(column.rpartition("_")[2], ".4g"))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
