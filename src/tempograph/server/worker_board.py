"""Memory in which the workers of a service see each other."""

from __future__ import annotations

import mmap
from typing import Final

_ITEM_BYTES: Final = 8


class WorkerBoard:
    """The process id of each worker that answers, 0 for one that does not, in shared memory."""

    def __init__(self, workers: int) -> None:
        self._memory = mmap.mmap(-1, _ITEM_BYTES * workers)
        self._processes = memoryview(self._memory).cast("q")

    def set(self, worker: int, process: int) -> None:
        """Say that a worker answers, or with 0, that it does not."""
        self._processes[worker] = process

    @property
    def processes(self) -> list[int]:
        """The process id of each worker."""
        return self._processes.tolist()
