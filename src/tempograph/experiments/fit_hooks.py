"""What is called while a fit works, and when it must stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tempograph.experiments.status import Notify
from tempograph.progress import show_progress
from tempograph.typing import MetricsCallback, Progress, ProgressOption

OnStage = Callable[[str], Progress]
"""Called with the name of a stage of the work; returns a function to call with (done, total)."""


@dataclass(frozen=True)
class FitHooks:
    """What is called while a fit works, and when it must stop, by time.perf_counter."""

    report: MetricsCallback | None = None
    progress: ProgressOption = True
    on_stage: OnStage | None = None
    deadline: float | None = None
    note: Notify | None = None

    @staticmethod
    def within(
        max_seconds: float | None,
        report: MetricsCallback | None,
        progress: ProgressOption,
        on_stage: OnStage | None,
        note: Notify | None = None,
    ) -> FitHooks:
        """Hooks of a fit that may take some seconds from now on."""
        deadline = None if max_seconds is None else time.perf_counter() + max_seconds
        return FitHooks(report, progress, on_stage, deadline, note)

    @contextmanager
    def stage(self, name: str) -> Iterator[Progress | None]:
        """The progress of a stage: the caller's own, or a bar."""
        if self.on_stage is not None:
            yield self.on_stage(name)
            return
        with show_progress(name, self.progress) as advance:
            yield advance

    @property
    def seconds_left(self) -> float | None:
        """How long the fit may still take; None without a limit."""
        return None if self.deadline is None else self.deadline - time.perf_counter()

    def notify(self, line: str) -> None:
        """Pass on a line for people, if anyone wants it."""
        if self.note is not None:
            self.note(line)

    @property
    def time_is_up(self) -> bool:
        """Whether the time is used up."""
        return self.deadline is not None and time.perf_counter() >= self.deadline
