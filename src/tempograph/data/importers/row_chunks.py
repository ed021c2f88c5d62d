"""Rows of integers, collected chunk by chunk: in memory, or on disk if there are many."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tempograph.errors import StorageError

Integers = NDArray[np.int64]
Compact = NDArray[np.int32] | NDArray[np.int64]

ROWS_IN_MEMORY: Final = 5_000_000
"""More rows are kept on disk, if there is a folder for them."""


class SpillFolder:
    """A temporary folder beside a path, made when it is first needed and removed at the end."""

    def __init__(self, path: Path) -> None:
        self._beside = path
        self._folder: Path | None = None
        self._files = 0

    def __enter__(self) -> SpillFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def save(self, array: NDArray[Any]) -> Path:
        """The new file that an array is saved to."""
        try:
            if self._folder is None:
                parent = self._beside.absolute().parent
                parent.mkdir(parents=True, exist_ok=True)
                self._folder = Path(tempfile.mkdtemp(prefix=f".{self._beside.name}.", dir=parent))
            self._files += 1
            path = self._folder / f"{self._files}.npy"
            np.save(path, array)
        except OSError as error:
            raise StorageError(
                f"cannot write beside {self._beside}: {error.strerror or error}; "
                "nothing was changed"
            ) from None
        return path


class RowChunks:
    """Rows of integers in the order they were added, as 32-bit integers where these fit.

    With more than `rows_in_memory` rows, all are in files of a folder, if there is one.
    """

    def __init__(self, spill: SpillFolder | None = None, rows_in_memory: int | None = None) -> None:
        self.count = 0
        self._spill = spill
        self._limit = ROWS_IN_MEMORY if rows_in_memory is None else rows_in_memory
        self._chunks: list[Path] = []
        self._pending: list[Compact] = []
        self._rows_pending = 0

    @property
    def on_disk(self) -> bool:
        """Whether there are more rows than are kept in memory."""
        return self._spill is not None and self.count > self._limit

    def add(self, columns: Sequence[Integers]) -> None:
        """Add rows, given by column."""
        rows = np.stack(columns)
        small = rows.size == 0 or (
            rows.min() >= np.iinfo(np.int32).min and rows.max() <= np.iinfo(np.int32).max
        )
        self._pending.append(rows.astype(np.int32) if small else rows)
        self._rows_pending += rows.shape[1]
        self.count += rows.shape[1]
        if self._rows_pending > self._limit and self._spill is not None:
            self._chunks.append(self._spill.save(np.concatenate(self._pending, axis=1)))
            self._pending, self._rows_pending = [], 0

    def read(self) -> Iterator[Integers]:
        """All rows in chunks [columns, rows]."""
        for chunk in self._chunks:
            yield np.load(chunk).astype(np.int64)
        if self._pending:
            yield np.concatenate(self._pending, axis=1).astype(np.int64)

    def drain(self) -> Iterator[Integers]:
        """All rows in chunks [columns, rows]; each leaves the memory and the disk once it is read.

        Afterwards, there are no rows.
        """
        for chunk in self._chunks:
            rows = np.load(chunk).astype(np.int64)
            chunk.unlink()
            yield rows
        if self._pending:
            yield np.concatenate(self._pending, axis=1).astype(np.int64)
        self._chunks, self._pending, self._rows_pending, self.count = [], [], 0, 0
