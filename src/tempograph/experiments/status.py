"""Where the runs of a comparison stand, and how long the rest may take."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["waiting", "running", "finished", "unfinished", "failed"]


@dataclass
class Standing:
    """One run: its state, the last that it told, when it was started, and how long it took."""

    name: str
    model: str
    state: State = "waiting"
    told: dict[str, Any] = field(default_factory=dict)
    began: float = 0.0
    heard: float = 0.0
    seconds: float | None = None
    reason: str | None = None

    def left(self, now: float) -> float | None:
        """At most so many seconds more, as far as a running one has said; what is left of a part is not all."""
        whole = "left" in self.told and "part" not in self.told
        return max(0.0, self.told["left"] - (now - self.heard)) if whole else None


Watch = Callable[[Sequence[Standing], Standing], None]
"""Shown all runs whenever one has changed."""


def seconds_left(
    runs: Sequence[Standing], at_once: int, now: float, most: float | None = None
) -> float | None:
    """About how long it takes until the last run has ended; None as long as nothing is known of any.

    A run takes as long as others of its model did or are about to, or else as long as any other; and never longer than
    `most` seconds.
    """
    taken: dict[str, list[float]] = {}
    for run in runs:
        if run.state == "running" and (left := run.left(now)) is not None:
            taken.setdefault(run.model, []).append(now - run.began + left)
        elif run.seconds is not None:
            taken.setdefault(run.model, []).append(run.seconds)
    if not taken:
        return None
    typical = statistics.mean(statistics.mean(values) for values in taken.values())

    def left_of(run: Standing) -> float:
        elapsed, told = (now - run.began, run.left(now)) if run.state == "running" else (0.0, None)
        expected = (
            statistics.mean(taken.get(run.model, [typical])) if told is None else elapsed + told
        )
        return max(0.0, (expected if most is None else min(expected, most)) - elapsed)

    open_runs = [left_of(run) for run in runs if run.state in ("waiting", "running")]
    return max([*open_runs, sum(open_runs) / at_once]) if open_runs else 0.0
