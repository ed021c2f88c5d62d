"""Sort rows of integers that do not fit in memory, without repeated ones.

A row is packed into one word of 64 bits, or into several if its columns need more, so that rows
have the order of their words. Chunks of rows are sorted one by one. Then all chunks are cut at the
same words, and what lies between two cuts is sorted together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tempograph.data.importers.row_chunks import Integers, SpillFolder

Words = NDArray[np.uint64]

BLOCK_ROWS: Final = 1 << 21
"""About how many rows are sorted together."""
_SAMPLES: Final = 64
"""How many words of each sorted chunk, for each block, tell where to cut."""


class Packing:
    """How rows become words of 64 bits; `sizes` bounds each column, the most significant first."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._groups: list[list[int]] = []
        room = 0
        for column, size in enumerate(sizes):
            room //= size
            if not room:
                self._groups.append([])
                room = 2**64 // size
            self._groups[-1].append(column)

    def pack(self, columns: Integers) -> Words:
        """The words of rows.   columns [columns, rows] -> [words, rows]."""
        words = np.zeros((len(self._groups), columns.shape[1]), np.uint64)
        for word, group in zip(words, self._groups, strict=True):
            for column in group:
                word *= np.uint64(self._sizes[column])
                word += columns[column].astype(np.uint64)
        return words

    def unpack(self, words: Words) -> Integers:
        """The rows of words.   words [words, rows] -> [columns, rows]."""
        columns = np.empty((len(self._sizes), words.shape[1]), np.int64)
        for word, group in zip(words, self._groups, strict=True):
            rest = word
            for column in reversed(group[1:]):
                rest, columns[column] = np.divmod(rest, np.uint64(self._sizes[column]))
            columns[group[0]] = rest
        return columns


class SortedRows:
    """Distinct rows of some chunks in sorted order, on disk.

    `chunks` are [columns, rows], with `sizes` as the bounds of the columns.
    """

    def __init__(
        self,
        chunks: Iterable[Integers],
        sizes: Sequence[int],
        spill: SpillFolder,
        block_rows: int | None = None,
    ) -> None:
        self._packing = Packing(sizes)
        self._block_rows = BLOCK_ROWS if block_rows is None else block_rows
        runs, samples, count = [], [np.empty(0, np.uint64)], 0
        for columns in chunks:
            words = _sort_distinct(self._packing.pack(columns))
            runs.append(spill.save(words))
            samples.append(words[0, :: max(1, self._block_rows // _SAMPLES)])
            count += words.shape[1]
        self.count = 0
        """The number of distinct rows."""
        self._blocks = []
        merged = _merge(runs, _cuts(np.sort(np.concatenate(samples)), count, self._block_rows))
        for words in merged:
            self._blocks.append(spill.save(words))
            self.count += words.shape[1]
        for run in runs:
            run.unlink()

    def read(self) -> Iterator[Integers]:
        """The rows in blocks [columns, rows]."""
        for block in self._blocks:
            yield self._packing.unpack(np.load(block))


def _cuts(samples: Words, count: int, block_rows: int) -> Words:
    """Words that cut all rows into blocks, given equally spaced words of each sorted chunk."""
    blocks = max(1, round(count / block_rows))
    return np.unique(samples[len(samples) * np.arange(1, blocks) // blocks])


def _merge(runs: Sequence[Path], cuts: Words) -> Iterator[Words]:
    """The distinct words of sorted runs in files, block by block."""
    positions = []
    for run in runs:
        first = _open(run)[0]
        positions.append([0, *np.searchsorted(first, cuts).tolist(), len(first)])
    for block in range(len(cuts) + 1):
        parts = [
            # Opened anew for each block: pages that were read count as memory while it is mapped.
            _open(run)[:, each[block] : each[block + 1]]
            for run, each in zip(runs, positions, strict=True)
        ]
        if parts:
            yield _sort_distinct(np.concatenate(parts, axis=1))


def _open(path: Path) -> Words:
    words: Words = np.load(path, mmap_mode="r")
    return words


def _sort_distinct(words: Words) -> Words:
    """The distinct words in sorted order.   words [words, rows]."""
    words = np.sort(words) if len(words) == 1 else words[:, np.lexsort(words[::-1])]
    first = np.ones(words.shape[1], bool)
    first[1:] = (words[:, 1:] != words[:, :-1]).any(axis=0)
    return words[:, first]
