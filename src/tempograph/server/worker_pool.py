"""The process that loads the runs and starts the workers, which share its memory.

It has no threads of its own when it starts a worker, so a worker that has ended is replaced at
once, without loading anything.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from select import select
from typing import Final

import torch

from tempograph.errors import TempographError
from tempograph.server.event_log import EventLog
from tempograph.server.forking import SignalPipe, fork
from tempograph.server.process_messages import Channel, Message
from tempograph.server.service import Service, settle_memory
from tempograph.server.service_settings import ServiceSettings
from tempograph.server.worker_board import WorkerBoard
from tempograph.server.worker_metrics import WorkerMetrics, forget_gauges
from tempograph.server.worker_process import Worker

_MIN_LIFE: Final = 1.0
"""Seconds between two starts of a worker, so that one that fails at once does not use a core."""


class WorkerPool:
    """A worker for each channel in `workers`, all of them with the same runs.

    `supervisor` is the channel of this process. The workers count in files of the folder `metrics`,
    named by numbers from `first_identity` on. `again` says that the runs are loaded again.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        listener: socket.socket,
        supervisor: Channel,
        workers: Sequence[Channel],
        metrics: Path,
        first_identity: int,
        again: bool,
        log: EventLog,
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._supervisor = supervisor
        self._workers = workers
        self._board = WorkerBoard(len(workers))
        self._folder = metrics
        self._again = again
        self._identities = [str(first_identity + number) for number in range(len(workers))]
        self._log = log
        self._threads = max(1, torch.get_num_threads() // len(workers))
        self._running: dict[int, int] = {}
        """The worker of each process."""
        self._start_times = [-_MIN_LIFE] * len(workers)
        self._ending = False

    def run(self) -> None:
        """Load the runs, then keep the workers alive until the supervisor ends this."""
        # Ctrl-C is for the supervisor, which lets requests finish.
        os.setpgid(0, 0)
        metrics = WorkerMetrics(self._folder, f"pool{self._identities[0]}", self._board)
        try:
            # The threads of matrix products end with this thread. If they belonged to the main
            # thread, the workers would wait for threads that they do not have.
            with ThreadPoolExecutor(1) as thread:
                service = thread.submit(self._load, metrics).result()
        except TempographError as error:
            self._supervisor.send(Message("failed", detail=str(error)))
            return
        settle_memory()
        signals = SignalPipe((signal.SIGTERM, signal.SIGCHLD))
        while self._running or not self._ending:
            self._start_missing(service, metrics)
            wait_on: list[SignalPipe | Channel] = [signals]
            if not self._ending:
                wait_on.append(self._supervisor)
            select(wait_on, [], [], self._seconds_to_start())
            told_to_end = signal.SIGTERM in signals.receive()
            if told_to_end or (not self._ending and self._supervisor.receive() is None):
                self._ending = True
                self._listener.close()
            self._reap(metrics)

    def _load(self, metrics: WorkerMetrics) -> Service:
        service = Service(self._settings.load(), self._settings.limits, metrics)
        for name, run in service.runs.items():
            run.warm_up(completely=True)
            if self._again:
                metrics.reloads.labels(name).inc()
        return service

    def _start_missing(self, service: Service, metrics: WorkerMetrics) -> None:
        for number in set(range(len(self._workers))) - set(self._running.values()):
            if self._ending or self._start_times[number] + _MIN_LIFE > time.monotonic():
                continue
            self._start_times[number] = time.monotonic()
            forget_gauges(self._folder, self._identities[number])
            process = fork(partial(self._serve, service, metrics, number))
            self._running[process] = number

    def _seconds_to_start(self) -> float | None:
        missing = set(range(len(self._workers))) - set(self._running.values())
        if self._ending or not missing:
            return None
        starts = min(self._start_times[number] for number in missing) + _MIN_LIFE
        return max(0.0, starts - time.monotonic())

    def _reap(self, metrics: WorkerMetrics) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                number = self._running.pop(ended[0])
                self._board.set(number, 0)
                code = os.waitstatus_to_exitcode(ended[1])
                if not self._ending:
                    metrics.worker_restarts.inc()
                self._supervisor.send(Message("died", number, f"{ended[0]} with code {code}"))

    def _serve(self, service: Service, metrics: WorkerMetrics, number: int) -> None:
        """Be a worker."""
        self._supervisor.close()
        for other, channel in enumerate(self._workers):
            if other != number:
                channel.close()
        metrics.identity = self._identities[number]
        torch.set_num_threads(self._threads)
        channel, settings = self._workers[number], self._settings
        worker = Worker(number, channel, service, settings, self._board, self._log)
        worker.run(self._listener)
