"""Import tables of dated facts, and coded events of ICEWS and GDELT, as a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa

from tempograph.data.graph import TemporalGraph, sort_by_time
from tempograph.data.importers.bad_rows import SkipCounter, SkippedRows, bad_limit
from tempograph.data.importers.event_formats import EventColumns, detect_format, find_layouts
from tempograph.data.importers.event_reader import DATE_FORMAT, read_events
from tempograph.data.importers.fact_inputs import FactInput
from tempograph.data.importers.fact_splits import describe_own_splits, divide, divide_as_given
from tempograph.data.importers.import_summary import ImportSummary
from tempograph.data.importers.imported_rows import ImportedRows
from tempograph.data.importers.name_ids import describe_changed_names
from tempograph.data.importers.option_words import COMMAND_LINE, PYTHON, OptionWords
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.row_checks import Batch, Grid
from tempograph.data.importers.row_chunks import SpillFolder
from tempograph.data.importers.sources import find_files
from tempograph.data.importers.time_grid import Placed, TimeGrid
from tempograph.data.importers.time_parsing import Integers
from tempograph.data.spans import kinds_of_spans, simplify, steps_with_facts
from tempograph.errors import ConfigError, DataError
from tempograph.typing import SPLITS, FileFormat, Progress


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
        return summarize(self).account()

    def notes(self, guessed: bool) -> list[str]:
        """Notes for the user: a guessed format, skipped rows, times that look like a typo."""
        return summarize(self).notes(guessed)


@dataclass(frozen=True, eq=False)
class ReadRows:
    """The valid rows of an import as ids, and what is known of them and of the others."""

    rows: ImportedRows
    grid: Grid
    skips: SkipCounter
    options: ImportOptions
    """With the format that was found."""
    shown: str
    """How messages name the inputs."""
    words: OptionWords
    remarks: Sequence[str]

    def place(self, when: Integers) -> Placed:
        """When facts are, in steps from the first, and the labels of all steps.   when [n, k]."""
        try:
            return self.grid.place(when)
        except DataError as error:
            raise DataError(f"{self.shown}: {error}") from None

    def refuse_no_train(self, train: int) -> None:
        """Refuse splits of the data's own without train facts."""
        if not train:
            raise DataError(
                f"{self.shown}: no fact is in train only, so there is nothing to learn from"
            )

    def all_remarks(self, on_splits: Iterable[str]) -> tuple[str, ...]:
        """What was changed or decided while reading, and remarks on splits."""
        found = (
            *on_splits,
            *self.grid.remarks(),
            describe_changed_names(self.rows.entities, "entity", self.words),
            describe_changed_names(self.rows.relations, "relation", self.words),
        )
        return (*self.remarks, *filter(None, found))

    def found_options(self) -> ImportOptions:
        """The options with what was found."""
        return replace(self.options, day_first=self.grid.day_first)


def summarize(imported: ImportResult) -> ImportSummary:
    """The size of the dataset, and where every row went."""
    graph = imported.graph
    return ImportSummary(
        len(graph.entities),
        len(graph.relations),
        graph.times,
        steps_with_facts(graph.all_facts, len(graph.times)),
        {split: len(graph.facts(split)) for split in SPLITS},
        imported.format,
        imported.rows,
        imported.duplicates,
        imported.skipped,
        imported.remarks,
        imported.overlaps,
        imported.options,
        kinds_of_spans(graph.all_facts) if graph.has_intervals else {},
    )


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
    return build_graph(read_rows(inputs, options, progress), name)


def read_rows(
    inputs: Sequence[FactInput],
    options: ImportOptions,
    progress: Progress | None = None,
    spill: SpillFolder | None = None,
) -> ReadRows:
    """Read the rows of all inputs; with a spill folder, many rows are kept on disk."""
    if not inputs:
        raise DataError("there is no file to import; name at least one")
    if any(each.split for each in inputs):
        options.refuse_split_settings("the files or tables they are in")
    if options.format is None:
        options = replace(options, format=_find_format(inputs[0], options))
    words = COMMAND_LINE if all(isinstance(each.content, Path) for each in inputs) else PYTHON
    # Facts that hold for a while are placed on the time axis together, in memory.
    spill = None if options.has_intervals else spill
    skips, remarks, rows = SkipCounter(), list[str](), ImportedRows(options.keep_names, spill)
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
    _refuse_bad_rows(shown, rows.chunks.count, skips, options, words)
    return ReadRows(rows, grid, skips, options, shown, words, remarks)


def build_graph(read: ReadRows, name: str) -> ImportResult:
    """The dataset of rows that are all in memory."""
    facts, rows, options = read.rows.facts(), read.rows, read.options
    placed = read.place(facts[:, 3:])
    facts = simplify(np.column_stack([facts[:, :3], placed.rows]))
    splits = rows.splits()
    overlap = None
    if splits is None:
        division = divide(sort_by_time(facts), options)
    else:
        division, overlap = divide_as_given(facts, splits)
        read.refuse_no_train(len(division[0]))
    graph = TemporalGraph(
        name, tuple(rows.entities.ids), tuple(rows.relations.ids), placed.labels, *division
    )
    sizes = {split: len(graph.facts(split)) for split in SPLITS}
    own = describe_own_splits(sizes, overlap, graph.describe) if overlap else ()
    return ImportResult(
        graph,
        options.format or "table",
        rows=len(facts) + read.skips.count(),
        duplicates=len(facts) - len(graph.all_facts),
        skipped=read.skips.rows(),
        remarks=read.all_remarks(own),
        overlaps=len(overlap.facts) if overlap else None,
        options=read.found_options(),
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
