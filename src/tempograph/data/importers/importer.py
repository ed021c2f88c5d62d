"""Tables of dated events, and coded events as ICEWS and GDELT publish them, turned into a dataset."""

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
from tempograph.data.importers.event_formats import find_shapes, guess_format
from tempograph.data.importers.event_reader import DATE_FORMAT, read_events
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.skipped_rows import Skipped, Skips
from tempograph.data.importers.sources import file_size, find_files
from tempograph.data.importers.table_reader import Batch, Layout, read_batches
from tempograph.data.importers.time_parsing import Clock, Steps
from tempograph.errors import DataError
from tempograph.typing import FileFormat, Progress

Ids = NDArray[np.int64]

_MANY_STEPS: Final = 1000


@dataclass(frozen=True, eq=False)
class ImportResult:
    """A dataset made from files of a format: each of the rows is one of its facts, a duplicate of one, or skipped."""

    graph: TemporalGraph
    format: FileFormat
    rows: int
    duplicates: int
    skipped: tuple[Skipped, ...] = ()

    def notes(self, guessed: bool) -> list[str]:
        """What a person should know: a format that was guessed, rows skipped, times that look like a typing error."""
        told = [
            f"the first lines are those of {self.format.upper()} events; if that is wrong, pass --format"
        ]
        told = (told if guessed and self.format != "table" else []) + [
            f"skipped, {skip}" for skip in self.skipped
        ]
        times, held = self.graph.times, len(np.unique(self.graph.all_facts[:, 3]))
        if len(times) > _MANY_STEPS and 100 * held < len(times):
            told.append(
                f"only {held:,} of the {len(times):,} steps from {times[0]} to {times[-1]} hold a fact; "
                "is one of these two a typing error?"
            )
        return told


def import_files(
    patterns: Sequence[Path], options: ImportOptions, name: str, progress: Progress | None = None
) -> ImportResult:
    """Make one dataset of the files that paths and patterns such as events/*.zip stand for, whatever their format.

    Unless the options name a format or describe a table, the first lines of the first file tell which it is.
    """
    paths = find_files(patterns)
    if options.format is None:
        guess = None if options.described or not paths else guess_format(paths[0])
        options = replace(options, format=guess or "table")
    return (import_table if options.format == "table" else import_events)(
        paths, options, name, progress
    )


def import_table(
    paths: Sequence[Path], options: ImportOptions, name: str, progress: Progress | None = None
) -> ImportResult:
    """Make one dataset of the rows of several files.

    Entities and relations are numbered in the order in which they first appear, row by row, the subject of a row
    before its object. `progress` is told how many bytes of how many are done, at each fiftieth of a Parquet file and
    each megabyte of a text file. A faulty row stops the import unless the options have it skipped and counted.
    """
    clock, skips = (
        Clock(options.time_format, options.granularity),
        Skips() if options.skip_bad else None,
    )
    layout = Layout(options.columns, options.header, options.delimiter)
    gathered = _gather(
        paths, lambda path, size: read_batches(path, size, layout, clock, skips), progress
    )
    return _imported(gathered, "table", clock, skips, options, name)


def import_events(
    paths: Sequence[Path], options: ImportOptions, name: str, progress: Progress | None = None
) -> ImportResult:
    """Make one dataset of the coded events in several files, each plain, gzipped or zipped.

    Ids are given as for a table; `progress` is told at each megabyte of text. A file that is not of the format is
    refused before any is read; a row that is no event is skipped and counted.
    """
    wanted = options.wanted
    clock, skips = Clock(DATE_FORMAT, options.granularity), Skips()
    shapes = {path: find_shapes(path, wanted) for path in paths}
    gathered = _gather(
        paths, lambda path, _: read_events(path, shapes[path], wanted, clock, skips), progress
    )
    return _imported(gathered, wanted.format, clock, skips, options, name)


@dataclass(frozen=True, eq=False)
class _Gathered:
    """Rows (subject, relation, object, step) of all files, [rows, 4], and the names behind their ids."""

    paths: Sequence[Path]
    rows: Facts
    entities: _Names
    relations: _Names


def _gather(
    paths: Sequence[Path], read: Callable[[Path, int], Iterator[Batch]], progress: Progress | None
) -> _Gathered:
    """All that `read` finds in the files, given their sizes."""
    if not paths:
        raise DataError("there is no file to import; name at least one")
    sizes = [file_size(path) for path in paths]
    *starts, total = accumulate(sizes, initial=0)
    entities, relations = _Names(), _Names()
    parts: list[Facts] = [np.empty((0, len(COLUMNS)), np.int64)]
    for path, start, size in zip(paths, starts, sizes, strict=True):
        for columns, steps, done in read(path, size):
            subjects, objects = entities.encode_pairs(columns[0], columns[2])
            parts.append(np.stack([subjects, relations.encode(columns[1]), objects, steps], axis=1))
            if progress:
                progress(start + done, total)
        if progress:
            progress(start + size, total)
    return _Gathered(paths, np.concatenate(parts), entities, relations)


def _imported(
    gathered: _Gathered,
    format: FileFormat,
    clock: Clock,
    skips: Skips | None,
    options: ImportOptions,
    name: str,
) -> ImportResult:
    """The dataset of the rows that were not skipped, which must be some."""
    skipped = skips.found() if skips else ()
    rows = len(gathered.rows) + sum(skip.rows for skip in skipped)
    if not len(gathered.rows):
        reasons = "".join(f"; {skip}" for skip in skipped)
        raise DataError(f"{_some(gathered.paths)}: none of {rows:,} rows is an event{reasons}")
    graph, duplicates = _make_graph(gathered, clock, options, name)
    return ImportResult(graph, format, rows, duplicates, skipped)


def _make_graph(
    gathered: _Gathered, clock: Clock, options: ImportOptions, name: str
) -> tuple[TemporalGraph, int]:
    """The dataset of the rows, whose steps become ids, and how many rows repeat another one."""
    rows = gathered.rows
    try:
        rows[:, 3], times = clock.grid(rows[:, 3])
    except DataError as error:
        raise DataError(f"{_some(gathered.paths)}: {error}") from None
    facts = sort_by_time(rows)
    splits = _split(facts, options)
    graph = TemporalGraph(
        name, tuple(gathered.entities.ids), tuple(gathered.relations.ids), times, *splits
    )
    return graph, len(rows) - len(facts)


def _some(paths: Sequence[Path], most: int = 3) -> str:
    """The first of many files."""
    named = ", ".join(str(path) for path in paths[:most])
    return f"{named} and {len(paths) - most:,} more" if len(paths) > most else named


class _Names:
    """Names and their ids, in the order of first appearance."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def encode(self, names: pa.Array) -> Ids:
        """The id of each name; a name not seen before gets the next one."""
        encoded = names.dictionary_encode()
        # Arrow lists the distinct names in the order in which they appear.
        ids = [self.ids.setdefault(name, len(self.ids)) for name in encoded.dictionary.to_pylist()]
        numbers: Ids = np.array(ids, np.int64)[encoded.indices.to_numpy()]
        return numbers

    def encode_pairs(self, left: pa.Array, right: pa.Array) -> tuple[Ids, Ids]:
        """The ids of two columns, numbered row by row so that they do not depend on where a batch ends."""
        by_row = np.arange(2 * len(left)).reshape(2, -1).T.ravel()
        ids = self.encode(pa.concat_arrays([left, right]).take(pa.array(by_row)))
        return ids[::2], ids[1::2]


def _split(facts: Facts, options: ImportOptions) -> tuple[Facts, Facts, Facts]:
    """Train, valid and test facts, each in the order the facts have."""
    count = len(facts)
    test = min(round(count * options.test_share), count - 1)
    valid = min(round(count * options.valid_share), count - 1 - test)
    if options.split == "chronological":
        first, second = _step_ends(facts[:, 3], np.array([count - valid - test, count - test]))
        return facts[:first], facts[first:second], facts[second:]
    shuffled = np.random.Generator(np.random.PCG64(options.seed)).permutation(count)
    train_rows, valid_rows, test_rows = np.split(shuffled, [count - valid - test, count - test])
    return facts[np.sort(train_rows)], facts[np.sort(valid_rows)], facts[np.sort(test_rows)]


def _step_ends(times: Steps, cuts: Steps) -> Steps:
    """For each cut the nearest place at which a time step ends, the later of two, so that no step is torn apart."""
    ends = np.append(np.flatnonzero(np.diff(times)) + 1, len(times))
    nearest: Steps = ends[::-1][np.abs(ends[::-1] - cuts[:, None]).argmin(axis=1)]
    return nearest
