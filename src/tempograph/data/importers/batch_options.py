"""The options for reading a batch: those given, then those of the import, then guesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tempograph.data.arrow_tables import TABLE
from tempograph.data.graph import COLUMNS
from tempograph.data.importers.column_guessing import (
    TableColumns,
    resolve_columns,
    resolve_table_columns,
)
from tempograph.data.importers.event_formats import detect_format
from tempograph.data.importers.options import SPLIT_SETTINGS, TABLE_SETTINGS, ImportOptions
from tempograph.data.importers.table_header import header_of
from tempograph.errors import DataError

Note = Callable[[str], None]
_BOUNDS = ("start", "end", "empty_start", "empty_end", "bins")
"""Settings of facts that have a start and an end instead of a time."""
_EMPTY = ("empty_start", "empty_end")
_ORDERS = {"time_format": "day_first", "day_first": "time_format"}
"""Two settings that cannot be combined."""


def file_options(
    path: Path, given: Mapping[str, Any], remembered: ImportOptions | None, note: Note | None
) -> ImportOptions:
    """The options for a file of facts, with its columns.

    The options of the import apply, unless given ones differ, if the file has their columns. If
    not, columns are guessed as in an import, and `note` is called with the guess.
    """
    merged = merge_options(given, remembered)
    # A file that only lacks a given column is not guessed at: reading it names the column.
    if merged is not None and any(_fits_file(path, each) for each in (merged, remembered) if each):
        return merged
    options, table = resolve_columns([path], without_memory(given, remembered))
    _describe_guess(str(path), table, remembered, note)
    return options


def table_options(
    names: Sequence[str],
    given: Mapping[str, Any],
    remembered: ImportOptions | None,
    note: Note | None,
) -> ImportOptions:
    """The options for a table in memory with these columns, as `file_options`."""
    merged = merge_options(given, remembered)
    if merged is not None and merged.event_columns is None and set(merged.columns) <= set(names):
        return merged
    options, table = resolve_table_columns(names, without_memory(given, remembered))
    _describe_guess(TABLE, table, remembered, note)
    return options


def row_options(given: Mapping[str, Any], remembered: ImportOptions | None) -> ImportOptions:
    """The options for rows (subject, relation, object, time), which have no column names."""
    settings = {name: value for name, value in given.items() if name not in COLUMNS}
    merged = merge_options(settings, remembered)
    if merged is None or merged.event_columns is not None:
        return without_memory(settings, remembered)
    subject, relation, object_, time = COLUMNS
    merged = replace(merged, **dict.fromkeys(_BOUNDS))  # type: ignore[arg-type]
    return replace(
        merged, header=True, subject=subject, relation=relation, object=object_, time=time
    )


def interval_row_options(
    given: Mapping[str, Any], remembered: ImportOptions | None
) -> ImportOptions:
    """The options for rows (subject, relation, object, start, end)."""
    merged = merge_options({each: given[each] for each in _EMPTY if each in given}, remembered)
    empty = {} if merged is None else {each: getattr(merged, each) for each in _EMPTY}
    kept = {name: value for name, value in given.items() if name not in _BOUNDS}
    return replace(row_options(kept, remembered), start="start", end="end", **empty)


def at_moments(options: ImportOptions) -> ImportOptions:
    """The options for a table whose facts are at a moment: the time is what was the start."""
    columns = dict(zip(COLUMNS, options.columns, strict=True))
    return replace(options, **dict.fromkeys(_BOUNDS), **columns)  # type: ignore[arg-type]


def question_options(
    names: Sequence[str], given: Mapping[str, Any], remembered: ImportOptions | None
) -> ImportOptions:
    """The options for a table of questions, in which a column may be absent.

    The options of the import apply if the table has three of their columns.
    """
    merged = merge_options(given, remembered)
    if (
        merged is not None
        and merged.event_columns is None
        and len(set(merged.columns) & set(names)) >= len(COLUMNS) - 1
    ):
        return merged
    return without_memory(given, remembered)


def merge_options(
    given: Mapping[str, Any], remembered: ImportOptions | None
) -> ImportOptions | None:
    """The options of the import, with those given instead; None if the two do not go together.

    A split column is left out: a batch needs none.
    """
    if remembered is None:
        return None
    given = _without_splits(given)
    named = {given[part] for part in COLUMNS if part in given}
    if named & {getattr(remembered, part) for part in COLUMNS if part not in given}:
        return None
    is_table = any(name in TABLE_SETTINGS for name in given)
    is_events = any(name in ("entity", "relation_level") for name in given)
    if is_events if remembered.event_columns is None else is_table:
        return None
    if given.get("format", remembered.format) != remembered.format:
        return None
    dropped = {_ORDERS[name]: None for name in given if name in _ORDERS}
    if "time" in given:
        dropped |= dict.fromkeys(_BOUNDS)
    return replace(remembered, split_column=None, **(dropped | given))


def without_memory(given: Mapping[str, Any], remembered: ImportOptions | None) -> ImportOptions:
    """The given options; of those of the import, only whether names are kept as written."""
    keep_names = remembered is not None and remembered.keep_names
    return ImportOptions(**({"keep_names": keep_names} | _without_splits(given)))


def _without_splits(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that say how facts are read, without those that say how they are split."""
    return {name: value for name, value in given.items() if name not in SPLIT_SETTINGS}


def _fits_file(path: Path, options: ImportOptions) -> bool:
    """Whether a file has the format and the columns that the options name."""
    if options.event_columns is not None:
        return detect_format(path) == options.format
    try:
        names = header_of(path, options)
    except DataError:
        # The import may have had another delimiter; any other problem comes up again.
        return False
    if not options.header:
        names = [str(number) for number in range(len(names))]
    return set(options.columns) <= set(names)


def _describe_guess(
    source: str, table: TableColumns, remembered: ImportOptions | None, note: Note | None
) -> None:
    if note is None or not table.guessed:
        return
    # The first note is about the columns that were guessed.
    guess = table.notes()[0]
    if remembered is None or remembered.event_columns is not None:
        note(f"{source}: {guess}")
        return
    columns = ", ".join(map(repr, remembered.columns))
    note(f"{source} does not have the columns of the import, {columns}; {guess}")
