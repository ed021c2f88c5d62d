"""Import tables of dated facts, and coded events of ICEWS and GDELT, as a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from tempograph.data.graph import TemporalGraph, sort_by_time
from tempograph.data.importers.bad_rows import SkipCounter, SkippedRows, bad_limit
from tempograph.data.importers.event_formats import EventColumns, detect_format, find_layouts
from tempograph.data.importers.event_reader import DATE_FORMAT, read_events
from tempograph.data.importers.fact_inputs import FactInput
from tempograph.data.importers.fact_splits import describe_own_splits, divide, divide_as_given
from tempograph.data.importers.imported_rows import ImportedRows
from tempograph.data.importers.name_ids import describe_changed_names
from tempograph.data.importers.option_words import COMMAND_LINE, PYTHON, OptionWords
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.row_checks import Batch, Grid
from tempograph.data.importers.sources import find_files
from tempograph.data.importers.time_grid import TimeGrid
from tempograph.data.spans import simplify, steps_with_facts
from tempograph.errors import ConfigError, DataError
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
    overlaps: int | None = None
    """How many facts were in several splits of the data's own; None if it was split here."""
    options: ImportOptions | None = None
    """The options with what was found: the format, columns, and the order of day and month.

    The delimiter and the encoding are those that were set; each file has its own. None for a graph.
    """

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
        times = self.graph.times
        used = steps_with_facts(self.graph.all_facts, len(times))
        if len(times) > _MANY_STEPS and 100 * used < len(times):
            notes.append(
                f"only {used:,} of the {len(times):,} steps from {times[0]} to {times[-1]} "
                "have a fact; is one of these two a typo?"
            )
        return notes


def import_files(
    patterns: Sequence[Path], options: ImportOptions, name: str, progress: Progress | None = None
) -> ImportResult:
    """Import the files behind paths and patterns such as events/*.zip as one dataset."""
    inputs = [FactInput(path) for path in find_files(patterns)]
    return import_inputs(inputs, options, name, progress)


def import_inputs(
    inputs: Sequence[FactInput], options: ImportOptions, name: str, progress: Progress | None = None
) -> ImportResult:
    """Import files and tables in memory as one dataset.

    Unless the options name a format or describe a table, the first lines of the first file decide.
    Entities and relations are numbered in order of appearance, the subject of a row before its
    object. Names are trimmed and normalized to NFC unless `keep_names` is set. `progress` is called
    with the bytes read and the bytes in all, after each fiftieth of a Parquet file and each
    megabyte of a text file. A file of coded events in another format is refused before any is read.
    """
    if not inputs:
        raise DataError("there is no file to import; name at least one")
    if any(each.split for each in inputs):
        options.refuse_split_settings("the files or tables they are in")
    if options.format is None:
        options = replace(options, format=_find_format(inputs[0], options))
    words = COMMAND_LINE if all(isinstance(each.content, Path) for each in inputs) else PYTHON
    skips, remarks, rows = SkipCounter(), list[str](), ImportedRows(options.keep_names)
    grid: Grid
    if columns := options.event_columns:
        grid = TimeGrid(DATE_FORMAT, options.granularity)
        batches = _read_events(inputs, columns, grid, skips)
    else:
        if options.bins is not None and not options.has_intervals:
            raise ConfigError("bins are for facts with a start and an end; name these columns")
        grid = options.grid(lambda: _read_times(inputs, options), words)
        batches = [each.read(options, grid, skips, remarks) for each in inputs]
    _collect(rows, inputs, batches, progress)
    shown = ", ".join(each.name for each in inputs[:3])
    shown += f" and {len(inputs) - 3:,} more" if len(inputs) > 3 else ""
    facts = rows.facts()
    _refuse_bad_rows(shown, len(facts), skips, options, words)
    try:
        placed = grid.place(facts[:, 3:])
    except DataError as error:
        raise DataError(f"{shown}: {error}") from None
    facts = simplify(np.column_stack([facts[:, :3], placed.rows]))
    splits = rows.splits()
    overlap = None
    if splits is None:
        division = divide(sort_by_time(facts), options)
    else:
        division, overlap = divide_as_given(facts, splits)
        if not len(division[0]):
            raise DataError(f"{shown}: no fact is in train only, so there is nothing to learn from")
    graph = TemporalGraph(
        name, tuple(rows.entities.ids), tuple(rows.relations.ids), placed.labels, *division
    )
    found = [
        *(describe_own_splits(graph, overlap) if overlap else ()),
        *grid.remarks(),
        describe_changed_names(rows.entities, "entity", words),
        describe_changed_names(rows.relations, "relation", words),
    ]
    return ImportResult(
        graph,
        options.format or "table",
        rows=len(facts) + skips.count(),
        duplicates=len(facts) - len(graph.all_facts),
        skipped=skips.rows(),
        remarks=(*remarks, *filter(None, found)),
        overlaps=len(overlap.facts) if overlap else None,
        options=replace(options, day_first=grid.day_first),
    )


def _find_format(first: FactInput, options: ImportOptions) -> FileFormat:
    """The format of events that the first lines of a file tell, else a table."""
    detectable = isinstance(first.content, Path) and not options.table_settings
    return (detect_format(first.content) if detectable else None) or "table"


def _read_times(inputs: Sequence[FactInput], options: ImportOptions) -> Iterator[pa.Array]:
    """All columns of times in batches of text; those that hold dates or numbers are left out."""
    for column in options.fact_columns[3:]:
        for each in inputs:
            yield from each.read_texts(column, options)


def _read_events(
    inputs: Sequence[FactInput], columns: EventColumns, grid: TimeGrid, skips: SkipCounter
) -> list[Iterator[Batch]]:
    """The coded events of files, each in batches; their layouts are checked before any is read."""
    for each in inputs:
        if not isinstance(each.content, Path):
            raise DataError(f"{each.name} is not {columns.schema.title}; pass tables alone")
    paths = [each.content for each in inputs]
    layouts = [find_layouts(path, columns) for path in paths]
    return [
        read_events(path, layout, columns, grid, skips)
        for path, layout in zip(paths, layouts, strict=True)
    ]


def _collect(
    rows: ImportedRows,
    inputs: Sequence[FactInput],
    batches: Iterable[Iterable[Batch]],
    progress: Progress | None,
) -> None:
    """Add the rows of all inputs."""
    sizes = [each.size for each in inputs]
    *starts, total = accumulate(sizes, initial=0)
    for each, read, start, size in zip(inputs, batches, starts, sizes, strict=True):
        for columns, when, done in read:
            rows.add(columns, when, each.split)
            if progress:
                progress(start + done, total)
        if progress:
            progress(start + size, total)


def _refuse_bad_rows(
    shown: str, facts: int, skips: SkipCounter, options: ImportOptions, words: OptionWords
) -> None:
    """Refuse an import without facts, or with more bad rows than the options allow."""
    bad = skips.count()
    count = facts + bad
    if not facts:
        reasons = "".join(f"; {skip}" for skip in skips.rows())
        raise DataError(f"{shown}: none of {count:,} rows is an event{reasons}")
    if options.skip_bad and not options.event_columns and bad > bad_limit(options.max_bad, count):
        reasons = "; ".join(map(str, skips.rows()))
        raise DataError(
            f"{shown}: {bad:,} of {count:,} rows are bad ({bad / count:.1%}): {reasons}; "
            f"correct them, or allow more with {words.max_bad}"
        )
