"""Callbacks of a training run, and the time at which it must stop."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tempograph.errors import ConfigError
from tempograph.progress import Work, show_work
from tempograph.training.distributed import Processes
from tempograph.typing import MetricsCallback, Progress, ProgressOption


class TrainingBar:
    """Shows the last epoch, the time left, and how far a ranking or an import is."""

    def __init__(self, work: Work, on_metrics: MetricsCallback | None = None) -> None:
        self._work, self._on_metrics, self._epoch = work, on_metrics, ""

    def report(self, line: dict[str, Any]) -> None:
        """Pass on a line of metrics.jsonl and show what is in it."""
        if self._on_metrics is not None:
            self._on_metrics(line)
        parts = [line["part"]] if "part" in line else []
        parts += [f"{name} {line[name]:g}" for name in ("epoch", "sigma", "steps") if name in line]
        parts += [f"valid MRR {line['valid/mrr']:.3f}"] if "valid/mrr" in line else []
        self._work.detail = self._epoch = ", ".join(parts)
        if "left" in line:
            self._work.update_left(line["left"])
        else:
            self._work.redraw()

    def rank(self, done: int, total: int) -> None:
        """Show how much of a ranking is done."""
        self._show_step("ranking", done, total)

    def read(self, done: int, total: int) -> None:
        """Show how much of the data is read."""
        self._show_step("importing", done, total)

    def stage(self, name: str) -> Progress:
        """Begin a stage of the work; returns a function that shows how much of it is done."""
        self._epoch = ""
        self._show_step(name, 0, 1)
        return partial(self._show_step, name)

    def _show_step(self, name: str, done: int, total: int) -> None:
        step = f"{name} {done / total:.0%}" if done < total else ""
        self._work.detail = ", ".join(filter(None, (self._epoch, step)))
        self._work.redraw()


@dataclass(frozen=True)
class Callbacks:
    """Functions called during training; `deadline` is by the clock of time.perf_counter."""

    on_metrics: MetricsCallback | None
    progress: Progress | None
    tensorboard: bool = False
    deadline: float | None = None

    @staticmethod
    @contextmanager
    def open(
        description: str,
        on_metrics: MetricsCallback | None,
        progress: ProgressOption,
        tensorboard: bool,
        max_seconds: float | None,
    ) -> Iterator[Callbacks]:
        """The callbacks of this process, with a bar if one is wanted and can be shown.

        Of several processes, only the main one reports.
        """
        deadline = None if max_seconds is None else time.perf_counter() + max_seconds
        if not Processes.from_environment().is_main:
            yield Callbacks(None, None, deadline=deadline)
            return
        with show_work(description, wanted=progress is True) as work:
            if work is not None:
                bar = TrainingBar(work, on_metrics)
                yield Callbacks(bar.report, bar.rank, tensorboard, deadline)
            else:
                own = None if isinstance(progress, bool) else progress
                yield Callbacks(on_metrics, own, tensorboard, deadline)

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
