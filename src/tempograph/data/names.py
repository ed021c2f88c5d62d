"""Facts as people hand them over, in names, dates or ids, as rows of ids; and time steps after the last one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tempograph.data.graph import COLUMNS, Facts, Name, TemporalGraph, When, first_out_of_range
from tempograph.data.importers.time_parsing import (
    format_pattern,
    labels,
    read_dates,
    read_integers,
    steps_at,
)
from tempograph.errors import DataError, QueryError
from tempograph.typing import Granularity

Given: TypeAlias = Facts | pa.Table | Iterable[Sequence[Name | When] | Mapping[str, Any]]
"""Facts: rows (subject, relation, object, time) of names or ids, an array of ids, or a table with these columns."""

_SHAPES: Final[tuple[tuple[str, Granularity | None], ...]] = (
    (r"-?\d+", None),
    (r"\d{4}-\d\d", "month"),
    (r"\d{4}-W\d\d", "week"),
    (r"\d{4}-\d\d-\d\d", "day"),
    (r"\d{4}-\d\d-\d\dT\d\d", "hour"),
)
_MOST_NEW_STEPS: Final = 10_000
_KINDS: Final = (str, int, np.integer, date)


Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Column:
    """The distinct values of a column in the order in which they first appear, and the number of each row's value."""

    values: list[Any]
    numbers: Numbers

    def row_of(self, number: int) -> int:
        """The first row that has a value."""
        return int(np.argmax(self.numbers == number))


def to_fact_ids(graph: TemporalGraph, facts: Given) -> Facts:
    """Facts as rows of ids, [n, 4]; the first that names something unknown is named in the error."""
    of_ids = isinstance(facts, np.ndarray) and facts.dtype == np.int64 and facts.shape[1:] == (4,)
    if isinstance(facts, np.ndarray) and of_ids and first_out_of_range(facts, graph.sizes) is None:
        return facts.copy()
    return to_ids(graph, encode_columns(facts))


def to_ids(graph: TemporalGraph, columns: Sequence[Column]) -> Facts:
    """Columns of subjects, relations, objects and times as rows of ids, [n, 4]."""
    looks: tuple[Callable[[Any], int], ...] = (
        graph.entity_id,
        graph.relation_id,
        graph.entity_id,
        graph.time_id,
    )
    return np.stack(
        [_look_up(column, look) for column, look in zip(columns, looks, strict=True)], axis=1
    )


def _look_up(column: Column, look: Callable[[Any], int]) -> Numbers:
    ids = np.empty(len(column.values), np.int64)
    for number, value in enumerate(column.values):
        try:
            ids[number] = look(value)
        except QueryError as error:
            raise QueryError(f"fact {column.row_of(number)}: {error}") from None
    return ids[column.numbers]


def encode_columns(facts: Given) -> list[Column]:
    """Subjects, relations, objects and times as they were given."""
    return [_column(name, given) for name, given in zip(COLUMNS, _transposed(facts), strict=True)]


def _column(name: str, given: pa.ChunkedArray | list[Any]) -> Column:
    if isinstance(given, list):
        for row, value in enumerate(given):
            if not isinstance(value, _KINDS):
                raise _no_name(name, row, value)
        first = {value: number for number, value in enumerate(dict.fromkeys(given))}
        return Column(list(first), np.array([first[value] for value in given], np.int64))
    plain = given.cast(given.type.value_type) if pa.types.is_dictionary(given.type) else given
    if not len(plain) or pa.types.is_nested(plain.type) or pa.types.is_null(plain.type):
        return _column(name, plain.to_pylist())
    encoded = plain.dictionary_encode(null_encoding="encode").combine_chunks()
    column = Column(encoded.dictionary.to_pylist(), encoded.indices.to_numpy())
    for number, value in enumerate(column.values):
        if not isinstance(value, _KINDS):
            raise _no_name(name, column.row_of(number), value)
    return column


def _no_name(column: str, row: int, value: Any) -> QueryError:
    return QueryError(f"fact {row}: the {column} must be a name or an id, found {value!r}")


def _transposed(facts: Given) -> list[Any]:
    """The four columns of facts: lists or, of a table, its own."""
    if isinstance(facts, pa.Table):
        lacking = [name for name in COLUMNS if name not in facts.column_names]
        if lacking:
            raise DataError(
                f"a table of facts has columns {', '.join(COLUMNS)}; found no '{lacking[0]}'"
            )
        return [facts[name] for name in COLUMNS]
    rows = facts.tolist() if isinstance(facts, np.ndarray) else list(facts)
    columns: list[list[Any]] = [[], [], [], []]
    for number, row in enumerate(rows):
        values = [row.get(name) for name in COLUMNS] if isinstance(row, Mapping) else row
        if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != 4:
            raise DataError(
                f"fact {number} must be a subject, a relation, an object and a time, found {row!r}"
            )
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    return columns


def extend_times(graph: TemporalGraph, times: Iterable[Any]) -> TemporalGraph:
    """The graph with as many further time steps as the latest of some labels needs; others are left as they are."""
    known = set(graph.times)
    wanted = {graph.time_label(time) if isinstance(time, str | date) else time for time in times}
    new = sorted(label for label in wanted if isinstance(label, str) and label not in known)
    if not new:
        return graph
    granularity = _granularity(graph, new[0])
    last, *steps = (_step(label, granularity, graph) for label in (graph.times[-1], *new))
    if min(steps) <= last:
        graph.time_id(new[int(np.argmin(steps))])
    if max(steps) - last > _MOST_NEW_STEPS:
        far = new[int(np.argmax(steps))]
        raise QueryError(
            f"'{far}' is {max(steps) - last:,} steps after the last one, {graph.times[-1]}; is it a typo?"
        )
    return replace(graph, times=(*graph.times, *labels(last + 1, max(steps), granularity)))


def _granularity(graph: TemporalGraph, label: str) -> Granularity | None:
    """How far apart the steps of a grid are, if it can be told from its labels."""
    first, last = graph.times[0], graph.times[-1]
    for shape, granularity in _SHAPES:
        if re.fullmatch(shape, last):
            begin, end = (_step(each, granularity, graph) for each in (first, last))
            if labels(begin, end, granularity) == graph.times:
                return granularity
    raise QueryError(
        f"'{label}' is not on the time grid of {graph.name}, and how its labels, {first} to {last}, go on is not clear"
    )


def _step(label: str, granularity: Granularity | None, graph: TemporalGraph) -> int:
    """The number of a label counted from 1970, or the integer that it is."""
    texts = pa.array([label])
    if granularity is None:
        steps, readable = read_integers(texts)
    elif granularity == "week":
        first = _monday(label)
        readable = np.array([first is not None])
        steps = steps_at(np.array([first or date.min], dtype="M8[s]"), granularity)
    else:
        filled = label + {"month": "-01", "day": "", "hour": ""}[str(granularity)]
        moments, readable = read_dates(
            pa.array([filled]), format_pattern("%Y-%m-%d" + "T%H" * (granularity == "hour"))
        )
        steps = steps_at(moments, granularity)
    if not readable[0]:
        graph.time_id(label)
    return int(steps[0])


def _monday(label: str) -> date | None:
    """The first day of an ISO week such as 2020-W53, if there is one."""
    found = re.fullmatch(r"(\d{4})-W(\d\d)", label)
    try:
        return date.fromisocalendar(int(found[1]), int(found[2]), 1) if found else None
    except ValueError:
        return None
