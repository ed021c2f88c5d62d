"""Notice that another process of a training died or hangs, and end with one line that says so."""

from __future__ import annotations

import itertools
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from shlex import quote
from typing import Any, Final

from torch import distributed

from tempograph.errors import ConfigError, ProcessLostError
from tempograph.training.distributed import Processes

_SECONDS: Final = 20.0
"""How long a process may give no sign of life; launchers kill what remains after 30 seconds."""
TIMEOUT: Final = "TEMPOGRAPH_PROCESS_TIMEOUT"
"""The environment variable that sets another number of seconds."""
_DONE: Final = 2**40
_watches = itertools.count()


@contextmanager
def watch_processes(processes: Processes, folder: Path | None) -> Iterator[None]:
    """End this process within seconds if another one dies or hangs during the block.

    A lost connection raises ProcessLostError. If this process waits for one that hangs, as it may
    for ever on GPUs, a thread prints the same line and ends it.
    """
    if processes.size == 1:
        yield
        return
    watch = _Watch(processes, folder)
    watch.start()
    try:
        yield
    except RuntimeError as error:
        # The errors of gloo have no class of their own.
        if not isinstance(error, distributed.DistError) and "gloo" not in str(error):
            raise
        raise ProcessLostError(_lost(processes, "another process is gone", folder)) from error
    watch.finish()


def _lost(processes: Processes, what: str, folder: Path | None) -> str:
    way_out = "start the training again"
    if folder is not None:
        way_out = f"continue from the last checkpoint with: tempograph resume {quote(str(folder))}"
    return f"process {processes.rank} of {processes.size}: {what}; {way_out}"


def _timeout() -> float:
    """How many seconds a process may give no sign of life."""
    text = os.environ.get(TIMEOUT)
    if text is None:
        return _SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise ConfigError(f"{TIMEOUT} must be a number of seconds above 0, found '{text}'")
    return seconds


class _Watch(threading.Thread):
    """Counts up a number in the store of the process group, and reads those of the others."""

    def __init__(self, processes: Processes, folder: Path | None) -> None:
        super().__init__(daemon=True)
        self._processes, self._folder = processes, folder
        self._seconds = _timeout()
        # A launcher that restarts processes keeps the store.
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._prefix = f"tempograph/alive/{restart}/{next(_watches)}"
        self._finished = threading.Event()

    def finish(self) -> None:
        """Tell the others that this process needs them no more."""
        self._finished.set()
        self.join()

    def run(self) -> None:
        own, others = self._processes.rank, set(range(self._processes.size))
        others.remove(own)
        counts, heard = dict.fromkeys(others, -1), dict.fromkeys(others, time.monotonic())
        answered = time.monotonic()
        while others:
            finished = self._finished.wait(self._seconds / 10)
            now = time.monotonic()
            # Without an answer, the process that keeps the store is gone, or done.
            with suppress(RuntimeError):
                store = self._connect()
                store.add(f"{self._prefix}/{own}", _DONE if finished else 1)
                if finished:
                    return
                for rank in list(others):
                    count = store.add(f"{self._prefix}/{rank}", 0)
                    if count >= _DONE:
                        others.remove(rank)
                    elif count != counts[rank]:
                        counts[rank], heard[rank] = count, now
                answered = now
            if finished:
                return
            silent = [rank for rank in others if now - heard[rank] > self._seconds]
            if silent or now - answered > self._seconds:
                self._end(f"process {silent[0]}" if silent else "the main process")

    def _connect(self) -> Any:
        if "_store" not in self.__dict__:
            self._store = distributed.TCPStore(  # type: ignore[attr-defined]
                os.environ["MASTER_ADDR"],
                int(os.environ["MASTER_PORT"]),
                is_master=False,
                wait_for_workers=False,
                timeout=timedelta(seconds=self._seconds),
            )
        return self._store

    def _end(self, who: str) -> None:
        """End this process at once: its main thread may be waiting where nothing reaches it."""
        what = f"{who} has given no sign of life for {self._seconds:.0f} s"
        print(f"error: {_lost(self._processes, what, self._folder)}", file=sys.stderr, flush=True)
        os._exit(2)
