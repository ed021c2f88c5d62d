"""Import facts from whatever holds them: files, tables in memory, splits of these, or a graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from tempograph.data.arrow_tables import TABLE, TableLike, to_arrow_table
from tempograph.data.attributes import Attributes, read_attributes
from tempograph.data.folder import DATASET_MARKER, write_folder
from tempograph.data.graph import TemporalGraph
from tempograph.data.importers.column_guessing import (
    TableColumns,
    named_like_split,
    resolve_columns,
    resolve_table_columns,
)
from tempograph.data.importers.dated_folder import is_dated_folder
from tempograph.data.importers.fact_inputs import FactInput
from tempograph.data.importers.folder_import import write_spilled_rows
from tempograph.data.importers.import_summary import ImportSummary
from tempograph.data.importers.importer import (
    ImportResult,
    build_graph,
    import_inputs,
    read_rows,
    summarize,
)
from tempograph.data.importers.option_words import COMMAND_LINE, PYTHON
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.own_splits import find_split, find_split_files, parse_splits
from tempograph.data.importers.row_chunks import SpillFolder
from tempograph.data.importers.sources import find_files
from tempograph.errors import DataError
from tempograph.typing import SPLITS, Progress, Split

PathLike: TypeAlias = str | os.PathLike[str]

SplitSources: TypeAlias = Mapping[str, PathLike | Sequence[PathLike] | TableLike]
"""The files or the table of each split: train, valid and test."""

FactSource: TypeAlias = PathLike | Sequence[PathLike] | TemporalGraph | TableLike | SplitSources
"""A file, several files or patterns, a folder of split files, a graph, or a table in memory.

A mapping has the files or the table of each split.
"""


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
    inputs, options, columns = _resolve(source, options, note)
    imported = import_inputs(inputs, options, name, progress)
    if note:
        for line in imported.notes(guessed=options.format is None):
            note(as_note(line))
    return imported, columns


def import_to_folder(
    source: FactSource,
    options: ImportOptions,
    path: Path,
    overwrite: bool = False,
    parquet: bool | None = None,
    attributes: PathLike | TableLike | None = None,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
) -> tuple[ImportSummary, TableColumns]:
    """Import facts into a dataset folder; what was made, and the columns of the parts of a fact.

    If there are many rows, they are collected and sorted in a temporary folder beside the path.
    Without `parquet`, the number of facts decides whether their files are Parquet. `note` is called
    with what is worth knowing of the attributes.
    """
    inputs, options, columns = _resolve(source, options, None)
    with SpillFolder(path) as spill:
        read = read_rows(inputs, options, progress, spill)
        if not read.rows.chunks.on_disk:
            imported = build_graph(read, path.resolve().name)
            if attributes is not None:
                imported = add_attributes(imported, attributes, options.keep_names, note)
            write_folder(imported.graph, path, overwrite, parquet=parquet)
            return summarize(imported), columns
        found: Attributes = {}
        if attributes is not None:
            entities = tuple(read.rows.entities.ids)
            found = _read_attributes(attributes, entities, options.keep_names, note)
        summary = write_spilled_rows(read, spill, path, overwrite, found, parquet)
    return summary, columns


def _resolve(
    source: FactSource, options: ImportOptions, note: Callable[[str], None] | None
) -> tuple[list[FactInput], ImportOptions, TableColumns]:
    """The inputs of a source, the options with the columns that were guessed, and these columns."""
    inputs = find_inputs(source)
    first = inputs[0]
    if isinstance(first.content, Path):
        options, columns = resolve_columns([first.content], options)
    else:
        options, columns = resolve_table_columns(first.content.column_names, options)
    if first.split is None and options.split_column is None:
        columns = replace(columns, split_hint=_find_split_column(first, columns, options))
    if note:
        for line in columns.notes():
            note(line)
    return inputs, options, columns


def add_attributes(
    imported: ImportResult,
    attributes: PathLike | TableLike,
    keep_names: bool = False,
    note: Callable[[str], None] | None = None,
) -> ImportResult:
    """Add attributes of entities, from a CSV file or a table with a column `entity`."""
    found = _read_attributes(attributes, imported.graph.entities, keep_names, note)
    return replace(imported, graph=replace(imported.graph, attributes=found))


def _read_attributes(
    attributes: PathLike | TableLike,
    entities: tuple[str, ...],
    keep_names: bool,
    note: Callable[[str], None] | None,
) -> Attributes:
    paths = as_paths(attributes)
    source = paths[0] if paths else to_arrow_table(attributes)  # type: ignore[arg-type]
    return read_attributes(source, entities, note, keep_names)


def as_note(line: str) -> str:
    """A line for people that says whether it is a note or a warning."""
    return line if line.startswith("warning: ") else f"note: {line}"


def refuse_empty_splits(source: FactSource, imported: ImportResult) -> None:
    """Refuse a dataset without facts to validate or to test on."""
    graph = imported.graph
    empty = [split for split in ("valid", "test") if not len(graph.facts(split))]
    if not empty:
        return
    shown = describe_source(source)
    if isinstance(source, TemporalGraph) or imported.overlaps is not None:
        raise DataError(
            f"{shown}: no fact is in {' or '.join(empty)}; a model is validated on valid facts "
            "and tested on test facts, so add some"
        )
    words = PYTHON if as_paths(source) is None else COMMAND_LINE
    raise DataError(
        f"{shown}: too few facts, {len(graph.all_facts):,}, to hold some out for validation and "
        f"test; add more, or hold out more with {words.shares}"
    )


def describe_source(source: FactSource) -> str:
    """How messages name a source: the paths, the name of the graph, or "the table"."""
    if isinstance(source, TemporalGraph):
        return source.name
    if isinstance(source, Mapping):
        return ", ".join(dict.fromkeys(each.name for each in find_inputs(source)))
    paths = as_paths(source)
    return TABLE if paths is None else ", ".join(map(str, paths))


def find_inputs(source: FactSource) -> list[FactInput]:
    """The files and tables of a source, those of train first."""
    if isinstance(source, Mapping):
        return _find_split_inputs(source)
    paths = as_paths(source)
    if paths is None:
        return [FactInput(to_arrow_table(source))]  # type: ignore[arg-type]
    if len(paths) == 1 and paths[0].is_dir():
        return _find_folder_inputs(paths[0])
    files = find_files(paths)
    if not files:
        raise DataError("there is no file to import; name at least one")
    return [FactInput(path) for path in files]


def has_own_splits(source: FactSource) -> bool:
    """Whether a source says which facts are of which split, other than in a column."""
    if isinstance(source, TemporalGraph | Mapping):
        return True
    paths = as_paths(source)
    return paths is not None and len(paths) == 1 and is_split_folder(paths[0])


def is_split_folder(path: Path) -> bool:
    """Whether a folder holds a table of train facts and at least one of held-out facts."""
    if not path.is_dir() or (path / DATASET_MARKER).is_file():
        return False
    splits = find_split_files(path)
    return "train" in splits and len(splits) > 1


def as_paths(source: Any) -> list[Path] | None:
    """The files that a source names, or None if it holds facts itself."""
    if isinstance(source, str | os.PathLike):
        return [Path(source)]
    if isinstance(source, list | tuple) and all(
        isinstance(each, str | os.PathLike) for each in source
    ):
        return [Path(each) for each in source]
    return None


def _find_split_inputs(source: SplitSources) -> list[FactInput]:
    found: dict[Split, FactSource] = {}
    for key, given in source.items():
        split = find_split(key) if isinstance(key, str) else None
        if split is None or split in found:
            problem = f"two keys name {split}" if split else f"the key {key!r} names no split"
            raise DataError(f"{problem}; map train, valid and test to files or tables")
        found[split] = given
    if "train" not in found:
        raise DataError(f"there are no train facts among {', '.join(map(repr, source))}; add them")
    inputs = []
    for split in sorted(found, key=SPLITS.index):
        for each in find_inputs(found[split]):
            if each.split is not None:
                raise DataError(
                    f"{each.name}: is of the split {each.split} already; "
                    "name the files of each split"
                )
            inputs.append(replace(each, split=split))
    return inputs


def _find_folder_inputs(folder: Path) -> list[FactInput]:
    if (folder / DATASET_MARKER).is_file() or is_dated_folder(folder):
        raise DataError(f"{folder}: is a dataset already; use it as it is, such as in train")
    if not is_split_folder(folder):
        raise DataError(
            f"{folder}: is a folder; name the files in it, or call them train, valid and test, "
            "such as train.csv and test.csv"
        )
    return [FactInput(path, split) for split, path in find_split_files(folder).items()]


def _find_split_column(
    first: FactInput, columns: TableColumns, options: ImportOptions
) -> str | None:
    """A note on a column that is not used, but has the name and the first values of splits."""
    for name in columns.unused:
        if named_like_split(name):
            batch = next(first.read_texts(name, options), None)
            if batch is not None and len(batch) and parse_splits(batch)[1].all():
                words = COMMAND_LINE if isinstance(first.content, Path) else PYTHON
                option = words.split_column.format(column=name)
                return f"{name!r} holds splits, and {option} uses them"
    return None
