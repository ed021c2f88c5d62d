"""How far the runs of an experiment are, and how long the rest may take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tempograph.experiments.specs import RunSpec
from tempograph.training.run_folder import RUN_MARKER, read_results
from tempograph.training.run_results import RunResults
from tempograph.typing import Progress

State = Literal["waiting", "running", "finished", "unfinished", "failed"]


@dataclass
class RunStatus:
    """The progress of a run: its state, what it last reported, and its results once it has some."""

    spec: RunSpec
    state: State = "waiting"
    results: RunResults | None = None
    reason: str | None = None
    """Why it failed."""
    seconds: float | None = None
    """How long it took, once it has ended."""
    started_at: float = 0.0
    reported_at: float = 0.0
    part: str | None = None
    """The part of an ensemble that is trained now."""
    epoch: float | None = None
    valid_mrr: float | None = None
    max_seconds_left: float | None = None
    """When it last reported; of the part alone where there is one."""

    @property
    def name(self) -> str:
        """The name of the run folder."""
        return self.spec.folder.name

    def start(self) -> None:
        """Set the state to running."""
        self.state, self.started_at = "running", time.monotonic()

    def report(self, line: Mapping[str, Any]) -> None:
        """Take over what the training reported."""
        self.reported_at = time.monotonic()
        self.part, self.epoch = line.get("part"), line.get("epoch")
        self.valid_mrr, self.max_seconds_left = line.get("valid/mrr"), line.get("left")

    def end(self, reason: str | None = None) -> None:
        """Read the results; a reason says that the run failed."""
        self.seconds, self.reason = time.monotonic() - self.started_at, reason
        if (self.spec.folder / RUN_MARKER).is_file():
            self.results = read_results(self.spec.folder)
        finished = self.results is not None and self.results.finished
        self.state = "failed" if reason else "finished" if finished else "unfinished"

    def seconds_left(self, now: float) -> float | None:
        """Return the most seconds that the run still takes, if it has reported them."""
        if self.max_seconds_left is None or self.part is not None:
            return None
        return max(0.0, self.max_seconds_left - (now - self.reported_at))


Notify = Callable[[str], None]
"""Called with a line for people."""

Watch = Callable[[Sequence[RunStatus], RunStatus], None]
"""Called with all runs and the one that has changed."""


def count_ended(watch: Watch | None, progress: Progress | None) -> Watch | None:
    """Call `progress` with the number of runs that have ended and of all, and `watch` as before."""
    if progress is None:
        return watch

    def watch_and_count(runs: Sequence[RunStatus], changed: RunStatus) -> None:
        if watch is not None:
            watch(runs, changed)
        progress(sum(run.state not in ("waiting", "running") for run in runs), len(runs))

    return watch_and_count


def seconds_left(
    runs: Sequence[RunStatus], jobs: int, now: float, max_seconds: float | None = None
) -> float | None:
    """Estimate the seconds until the last run has ended; None while nothing is known of any.

    A run is expected to take as long as others of its model, or else as long as any other, and
    never longer than `max_seconds`.
    """
    durations: dict[str, list[float]] = {}
    for run in runs:
        if run.state == "running" and (left := run.seconds_left(now)) is not None:
            durations.setdefault(run.spec.model, []).append(now - run.started_at + left)
        elif run.seconds is not None:
            durations.setdefault(run.spec.model, []).append(run.seconds)
    if not durations:
        return None
    typical = statistics.mean(statistics.mean(values) for values in durations.values())

    def estimate(run: RunStatus) -> float:
        running = run.state == "running"
        elapsed, left = (now - run.started_at, run.seconds_left(now)) if running else (0.0, None)
        usual = statistics.mean(durations.get(run.spec.model, [typical]))
        expected = usual if left is None else elapsed + left
        return max(0.0, (expected if max_seconds is None else min(expected, max_seconds)) - elapsed)

    remaining = [estimate(run) for run in runs if run.state in ("waiting", "running")]
    return max([*remaining, sum(remaining) / jobs]) if remaining else 0.0
