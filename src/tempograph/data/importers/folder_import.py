"""Import facts into a dataset folder; with many rows, they are sorted and split on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tempograph.data.attributes import Attributes
from tempograph.data.folder import DATASET_MARKER, MAX_TSV_FACTS, format_facts, write_name_files
from tempograph.data.graph import COLUMNS, Facts
from tempograph.data.importers.fact_splits import (
    Overlap,
    chronological_cuts,
    describe_own_splits,
    merge_copies,
    random_splits,
)
from tempograph.data.importers.import_summary import ImportSummary
from tempograph.data.importers.importer import ReadRows
from tempograph.data.importers.row_chunks import SpillFolder
from tempograph.data.importers.sorted_rows import SortedRows
from tempograph.data.importers.time_grid import MAX_STEPS
from tempograph.data.importers.time_parsing import Integers
from tempograph.data.parquet_facts import ParquetFactWriter
from tempograph.io import atomic_folder
from tempograph.typing import SPLITS

_TIME: Final = COLUMNS.index("time")
_ORDER: Final = [3, 0, 1, 2]
"""Facts are sorted by time, subject, relation and object."""

SplitBlocks: TypeAlias = Iterator[tuple[Facts, NDArray[np.int8] | Integers]]
"""Distinct facts in sorted order, and the split of each, as an index of `SPLITS`."""


@dataclass
class _Overlaps:
    """Facts in several splits of the data's own, collected block by block."""

    parts: list[Overlap]

    def together(self) -> Overlap:
        """The facts of all blocks."""
        return Overlap(
            np.concatenate([part.facts for part in self.parts]),
            np.concatenate([part.first for part in self.parts]),
            np.concatenate([part.last for part in self.parts]),
        )


def write_spilled_rows(
    read: ReadRows,
    spill: SpillFolder,
    path: Path,
    overwrite: bool = False,
    attributes: Attributes | None = None,
    parquet: bool | None = None,
) -> ImportSummary:
    """Write rows that are on disk as a dataset folder, as `build_graph` and `write_folder` would.

    The rows leave the disk. Only blocks of them are in memory, and a number or two for each fact.
    """
    rows, options, count = read.rows, read.options, read.rows.chunks.count
    labels, first_step = _label_steps(read)
    entities, relations = tuple(rows.entities.ids), tuple(rows.relations.ids)
    sizes = [len(labels), len(entities), len(relations), len(entities)]
    chunks = (_in_order(chunk, first_step) for chunk in rows.chunks.drain())
    facts = SortedRows(chunks, [*sizes, len(SPLITS)] if rows.has_splits else sizes, spill)
    if parquet is None:
        parquet = facts.count > MAX_TSV_FACTS
    overlaps = _Overlaps([])
    used = np.zeros(len(labels), np.int64)
    if rows.has_splits:
        blocks = _as_given(facts, overlaps)
    elif options.split == "chronological":
        for block in facts.read():
            used += np.bincount(block[0], minlength=len(labels))
        blocks = _by_time(facts, chronological_cuts(np.cumsum(used)[used > 0], options))
        used[:] = 0
    else:
        blocks = _by_label(facts, random_splits(facts.count, options))
    split_sizes = dict.fromkeys(SPLITS, 0)
    with atomic_folder(path, DATASET_MARKER, overwrite) as folder:
        write_name_files(folder, (entities, relations, labels), attributes or {}, path)
        with ExitStack() as stack:
            writers = [_Writer(folder, split, parquet, stack) for split in SPLITS]
            for block, splits in blocks:
                used += np.bincount(block[:, _TIME], minlength=len(labels))
                for index, (split, writer) in enumerate(zip(SPLITS, writers, strict=True)):
                    part = block[splits == index]
                    writer.write(part)
                    split_sizes[split] += len(part)
        if rows.has_splits:
            read.refuse_no_train(split_sizes["train"])
    own: list[str] = []
    overlap = overlaps.together() if rows.has_splits else None
    if overlap:

        def describe(fact: Facts) -> dict[str, str]:
            names = (entities, relations, entities, labels)
            return {
                column: each[number]
                for column, each, number in zip(COLUMNS, names, fact, strict=True)
            }

        own = describe_own_splits(split_sizes, overlap, describe)
    return ImportSummary(
        len(entities),
        len(relations),
        labels,
        int(np.count_nonzero(used)),
        split_sizes,
        options.format or "table",
        count + read.skips.count(),
        count - sum(split_sizes.values()),
        read.skips.rows(),
        read.all_remarks(own),
        len(overlap.facts) if overlap else None,
        read.found_options(),
    )


class _Writer:
    """Writes the facts of a split block by block, as Parquet or as gzipped text."""

    def __init__(self, folder: Path, split: str, parquet: bool, stack: ExitStack) -> None:
        self._parquet: ParquetFactWriter | None = None
        if parquet:
            self._parquet = ParquetFactWriter(folder / f"{split}.parquet", len(COLUMNS))
            stack.callback(self._parquet.close)
        else:
            self._text = stack.enter_context((folder / f"{split}.tsv.gz").open("wb"))

    def write(self, facts: Facts) -> None:
        if self._parquet is not None:
            self._parquet.write(facts)
        else:
            # Gzipped files one after the other are a gzipped file.
            self._text.write(format_facts(facts, compress=True))


def _label_steps(read: ReadRows) -> tuple[tuple[str, ...], int]:
    """The labels of all steps from the first to the last, and the first as it was read."""
    steps = np.empty(0, np.int64)
    for chunk in read.rows.chunks.read():
        steps = np.union1d(steps, chunk[_TIME])
        if len(steps) > MAX_STEPS:
            # So many are refused: the ends say it, and a part of the rest says what they look like.
            steps = np.append(steps[:MAX_STEPS], steps[-1])
    return read.place(steps[:, None]).labels, int(steps[0])


def _in_order(chunk: Integers, first_step: int) -> Integers:
    """The columns of rows in the order that they are sorted by, with steps from 0."""
    chunk[_TIME] -= first_step
    return chunk[[*_ORDER, *range(len(COLUMNS), len(chunk))]]


def _to_facts(block: Integers) -> Facts:
    """Facts [n, 4] from their columns in sorted order."""
    return np.ascontiguousarray(block[np.argsort(_ORDER)].T)


def _by_label(rows: SortedRows, splits: NDArray[np.int8]) -> SplitBlocks:
    start = 0
    for block in rows.read():
        yield _to_facts(block), splits[start : start + block.shape[1]]
        start += block.shape[1]


def _by_time(rows: SortedRows, cuts: Integers) -> SplitBlocks:
    start = 0
    for block in rows.read():
        positions = start + np.arange(block.shape[1])
        yield _to_facts(block), np.searchsorted(cuts, positions, side="right")
        start += block.shape[1]


def _as_given(rows: SortedRows, overlaps: _Overlaps) -> SplitBlocks:
    """Each fact in the last of its splits, the column after its own."""
    width = len(COLUMNS)
    for block in _whole_groups(rows.read(), width):
        facts, first, last = merge_copies(_to_facts(block[:width]), block[width])
        shared = first != last
        overlaps.parts.append(Overlap(facts[shared], first[shared], last[shared]))
        yield facts, last


def _whole_groups(blocks: Iterator[Integers], width: int) -> Iterator[Integers]:
    """Blocks cut so that rows with the same first `width` columns are in one block."""
    held = np.empty((width + 1, 0), np.int64)
    for block in blocks:
        rows = np.concatenate([held, block], axis=1)
        same = (rows[:width] == rows[:width, -1:]).all(axis=0)
        start = int(np.argmax(same)) if len(same) else 0
        held = rows[:, start:]
        if start:
            yield rows[:, :start]
    yield held
