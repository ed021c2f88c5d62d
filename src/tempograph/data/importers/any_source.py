"""Import facts from whatever holds them: files, a table in memory, or a graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tempograph.data.arrow_tables import TABLE, TableLike, to_arrow_table
from tempograph.data.graph import TemporalGraph
from tempograph.data.importers.column_guessing import (
    TableColumns,
    resolve_columns,
    resolve_table_columns,
)
from tempograph.data.importers.importer import ImportResult, import_files, import_table
from tempograph.data.importers.options import ImportOptions
from tempograph.typing import Progress

PathLike: TypeAlias = str | os.PathLike[str]

FactSource: TypeAlias = PathLike | Sequence[PathLike] | TemporalGraph | TableLike
"""A file, several files or patterns, a graph, or a table in memory."""


def import_facts(
    source: FactSource,
    options: ImportOptions,
    name: str,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
) -> tuple[ImportResult, TableColumns]:
    """The dataset, and the columns that hold the parts of a fact.

    Columns that the options do not name are guessed from their names. A graph is taken as it is.
    `note` is called with what was guessed and what was left out.
    """
    if isinstance(source, TemporalGraph):
        return ImportResult(source, "table", len(source.all_facts), 0), TableColumns({})
    paths = as_paths(source)
    if paths is not None:
        options, columns = resolve_columns(paths, options)
    else:
        table = to_arrow_table(source)  # type: ignore[arg-type]
        options, columns = resolve_table_columns(table.column_names, options)
    if note:
        for line in columns.notes():
            note(line)
    if paths is not None:
        imported = import_files(paths, options, name, progress)
    else:
        imported = import_table(table, options, name)
    if note:
        for line in imported.notes(guessed=options.format is None):
            note(f"note: {line}")
    return imported, columns


def describe_source(source: FactSource) -> str:
    """How messages name a source: the paths, the name of the graph, or "the table"."""
    if isinstance(source, TemporalGraph):
        return source.name
    paths = as_paths(source)
    return TABLE if paths is None else ", ".join(map(str, paths))


def as_paths(source: Any) -> list[Path] | None:
    """The files that a source names, or None if it holds facts itself."""
    if isinstance(source, str | os.PathLike):
        return [Path(source)]
    if isinstance(source, list | tuple) and all(
        isinstance(each, str | os.PathLike) for each in source
    ):
        return [Path(each) for each in source]
    return None
