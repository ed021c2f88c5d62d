"""A table of questions, each a fact with one part missing, as rows of ids."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tempograph.data.arrow_tables import TABLE, TableLike, to_arrow_table
from tempograph.data.graph import COLUMNS, Facts, TemporalGraph
from tempograph.data.importers.csv_reader import column_positions
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.time_grid import TimeGrid
from tempograph.data.importers.time_parsing import format_pattern, parse_dates
from tempograph.errors import DataError, QueryError

MISSING: Final = -1
"""The id of the part that a question asks for."""
_UNKNOWN: Final = -2

Texts = NDArray[np.object_]


class Questions(NamedTuple):
    """Questions in ids [n, 4] with -1 for the missing part, what is wrong with each, and as text.

    A question with an error has no meaningful ids.
    """

    ids: Facts
    errors: Texts
    given: pa.Table

    @property
    def asked(self) -> NDArray[np.int64]:
        """The column that each question asks for, or -1 if it has an error, [n]."""
        asked = np.argmax(self.ids == MISSING, axis=1)
        return np.where(self.errors == None, asked, -1)  # noqa: E711


def read_questions(graph: TemporalGraph, data: TableLike, options: ImportOptions) -> Questions:
    """The questions of a table; a column that it lacks is missing in every row."""
    table = to_arrow_table(data)
    names = [name for name in options.columns if name in table.column_names]
    if len(names) < len(COLUMNS) - 1:
        lacking = next(name for name in options.columns if name not in names)
        known = ", ".join(map(repr, table.column_names))
        raise DataError(
            f"{TABLE}: a question has three of the columns {', '.join(options.columns)}; "
            f"'{lacking}' is not among {known}"
        )
    column_positions(TABLE, table.column_names, names)
    nothing = pa.chunked_array([pa.nulls(len(table), pa.string())])
    columns = [table[name] if name in names else nothing for name in options.columns]
    find: tuple[Callable[[Any], int], ...] = (
        *(graph.entity_id, graph.relation_id),
        *(graph.entity_id, _time_finder(graph, options.time_format)),
    )
    parts = [_find_ids(*part) for part in zip(COLUMNS, columns, find, strict=True)]
    ids = np.stack([part[0] for part in parts], axis=1)
    errors = np.full(len(table), None, dtype=object)
    missing = (ids == MISSING).sum(axis=1)
    for count in np.unique(missing[missing != 1]):
        errors[missing == count] = (
            f"exactly one of {', '.join(COLUMNS)} must be missing, found {count}"
        )
    for _, found in reversed(parts):
        errors = np.where(found == None, errors, found)  # noqa: E711
    texts = [column.cast(pa.string()) for column in columns]
    return Questions(ids, errors, pa.table(texts, names=list(COLUMNS)))


def _time_finder(graph: TemporalGraph, time_format: str | None) -> Callable[[Any], int]:
    """The function that finds the id of a time, if it is text written in a time format."""
    if time_format in (None, "integer"):
        return graph.time_id
    pattern, grid = format_pattern(str(time_format)), TimeGrid(time_format)

    def find(when: Any) -> int:
        if isinstance(when, str):
            moments, valid = parse_dates(pa.array([when.strip()]), pattern)
            if not valid[0]:
                raise QueryError(grid.explain(when))
            when = moments[0]
        return graph.time_id(when)

    return find


def _find_ids(
    part: str, column: pa.ChunkedArray, find: Callable[[Any], int]
) -> tuple[NDArray[np.int64], Texts]:
    """The id of each value, or -1 where it is missing; and what is wrong with it, or None."""
    if pa.types.is_nested(column.type):
        raise DataError(f"{TABLE}: the {part} must be text, numbers or dates, found {column.type}")
    if pa.types.is_null(column.type) or not len(column):
        return np.full(len(column), MISSING), np.full(len(column), None, dtype=object)
    encoded = column.dictionary_encode().combine_chunks()
    values = encoded.dictionary.to_pylist()
    ids, errors = np.full(len(values) + 1, MISSING), np.full(len(values) + 1, None, dtype=object)
    for code, value in enumerate(values):
        if isinstance(value, float) and value.is_integer():
            # pandas turns a column of ids with a missing one into floats.
            value = int(value)
        if value != value or (isinstance(value, str) and not value.strip()):
            continue
        try:
            if isinstance(value, bool) or not isinstance(value, str | int | date):
                raise QueryError(f"the {part} must be a name or an id, found {value!r}")
            ids[code] = find(value)
        except QueryError as error:
            ids[code], errors[code] = _UNKNOWN, str(error)
    codes = encoded.indices.fill_null(len(values)).to_numpy()
    return ids[codes], errors[codes]
