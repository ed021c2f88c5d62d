"""Convert facts given by names, dates or ids to rows of ids, with what is wrong row by row."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tempograph.data.arrow_tables import TABLE, ArrowStream, plain_time, to_arrow_table
from tempograph.data.bound_lookup import BoundLookup
from tempograph.data.graph import (
    COLUMNS,
    INTERVAL_PARTS,
    Facts,
    Name,
    TemporalGraph,
    When,
    first_out_of_range,
)
from tempograph.data.id_lookup import MISSING, EncodedColumn, encode_column, encode_ids, look_up
from tempograph.data.importers.bad_rows import SkippedRows
from tempograph.data.importers.batch_options import (
    Note,
    at_moments,
    file_options,
    interval_row_options,
    row_options,
    table_options,
    without_memory,
)
from tempograph.data.importers.batch_reader import BROKEN_LINE, Places, read_file
from tempograph.data.importers.csv_reader import column_positions
from tempograph.data.importers.option_words import COMMAND_LINE, PYTHON
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.row_checks import explain_empty
from tempograph.data.importers.table_header import header_of
from tempograph.data.new_names import NewNames
from tempograph.data.result_table import name_columns
from tempograph.data.row_errors import RowErrors
from tempograph.data.span_text import span_text
from tempograph.data.spans import EVENT_COLUMNS, INTERVAL_COLUMNS
from tempograph.data.time_lookup import TimeLookup
from tempograph.errors import DataError

FactsLike: TypeAlias = (
    Facts
    | ArrowStream
    | Iterable[Sequence[Name | When] | Mapping[str, Any]]
    | str
    | os.PathLike[str]
)
"""Rows (subject, relation, object, time) of names or ids, an array of ids, a table, or a file.

Facts of runs whose facts hold for a while may have a start and an end instead of a time."""

_EMPTY: Final = "an empty value"


@dataclass(frozen=True, eq=False)
class FactBatch:
    """Facts in ids, [n, 4], and what is wrong with the others; an unknown part has an id below 0.

    Facts that hold for a while are [n, 6], or [n, 4] if they are given at a moment. `places` says
    where rows are, as messages name them.
    """

    graph: TemporalGraph
    """The graph of the ids, with later time steps and new names if these were allowed."""
    ids: Facts
    errors: RowErrors
    places: Places
    columns: Sequence[EncodedColumn] = ()
    """The parts of the facts as given; none if all are ids."""
    skipped: tuple[SkippedRows, ...] = ()
    """Rows of a file of coded events that are no events, and not in the batch."""

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which rows have no error, [n]."""
        return ~self.errors.mask

    def reject(self, rows: NDArray[np.bool_], kind: str, reason: str) -> FactBatch:
        """The batch with an error for some of its valid rows [valid]: "(a, r, b, t) {reason}"."""
        mask = self.valid
        mask[mask] = rows
        named = name_columns(self.graph, self.ids[mask])
        if "start" in named:
            spans = zip(named.pop("start").to_pylist(), named.pop("end").to_pylist(), strict=True)
            named["time"] = pa.array([span_text(*span) for span in spans], pa.string())
        facts = pc.binary_join_element_wise(*named.values(), ", ")
        texts = pc.binary_join_element_wise("(", facts, f") {reason}", "")
        return replace(self, errors=self.errors.then(RowErrors.at(mask, kind, texts)))

    def refuse_errors(self) -> None:
        """Raise the error of the first row that has one."""
        self.errors.refuse(lambda row: self.places([row])[0])

    def describe_errors(self, what: str, limit: int = 3) -> list[str]:
        """How many rows cannot be `what`, then the first distinct errors, each with its place."""
        rows = self.errors.first_rows(limit)
        places = zip(self.places(rows), rows, strict=True)
        return [
            self.errors.describe(what),
            *(f"{place}: {self.errors.texts[row].as_py()}" for place, row in places),
        ]

    def names(self) -> dict[str, pa.Array]:
        """The parts of all facts as columns of text; unknown ones as given."""
        columns = name_columns(self.graph, self.ids)
        parts = COLUMNS if self.ids.shape[1] == EVENT_COLUMNS else INTERVAL_PARTS
        for name, given in zip(parts, self.columns, strict=False):
            columns[name] = pc.coalesce(columns[name], given.texts())
        return columns

    def select(self, mask: NDArray[np.bool_]) -> pa.Table:
        """Some rows [n]: their number from 0, and the fact."""
        rows = pa.array(np.flatnonzero(mask), pa.int64())
        return pa.table(self.names()).take(rows).add_column(0, "row", rows)

    def rejected(self) -> pa.Table:
        """The rows with an error: their number from 0, the fact, and the error."""
        errors = self.errors.texts.filter(pa.array(self.errors.mask))
        return self.select(self.errors.mask).append_column("error", errors)


def to_fact_ids(
    graph: TemporalGraph, facts: FactsLike, options: ImportOptions | None = None
) -> Facts:
    """Facts as rows of ids, [n, 4]; the error names the first fact with an unknown name."""
    batch = read_facts(graph, facts, options.given if options else {})
    batch.refuse_errors()
    return batch.ids


def read_facts(
    graph: TemporalGraph,
    facts: FactsLike,
    given: Mapping[str, Any],
    remembered: ImportOptions | None = None,
    extend: bool = False,
    note: Note | None = None,
    new_names: bool = False,
) -> FactBatch:
    """Facts as rows of ids, with an error for each row of which a part is empty or unknown.

    Columns of a table or file are those that the `given` import options name, or else those of the
    `remembered` options of the import, or else guessed, with a `note`. Names are cleaned as in the
    import. If the facts of the graph hold for a while, so do those that have a start and an end;
    others are at a moment. With `extend`, facts may be at time steps after the last one; with
    `new_names`, unknown names are added to the graph of the batch.
    """
    if (
        isinstance(facts, np.ndarray)
        and facts.dtype == np.int64
        and facts.shape[1:] in _widths(graph)
        and first_out_of_range(facts, graph.sizes) is None
        and (facts.shape[1] == EVENT_COLUMNS or (facts[:, 3] <= facts[:, 4]).all())
    ):
        return FactBatch(graph, facts.copy(), RowErrors.none(len(facts)), _count_facts)
    source, options = _read_source(graph, facts, given, remembered, note)
    words = COMMAND_LINE if isinstance(facts, str | os.PathLike) else PYTHON
    new = NewNames(graph) if new_names else None
    lookup: TimeLookup | BoundLookup
    if len(source.columns) == len(COLUMNS):
        lookup = TimeLookup(graph, options, extend, words)
        ids, errors = look_up(graph, source.columns, options, lookup, new)
    else:
        lookup = BoundLookup(graph, options, extend, words)
        ids, errors = look_up(graph, source.columns, options, None, new)
        spans, span_errors = lookup(*source.columns[3:])
        ids, errors = np.column_stack([ids, spans]), errors.then(span_errors)
    if source.broken:
        rows = sorted(source.broken)
        broken = np.isin(np.arange(len(ids)), rows)
        texts = pa.array([source.broken[row] for row in rows], pa.string())
        errors = RowErrors.at(broken, BROKEN_LINE, texts).then(errors)
    for number, part in enumerate(COLUMNS[: EVENT_COLUMNS if ids.shape[1] == EVENT_COLUMNS else 3]):
        empty = ids[:, number] == MISSING
        errors = errors.then(RowErrors.at(empty, _EMPTY, explain_empty(part)))
    grown = lookup.graph
    if new is not None:
        grown, ids = new.add_to(grown, ids, ~errors.mask)
    return FactBatch(grown, ids, errors, source.places, source.columns, source.skipped)


@dataclass(frozen=True, eq=False)
class _Source:
    """The columns of a batch and where its rows are; rows that cannot be read have no values."""

    columns: Sequence[EncodedColumn]
    places: Places
    broken: Mapping[int, str]
    skipped: tuple[SkippedRows, ...] = ()


def _read_source(
    graph: TemporalGraph,
    facts: FactsLike,
    given: Mapping[str, Any],
    remembered: ImportOptions | None,
    note: Note | None,
) -> tuple[_Source, ImportOptions]:
    """The columns of facts in any form, and the options that they are read with.

    There are four, or five of facts with a start and an end.
    """
    if isinstance(facts, str | os.PathLike):
        path = Path(facts)
        if graph.has_intervals:
            # A file that cannot be read is an error of its columns.
            with suppress(DataError):
                given = _as_results(header_of(path, without_memory(given, remembered)), given)
        options = file_options(path, given, remembered, note)
        if options.has_intervals:
            names = header_of(path, options)
            names = names if options.header else [str(number) for number in range(len(names))]
            options = _with_bounds_of(graph, str(path), names, options, "end" in given, note)
        read = read_file(path, options)
        columns = [encode_column(column) for column in read.columns]
        return _Source(columns, read.places, read.broken, read.skipped), options
    if isinstance(facts, np.ndarray) and facts.dtype.kind in "iu" and facts.shape[1:] == (4,):
        return _Source(encode_ids(facts), _count_facts, {}), ImportOptions()
    table: Mapping[str, Any] | pa.Table
    if isinstance(facts, ArrowStream):
        table = to_arrow_table(facts)
        names = table.column_names
    else:
        rows: list[Any] = facts.tolist() if isinstance(facts, np.ndarray) else list(facts)
        if not rows or not all(isinstance(row, Mapping) for row in rows):
            columns = [encode_column(column) for column in _columns_of_rows(graph, rows)]
            own_options = row_options if len(columns) == len(COLUMNS) else interval_row_options
            return _Source(columns, _count_facts, {}), own_options(given, remembered)
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = {name: [plain_time(row.get(name)) for row in rows] for name in names}
    if graph.has_intervals:
        given = _as_results(names, given)
    options = table_options(names, given, remembered, note)
    options = _with_bounds_of(graph, TABLE, names, options, "end" in given, note)
    column_positions(TABLE, names, options.fact_columns)
    columns = [encode_column(table[name]) for name in options.fact_columns]
    return _Source(columns, _count_facts, {}), options


def _as_results(names: Sequence[str], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The given options, and those that read a table of facts as results are written.

    It has a time beside start and end, and bounds that are empty are unknown.
    """
    if not {*COLUMNS, *INTERVAL_PARTS} <= set(names) or given.keys() & {"time", "start", "end"}:
        return given
    unknown = {"empty_start": "unknown", "empty_end": "unknown"}
    return {"start": "start", "end": "end", **unknown, **given}


def _widths(graph: TemporalGraph) -> list[tuple[int]]:
    """How many columns ids of facts may have."""
    return [(EVENT_COLUMNS,), (INTERVAL_COLUMNS,)] if graph.has_intervals else [(EVENT_COLUMNS,)]


def _with_bounds_of(
    graph: TemporalGraph,
    source: str,
    names: Sequence[str],
    options: ImportOptions,
    named: bool,
    note: Note | None,
) -> ImportOptions:
    """The options without start and end, if the table has no ends or the graph has events.

    Its facts are at a moment then; that ends do not count is noted. A column of ends that the
    caller `named` must be there.
    """
    if not options.has_intervals:
        return options
    *_, start, end = options.fact_columns
    if graph.has_intervals and (named or end in names):
        return options
    if end in names and note is not None:
        note(
            f"{source}: facts are taken at their start, column {start!r}; "
            f"column {end!r} is not used"
        )
    return at_moments(options)


def _columns_of_rows(graph: TemporalGraph, rows: Sequence[Any]) -> list[list[Any]]:
    """The columns of rows (subject, relation, object, time), or with a start and an end."""
    lengths = {len(row) for row in rows if isinstance(row, Sequence)}
    parts = INTERVAL_PARTS if graph.has_intervals and lengths == {len(INTERVAL_PARTS)} else COLUMNS
    columns: list[list[Any]] = [[] for _ in parts]
    for number, row in enumerate(rows):
        values = [row.get(name) for name in parts] if isinstance(row, Mapping) else row
        if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != len(parts):
            raise DataError(
                f"fact {number} must be a subject, a relation, an object and a time, found {row!r}"
            )
        for column, value in zip(columns, values, strict=True):
            column.append(plain_time(value))
    return columns


def _count_facts(rows: Sequence[int]) -> list[str]:
    return [f"fact {row}" for row in rows]
