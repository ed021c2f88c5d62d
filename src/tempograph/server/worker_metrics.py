"""Metrics of several worker processes as those of one service.

Each worker counts in files of its own, which the others read and which outlive it. A worker that
takes the place of another goes on counting in the same files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, ProcessCollector, generate_latest, values
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from tempograph.server.metrics import Metrics
from tempograph.server.worker_board import WorkerBoard

_FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


class WorkerMetrics(Metrics):
    """Metrics of the process called `identity`, and of all others that use the folder."""

    def __init__(self, folder: Path, identity: str, board: WorkerBoard) -> None:
        self.identity = identity
        """Who counts; a process that was forked has another one."""
        os.environ[_FOLDER_VARIABLE] = str(folder)
        values.ValueClass = values.MultiProcessValue(lambda: self.identity)
        self._all = CollectorRegistry()
        MultiProcessCollector(self._all, str(folder))
        self._all.register(_WorkerProcesses(board))
        super().__init__()
        self.worker_restarts = Counter(
            "tempograph_worker_restarts_total",
            "How often a worker that had ended was replaced.",
            registry=self._registry,
        )

    def text(self) -> str:
        """The metrics of all processes as Prometheus reads them."""
        self.refresh()
        return generate_latest(self._all).decode()


def forget_gauges(folder: Path, identity: str) -> None:
    """Drop the gauges of a process that has ended."""
    mark_process_dead(identity, str(folder))


class _WorkerProcesses(Collector):
    """Memory, processor time and open files of each worker."""

    def __init__(self, board: WorkerBoard) -> None:
        self._board = board

    def collect(self) -> Iterable[Metric]:
        """The metrics of all worker processes, with the number of the worker as a label."""
        metrics: dict[str, Metric] = {}
        for worker, process in enumerate(self._board.processes):
            if not process:
                continue
            own = ProcessCollector(pid=partial(int, process), registry=None)
            for metric in own.collect():
                same = metrics.setdefault(
                    metric.name, Metric(metric.name, metric.documentation, metric.type)
                )
                for sample in metric.samples:
                    same.add_sample(sample.name, {"worker": str(worker)}, sample.value)
        return metrics.values()
