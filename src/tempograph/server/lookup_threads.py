"""Threads for short work that would hold up the event loop: names, facts, large bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from tempograph.server.problems import overloaded

Result = TypeVar("Result")
_THREADS: Final = 2
"""Few, because they share the interpreter with the event loop."""


class LookupThreads:
    """A few threads, with at most `max_waiting` calls at once."""

    def __init__(self, max_waiting: int) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lookup")
        self._max_waiting = max_waiting
        self._waiting = 0

    async def run(self, function: Callable[[], Result]) -> Result:
        """The result of a function, computed on one of the threads."""
        if self._waiting >= self._max_waiting:
            raise overloaded()
        self._waiting += 1
        call = asyncio.get_running_loop().run_in_executor(self._threads, function)
        call.add_done_callback(self._done)
        return await call

    def stop(self) -> None:
        """Refuse further calls."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _done(self, _: asyncio.Future[Result]) -> None:
        self._waiting -= 1
