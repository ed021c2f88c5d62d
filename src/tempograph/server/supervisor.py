"""The parent of all workers: it holds the socket, replaces what has ended, reloads and stops."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any, Final

from tempograph.errors import ConfigError
from tempograph.server.event_log import EventLog
from tempograph.server.forking import SignalPipe, fork
from tempograph.server.process_messages import Channel, Message, connected_channels
from tempograph.server.service_settings import ServiceSettings
from tempograph.server.worker_pool import WorkerPool
from tempograph.server.worker_process import SharedListener

_KILL_SECONDS: Final = 5.0
"""Seconds after the time for open requests until processes that are left are killed."""
_RETRY_SECONDS: Final = 5.0
"""Seconds until runs are loaded again that could not be loaded."""


@dataclass(eq=False)
class _Pool:
    """A process that loads the runs, and its workers, as the supervisor sees them."""

    process: int
    channel: Channel
    workers: dict[int, Channel]
    """The channels of workers that may be alive."""
    first_identity: int
    alive: bool = True
    """Whether it can replace a worker."""
    processes: dict[int, int] = field(default_factory=dict)
    """The process of each worker that has been ready."""
    undrained: set[int] = field(default_factory=set)
    """Workers that were told to leave new connections to others, and have not said that they do."""

    def close(self) -> None:
        """Close the channels of this process."""
        for channel in (self.channel, *self.workers.values()):
            channel.close()

    def kill(self, number: int) -> None:
        """Send a signal to all of its processes."""
        processes = [self.process] if self.alive else []
        for process in (*processes, *(self.processes.get(each, 0) for each in self.workers)):
            if process:
                with suppress(ProcessLookupError):
                    os.kill(process, number)


_Asking = Callable[[Message], None]
"""What to do with the outcome of a reload."""


class Supervisor:
    """Starts a pool of workers, and for a reload another pool, which takes over."""

    def __init__(
        self, settings: ServiceSettings, workers: int, listener: socket.socket, log: EventLog
    ) -> None:
        self._settings = settings
        self._count = workers
        self._listener = SharedListener.take(listener)
        self._log = log
        self._pools: list[_Pool] = []
        """All pools with a living process, oldest first."""
        self._current: _Pool | None = None
        """The pool that accepts connections."""
        self._starting: _Pool | None = None
        """The pool that will accept them, once all of its workers are ready."""
        self._asking: list[_Asking] = []
        self._asking_next: list[_Asking] = []
        """Who asked for a reload during another one, which may have read older files."""
        self._retry = float("inf")
        self._deadline = float("inf")
        self._stopping = False

    def run(self, ready: Mapping[str, Any]) -> None:
        """Answer until a signal; the event `ready` is logged when all workers are."""
        # The system forgets children that end.
        previous = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signals = SignalPipe((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        self._ready = {**ready, "workers": self._count}
        with tempfile.TemporaryDirectory(prefix="tempograph-") as folder:
            self._folder = Path(folder)
            try:
                self._start_pool()
                while self._pools:
                    self._wait(signals)
            finally:
                for pool in self._pools:
                    pool.kill(signal.SIGKILL)
                    pool.close()
                self._listener.close()
                signals.close()
                signal.signal(signal.SIGCHLD, previous)
        self._log({"event": "stopped"})

    def _wait(self, signals: SignalPipe) -> None:
        """Wait for the next event and act on it."""
        channels = {
            channel: (pool, number)
            for pool in self._pools
            for number, channel in [(-1, pool.channel), *pool.workers.items()]
            if number >= 0 or pool.alive
        }
        until = min(self._retry, self._deadline)
        timeout = None if until == float("inf") else max(0.0, until - time.monotonic())
        wait_on: list[SignalPipe | Channel] = [signals, *channels]
        for source in select(wait_on, [], [], timeout)[0]:
            if isinstance(source, SignalPipe):
                self._handle_signals(source.receive())
            else:
                self._receive(*channels[source], source)
        self._pools = [pool for pool in self._pools if pool.alive or pool.workers]
        if time.monotonic() >= self._deadline:
            self._deadline = float("inf")
            for pool in self._pools:
                pool.kill(signal.SIGKILL)
        if time.monotonic() >= self._retry:
            self._reload(lambda outcome: None)

    def _handle_signals(self, numbers: set[int]) -> None:
        if signal.SIGHUP in numbers:
            self._reload(self._log_reload)
        if numbers & {signal.SIGTERM, signal.SIGINT}:
            seconds = 0.0 if self._stopping else self._settings.shutdown_seconds + _KILL_SECONDS
            self._deadline, self._stopping = time.monotonic() + seconds, True
            self._listener.close()
            for pool in self._pools:
                self._end(pool, Message("stop"))

    def _end(self, pool: _Pool, message: Message) -> None:
        """Let a pool start no more workers, and tell its workers how to end."""
        if pool.alive:
            with suppress(ProcessLookupError):
                os.kill(pool.process, signal.SIGTERM)
        for channel in pool.workers.values():
            channel.send(message)

    def _receive(self, pool: _Pool, number: int, channel: Channel) -> None:
        messages = channel.receive()
        if messages is None:
            channel.close()
            if number >= 0:
                del pool.workers[number]
                self._forget(pool, number)
            else:
                pool.alive = False
                self._replace(pool)
        for message in messages or ():
            if message.kind == "failed":
                self._fail(pool, message.detail)
            elif message.kind == "died":
                self._forget(pool, message.number)
                if pool is self._current and not self._stopping:
                    event = {"event": "worker died", "worker": message.number}
                    self._log(event | {"process": message.detail})
            elif message.kind == "ready":
                self._welcome(pool, number, message.number)
            elif message.kind == "drained":
                pool.undrained.discard(number)
                self._finish_reload()
            elif message.kind == "reload":
                self._reload(_reply(channel, message.number))

    def _welcome(self, pool: _Pool, number: int, process: int) -> None:
        pool.processes[number] = process
        if pool is self._current:
            self._log({"event": "worker replaced", "worker": number, "process": process})
        if pool is self._starting and len(pool.processes) == self._count:
            old, self._current, self._starting = self._current, pool, None
            if old is None:
                self._log(self._ready)
            else:
                old.undrained = set(old.workers)
                self._end(old, Message("drain"))
            self._finish_reload()

    def _forget(self, pool: _Pool, number: int) -> None:
        """Take note that a worker has ended."""
        pool.processes.pop(number, None)
        pool.undrained.discard(number)
        self._finish_reload()

    def _replace(self, pool: _Pool) -> None:
        """Start another pool for one that has ended without being told to."""
        if pool is self._starting:
            self._fail(pool, "the process that loads the runs has ended; is there enough memory?")
        elif pool is self._current and not self._stopping:
            self._log({"event": "pool died", "process": pool.process})
            if self._starting is None:
                self._reload(lambda outcome: None)

    def _reload(self, asking: _Asking) -> None:
        """Start a pool that takes over; `asking` is called with the outcome."""
        if self._stopping:
            return
        if self._starting is None and not any(pool.undrained for pool in self._pools):
            self._asking.append(asking)
            self._start_pool()
        else:
            self._asking_next.append(asking)

    def _start_pool(self) -> None:
        self._retry = float("inf")
        used = {pool.first_identity for pool in self._pools}
        free = (self._count * each for each in range(len(used) + 1))
        first_identity = next(each for each in free if each not in used)
        pairs = [connected_channels() for _ in range(1 + self._count)]
        (own, *workers), (theirs, *theirs_of_workers) = zip(*pairs, strict=True)
        pool = _Pool(0, own, dict(enumerate(workers)), first_identity)

        def be_pool() -> None:
            for each in (*self._pools, pool):
                each.close()
            WorkerPool(
                self._settings,
                self._listener,
                theirs,
                theirs_of_workers,
                self._folder,
                first_identity,
                self._current is not None,
                self._log,
            ).run()

        pool.process = fork(be_pool)
        for channel in (theirs, *theirs_of_workers):
            channel.close()
        self._pools.append(pool)
        self._starting = pool

    def _fail(self, pool: _Pool, reason: str) -> None:
        """Go on with the pool before, if there is one."""
        if pool is not self._starting:
            return
        if self._stopping:
            self._starting = None
            return
        if self._current is None:
            raise ConfigError(reason)
        self._starting = None
        if not self._current.alive:
            self._log({"event": "reload failed", "error": reason})
            self._retry = time.monotonic() + _RETRY_SECONDS
        self._answer(Message("not reloaded", detail=reason))

    def _finish_reload(self) -> None:
        """Once no old worker accepts connections, tell so those who asked."""
        drained = not any(pool.undrained for pool in self._pools)
        if self._current is not None and self._starting is None and drained:
            self._answer(Message("reloaded"))

    def _answer(self, outcome: Message) -> None:
        answered, self._asking = self._asking, []
        for asking in answered:
            asking(outcome)
        if self._asking_next and not self._stopping:
            self._asking, self._asking_next = self._asking_next, []
            self._start_pool()

    def _log_reload(self, outcome: Message) -> None:
        if outcome.kind == "reloaded":
            self._log({"event": "reloaded", "runs": list(self._settings.runs)})
        else:
            self._log({"event": "reload failed", "error": outcome.detail})


def _reply(channel: Channel, request: int) -> _Asking:
    """Send the outcome of a reload to the worker that asked for it."""
    return lambda outcome: channel.send(Message(outcome.kind, request, outcome.detail))
