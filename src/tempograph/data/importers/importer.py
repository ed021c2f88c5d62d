"""Import tables of dated facts, and coded events of ICEWS and GDELT, as a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tempograph.data.graph import COLUMNS, Facts, TemporalGraph, sort_by_time
from tempograph.data.importers.bad_rows import SkipCounter, SkippedRows
from tempograph.data.importers.event_formats import detect_format, find_layouts
from tempograph.data.importers.event_reader import DATE_FORMAT, read_events
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.sources import file_size, find_files
from tempograph.data.importers.table_reader import Batch, read_table
from tempograph.data.importers.time_grid import TimeGrid
from tempograph.errors import DataError
from tempograph.typing import FileFormat, Progress

Ids = NDArray[np.int64]
ReadBatches = Callable[[Path, int], Iterator[Batch]]
"""Reads the batches of a file, given its path and size."""

_MANY_STEPS: Final = 1000


@dataclass(frozen=True, eq=False)
class ImportResult:
    """An imported dataset; each row is one of its facts, a duplicate of one, or skipped."""

    graph: TemporalGraph
    format: FileFormat
    rows: int
    duplicates: int
    skipped: tuple[SkippedRows, ...] = ()

    def notes(self, guessed: bool) -> list[str]:
        """Notes for the user: a guessed format, skipped rows, times that look like a typo."""
        notes = [f"skipped, {skip}" for skip in self.skipped]
        if guessed and self.format != "table":
            guess = f"the file looks like {self.format.upper()} events"
            notes.insert(0, f"{guess}; if it is not, pass --format")
        times, used = self.graph.times, len(np.unique(self.graph.all_facts[:, 3]))
        if len(times) > _MANY_STEPS and 100 * used < len(times):
            notes.append(
                f"only {used:,} of the {len(times):,} steps from {times[0]} to {times[-1]} "
                "have a fact; is one of these two a typo?"
            )
        return notes


def import_files(
    patterns: Sequence[Path], options: ImportOptions, name: str, progress: Progress | None = None
) -> ImportResult:
    """Import the files behind paths and patterns such as events/*.zip as one dataset.

    Unless the options name a format or describe a table, the first lines of the first file decide.
    """
    paths = find_files(patterns)
    if options.format is None:
        detected = None if options.table_settings or not paths else detect_format(paths[0])
        options = replace(options, format=detected or "table")
    import_format = import_table if options.format == "table" else import_events
    return import_format(paths, options, name, progress)


def import_table(
    paths: Sequence[Path], options: ImportOptions, name: str, progress: Progress | None = None
) -> ImportResult:
    """Import the rows of several tables as one dataset.

    Entities and relations are numbered in order of appearance, the subject of a row before its
    object. `progress` is called with the bytes read and the bytes in all, after each fiftieth of a
    Parquet file and each megabyte of a text file. A faulty row stops the import unless the options
    say to skip it.
    """
    grid = TimeGrid(options.time_format, options.granularity)
    skips = SkipCounter() if options.skip_bad else None
    rows = _read_rows(
        paths, lambda path, size: read_table(path, size, options, grid, skips), progress
    )
    return _make_result(rows, "table", grid, skips, options, name)


def import_events(
    paths: Sequence[Path], options: ImportOptions, name: str, progress: Progress | None = None
) -> ImportResult:
    """Import the coded events of several files, plain, gzipped or zipped, as one dataset.

    Ids and progress are as for tables. A file in another format is refused before any is read; a
    row that is not an event is skipped and counted.
    """
    columns = options.event_columns
    grid, skips = TimeGrid(DATE_FORMAT, options.granularity), SkipCounter()
    layouts = {path: find_layouts(path, columns) for path in paths}
    rows = _read_rows(
        paths, lambda path, _: read_events(path, layouts[path], columns, grid, skips), progress
    )
    return _make_result(rows, columns.format, grid, skips, options, name)


class _NameIds:
    """Names and their ids, in order of appearance."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def encode(self, names: pa.Array) -> Ids:
        """The id of each name; a new name gets the next id."""
        encoded = names.dictionary_encode()
        # Arrow lists the distinct names in order of appearance.
        ids = [self.ids.setdefault(name, len(self.ids)) for name in encoded.dictionary.to_pylist()]
        codes: Ids = encoded.indices.to_numpy()
        return np.array(ids, np.int64)[codes]

    def encode_pairs(self, left: pa.Array, right: pa.Array) -> tuple[Ids, Ids]:
        """The ids of two columns, numbered row by row so that batch borders do not matter."""
        by_row = np.arange(2 * len(left)).reshape(2, -1).T.ravel()
        ids = self.encode(pa.concat_arrays([left, right]).take(pa.array(by_row)))
        return ids[::2], ids[1::2]


@dataclass(frozen=True, eq=False)
class _ImportedRows:
    """Rows (subject, relation, object, step) of all files, [rows, 4], and their names."""

    paths: str
    facts: Facts
    entities: _NameIds
    relations: _NameIds


def _read_rows(
    paths: Sequence[Path], read: ReadBatches, progress: Progress | None
) -> _ImportedRows:
    if not paths:
        raise DataError("there is no file to import; name at least one")
    sizes = [file_size(path) for path in paths]
    *starts, total = accumulate(sizes, initial=0)
    entities, relations = _NameIds(), _NameIds()
    parts: list[Facts] = [np.empty((0, len(COLUMNS)), np.int64)]
    for path, start, size in zip(paths, starts, sizes, strict=True):
        for columns, steps, done in read(path, size):
            subjects, objects = entities.encode_pairs(columns[0], columns[2])
            parts.append(np.stack([subjects, relations.encode(columns[1]), objects, steps], axis=1))
            if progress:
                progress(start + done, total)
        if progress:
            progress(start + size, total)
    shown = ", ".join(str(path) for path in paths[:3])
    shown += f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
    return _ImportedRows(shown, np.concatenate(parts), entities, relations)


def _make_result(
    rows: _ImportedRows,
    format: FileFormat,
    grid: TimeGrid,
    skips: SkipCounter | None,
    options: ImportOptions,
    name: str,
) -> ImportResult:
    """The dataset of the rows that were not skipped."""
    skipped = skips.rows() if skips else ()
    facts = rows.facts
    count = len(facts) + sum(skip.rows for skip in skipped)
    if not len(facts):
        reasons = "".join(f"; {skip}" for skip in skipped)
        raise DataError(f"{rows.paths}: none of {count:,} rows is an event{reasons}")
    try:
        facts[:, 3], times = grid.label(facts[:, 3])
    except DataError as error:
        raise DataError(f"{rows.paths}: {error}") from None
    distinct = sort_by_time(facts)
    splits = _split(distinct, options)
    graph = TemporalGraph(name, tuple(rows.entities.ids), tuple(rows.relations.ids), times, *splits)
    return ImportResult(graph, format, count, len(facts) - len(distinct), skipped)


def _split(facts: Facts, options: ImportOptions) -> tuple[Facts, Facts, Facts]:
    """Train, valid and test facts, each in the order of the facts."""
    count = len(facts)
    test = min(round(count * options.test_share), count - 1)
    valid = min(round(count * options.valid_share), count - 1 - test)
    if options.split == "chronological":
        first, second = _step_ends(facts[:, 3], np.array([count - valid - test, count - test]))
        return facts[:first], facts[first:second], facts[second:]
    shuffled = np.random.Generator(np.random.PCG64(options.seed)).permutation(count)
    train_rows, valid_rows, test_rows = np.split(shuffled, [count - valid - test, count - test])
    return facts[np.sort(train_rows)], facts[np.sort(valid_rows)], facts[np.sort(test_rows)]


def _step_ends(times: Ids, cuts: Ids) -> Ids:
    """The end of a time step nearest to each cut, the later of two: no step is divided."""
    ends = np.append(np.flatnonzero(np.diff(times)) + 1, len(times))
    nearest: Ids = ends[::-1][np.abs(ends[::-1] - cuts[:, None]).argmin(axis=1)]
    return nearest
