"""Import tables of dated facts, and coded events of ICEWS and GDELT, as a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from tempograph.data.arrow_tables import TABLE
from tempograph.data.graph import COLUMNS, Facts, TemporalGraph, sort_by_time
from tempograph.data.importers.bad_rows import SkipCounter, SkippedRows, bad_limit
from tempograph.data.importers.event_formats import detect_format, find_layouts
from tempograph.data.importers.event_reader import DATE_FORMAT, read_events
from tempograph.data.importers.name_ids import Ids, NameIds, describe_changed_names
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.sources import file_size, find_files
from tempograph.data.importers.table_reader import Batch, read_arrow, read_table, read_times
from tempograph.data.importers.time_grid import TimeGrid
from tempograph.errors import DataError
from tempograph.typing import FileFormat, Progress

_MANY_STEPS: Final = 1000


@dataclass(frozen=True, eq=False)
class ImportResult:
    """An imported dataset; each row is one of its facts, a duplicate of one, or skipped."""

    graph: TemporalGraph
    format: FileFormat
    rows: int
    duplicates: int
    skipped: tuple[SkippedRows, ...] = ()
    remarks: tuple[str, ...] = ()
    """What was changed or decided while reading, such as names that were joined."""

    def account(self) -> str:
        """Where every row went, in one line."""
        bad = sum(skip.rows for skip in self.skipped)
        facts = self.rows - self.duplicates - bad
        return (
            f"{self.rows:,} rows = {facts:,} facts + {self.duplicates:,} duplicates + {bad:,} bad"
        )

    def notes(self, guessed: bool) -> list[str]:
        """Notes for the user: a guessed format, skipped rows, times that look like a typo."""
        notes = [*self.remarks, *(f"skipped, {skip}" for skip in self.skipped)]
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
    Entities and relations are numbered in order of appearance, the subject of a row before its
    object. Names are trimmed and normalized to NFC unless `keep_names` is set. `progress` is called
    with the bytes read and the bytes in all, after each fiftieth of a Parquet file and each
    megabyte of a text file. A file of coded events in another format is refused before any is read.
    """
    paths = find_files(patterns)
    if not paths:
        raise DataError("there is no file to import; name at least one")
    if options.format is None:
        detected = None if options.table_settings else detect_format(paths[0])
        options = replace(options, format=detected or "table")
    skips, remarks = SkipCounter(), list[str]()
    if columns := options.event_columns:
        grid = TimeGrid(DATE_FORMAT, options.granularity)
        layouts = {path: find_layouts(path, columns) for path in paths}
        batches = (read_events(path, layouts[path], columns, grid, skips) for path in paths)
    else:
        grid = TimeGrid(
            options.time_format,
            options.granularity,
            options.day_first,
            lambda: chain.from_iterable(read_times(path, options) for path in paths),
        )
        counter = skips if options.skip_bad else None
        batches = (read_table(path, options, grid, counter, remarks) for path in paths)
    entities, relations = NameIds(options.keep_names), NameIds(options.keep_names)
    facts = _read_rows(paths, batches, entities, relations, progress)
    shown = ", ".join(str(path) for path in paths[:3])
    shown += f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
    return _make_dataset(shown, facts, entities, relations, grid, options, name, skips, remarks)


def import_table(table: pa.Table, options: ImportOptions, name: str) -> ImportResult:
    """Import a table in memory, by the rules for files."""
    options = replace(options, format="table")
    skips, entities, relations = (
        SkipCounter(),
        NameIds(options.keep_names),
        NameIds(options.keep_names),
    )

    def times() -> list[pa.Array]:
        column = table[options.time]
        return column.chunks if pa.types.is_string(column.type) else []

    grid = TimeGrid(options.time_format, options.granularity, options.day_first, times)
    parts = [
        _encode_batch(columns, steps, entities, relations)
        for columns, steps, _ in read_arrow(
            table, options, grid, skips if options.skip_bad else None
        )
    ]
    facts = np.concatenate(parts)
    return _make_dataset(TABLE, facts, entities, relations, grid, options, name, skips, [])


def _make_dataset(
    shown: str,
    facts: Facts,
    entities: NameIds,
    relations: NameIds,
    grid: TimeGrid,
    options: ImportOptions,
    name: str,
    skips: SkipCounter,
    remarks: list[str],
) -> ImportResult:
    """The dataset of all rows (subject, relation, object, step); errors show their source."""
    count = len(facts) + sum(skip.rows for skip in skips.rows())
    if not len(facts):
        reasons = "".join(f"; {skip}" for skip in skips.rows())
        raise DataError(f"{shown}: none of {count:,} rows is an event{reasons}")
    bad = count - len(facts)
    if options.skip_bad and not options.event_columns and bad > bad_limit(options.max_bad, count):
        reasons = "; ".join(map(str, skips.rows()))
        raise DataError(
            f"{shown}: {bad:,} of {count:,} rows are bad ({bad / count:.1%}): {reasons}; "
            "correct them, or allow more with --max-bad"
        )
    try:
        facts[:, 3], times = grid.label(facts[:, 3])
    except DataError as error:
        raise DataError(f"{shown}: {error}") from None
    distinct = sort_by_time(facts)
    graph = TemporalGraph(
        name, tuple(entities.ids), tuple(relations.ids), times, *_split(distinct, options)
    )
    duplicates = len(facts) - len(distinct)
    described = [
        describe_changed_names(names, kind)
        for names, kind in ((entities, "entity"), (relations, "relation"))
    ]
    remarks += [*grid.remarks(), *(remark for remark in described if remark)]
    table = options.format or "table"
    return ImportResult(graph, table, count, duplicates, skips.rows(), tuple(remarks))


def _read_rows(
    paths: Sequence[Path],
    files: Iterable[Iterable[Batch]],
    entities: NameIds,
    relations: NameIds,
    progress: Progress | None,
) -> Facts:
    """Rows (subject, relation, object, step) of all files, [rows, 4]."""
    sizes = [file_size(path) for path in paths]
    *starts, total = accumulate(sizes, initial=0)
    parts: list[Facts] = [np.empty((0, len(COLUMNS)), np.int64)]
    for batches, start, size in zip(files, starts, sizes, strict=True):
        for columns, steps, done in batches:
            parts.append(_encode_batch(columns, steps, entities, relations))
            if progress:
                progress(start + done, total)
        if progress:
            progress(start + size, total)
    return np.concatenate(parts)


def _encode_batch(
    columns: list[pa.Array], steps: Ids, entities: NameIds, relations: NameIds
) -> Facts:
    subjects, objects = entities.encode_pairs(columns[0], columns[2])
    return np.stack([subjects, relations.encode(columns[1]), objects, steps], axis=1)


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
