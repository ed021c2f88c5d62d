"""Callbacks of a training run, and the time at which it must stop."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tempograph.errors import ConfigError
from tempograph.training.distributed import Processes
from tempograph.typing import MetricsCallback, Progress


@dataclass(frozen=True)
class Callbacks:
    """Functions called during training; `deadline` is by the clock of time.perf_counter."""

    on_metrics: MetricsCallback | None
    progress: Progress | None
    tensorboard: bool = False
    deadline: float | None = None

    @staticmethod
    def make(
        on_metrics: MetricsCallback | None,
        progress: Progress | None,
        tensorboard: bool,
        max_seconds: float | None,
    ) -> Callbacks:
        """The callbacks of this process: of several, only the main one reports."""
        deadline = None if max_seconds is None else time.perf_counter() + max_seconds
        if not Processes.from_environment().is_main:
            return Callbacks(None, None, deadline=deadline)
        return Callbacks(on_metrics, progress, tensorboard, deadline)

    @property
    def seconds_left(self) -> float | None:
        """How long training may still take; None without a limit."""
        return None if self.deadline is None else self.deadline - time.perf_counter()

    def report(self, line: dict[str, Any]) -> None:
        """Report a line of metrics.jsonl."""
        if self.on_metrics is not None:
            self.on_metrics(line)

    def for_part(self, part: str) -> Callbacks:
        """The same callbacks; each line names the part of the ensemble."""
        return dataclasses.replace(self, on_metrics=lambda line: self.report({"part": part} | line))

    def with_tensorboard(self, folder: Path | None) -> Callbacks:
        """The same callbacks; each line is also written as TensorBoard events, if asked for."""
        if not self.tensorboard:
            return self
        if folder is None:
            raise ConfigError("TensorBoard events are written to the run folder; set out")
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError(
                "this needs tensorboard; pip install '.[tensorboard]' in the repository brings it"
            ) from None
        writer = SummaryWriter(str(folder / "tensorboard"))

        def on_metrics(line: dict[str, Any]) -> None:
            for name, value in line.items():
                writer.add_scalar(name, value, int(line["epoch"]))
            writer.flush()
            self.report(line)

        return dataclasses.replace(self, on_metrics=on_metrics)
