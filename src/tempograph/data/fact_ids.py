"""Convert facts given by names, dates or ids to rows of ids."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tempograph.data.arrow_tables import ArrowStream, plain_time, to_arrow_table
from tempograph.data.graph import COLUMNS, Facts, Name, TemporalGraph, When, first_out_of_range
from tempograph.data.importers.column_guessing import resolve_columns, resolve_table_columns
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.table_reader import read_fact_table, table_columns
from tempograph.errors import DataError, QueryError

FactsLike: TypeAlias = (
    Facts
    | ArrowStream
    | Iterable[Sequence[Name | When] | Mapping[str, Any]]
    | str
    | os.PathLike[str]
)
"""Rows (subject, relation, object, time) of names or ids, an array of ids, a table, or a file."""

_VALUE_TYPES: Final = (str, int, np.integer, date)


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """The distinct values of a column, in order of appearance, and the code of each row."""

    values: list[Any]
    codes: NDArray[np.int64]

    def first_row(self, code: int) -> int:
        """The first row with a value."""
        return int(np.argmax(self.codes == code))


def to_fact_ids(
    graph: TemporalGraph, facts: FactsLike, options: ImportOptions | None = None
) -> Facts:
    """Facts as rows of ids, [n, 4]; the error names the first fact with an unknown name."""
    if (
        isinstance(facts, np.ndarray)
        and (facts.dtype, facts.shape[1:]) == (np.int64, (4,))
        and first_out_of_range(facts, graph.sizes) is None
    ):
        return facts.copy()
    return to_ids(graph, encode_columns(facts, options))


def to_ids(graph: TemporalGraph, columns: Sequence[EncodedColumn]) -> Facts:
    """Columns of subjects, relations, objects and times as rows of ids, [n, 4]."""
    find = (graph.entity_id, graph.relation_id, graph.entity_id, graph.time_id)
    return np.stack([_find_ids(*pair) for pair in zip(columns, find, strict=True)], axis=1)


def _find_ids(column: EncodedColumn, find: Callable[[Any], int]) -> NDArray[np.int64]:
    ids = np.empty(len(column.values), np.int64)
    for code, value in enumerate(column.values):
        try:
            ids[code] = find(value)
        except QueryError as error:
            raise QueryError(f"fact {column.first_row(code)}: {error}") from None
    return ids[column.codes]


def encode_columns(facts: FactsLike, options: ImportOptions | None = None) -> list[EncodedColumn]:
    """The four columns of facts, each with its distinct values.

    The options name the columns of a table or file; others are guessed, as in an import.
    """
    columns = _columns(facts, options or ImportOptions())
    return [_encode(*pair) for pair in zip(COLUMNS, columns, strict=True)]


def _encode(name: str, given: pa.ChunkedArray | list[Any]) -> EncodedColumn:
    if not isinstance(given, list):
        plain = given.cast(given.type.value_type) if pa.types.is_dictionary(given.type) else given
        if not len(plain) or pa.types.is_nested(plain.type) or pa.types.is_null(plain.type):
            return _encode(name, plain.to_pylist())
        encoded = plain.dictionary_encode(null_encoding="encode").combine_chunks()
        column = EncodedColumn(encoded.dictionary.to_pylist(), encoded.indices.to_numpy())
        for code, value in enumerate(column.values):
            if not isinstance(value, _VALUE_TYPES):
                raise _invalid(name, column.first_row(code), value)
        return column
    for row, value in enumerate(given):
        if not isinstance(value, _VALUE_TYPES):
            raise _invalid(name, row, value)
    codes = {value: code for code, value in enumerate(dict.fromkeys(given))}
    return EncodedColumn(list(codes), np.array([codes[value] for value in given], np.int64))


def _invalid(column: str, row: int, value: Any) -> QueryError:
    return QueryError(f"fact {row}: the {column} must be a name or an id, found {value!r}")


def _columns(facts: FactsLike, options: ImportOptions) -> list[Any]:
    """The four columns of facts: lists, or those of a table."""
    if isinstance(facts, str | os.PathLike):
        path = Path(facts)
        table = read_fact_table(path, resolve_columns([path], options)[0])
        return [table[name] for name in COLUMNS]
    if isinstance(facts, ArrowStream):
        table = to_arrow_table(facts)
        options, _ = resolve_table_columns(table.column_names, options)
        return table_columns(table, options)
    columns: list[list[Any]] = [[], [], [], []]
    for number, row in enumerate(facts.tolist() if isinstance(facts, np.ndarray) else facts):
        values = [row.get(name) for name in COLUMNS] if isinstance(row, Mapping) else row
        if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != 4:
            raise DataError(
                f"fact {number} must be a subject, a relation, an object and a time, found {row!r}"
            )
        for column, value in zip(columns, values, strict=True):
            column.append(plain_time(value))
    return columns
