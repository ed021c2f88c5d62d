"""What a replay of a period found: how good the forecast of each step was."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final, TypedDict

import pyarrow as pa

from tempograph.data.html_table import html_block, html_note, html_title
from tempograph.data.result_table import Tabular, html_rows
from tempograph.evaluation.metrics_html import html_metrics
from tempograph.evaluation.ranking import Metrics
from tempograph.evaluation.reliability import ReliabilityRow
from tempograph.typing import Filter, Protocol

_TYPES: Final = {
    "time": pa.string(),
    "facts": pa.int64(),
    "mrr": pa.float64(),
    "hits_1": pa.float64(),
    "hits_10": pa.float64(),
    "proposals": pa.int64(),
    "expected": pa.float64(),
    "happened": pa.int64(),
    "brier": pa.float64(),
}


@dataclass(frozen=True)
class BacktestStep:
    """How good the forecast of one step was."""

    time: str
    """Label of the time step."""
    facts: int
    """The facts of the step that were ranked."""
    mrr: float | None
    """The mean of 1 / rank of their objects and subjects; null if there are no facts."""
    hits_1: float | None
    """The share of objects and subjects that came first."""
    hits_10: float | None
    """The share of objects and subjects among the first ten."""
    proposals: int | None = None
    """Facts that were said to be possible; null if that was not asked."""
    expected: float | None = None
    """How many of them should happen, by their probabilities."""
    happened: int | None = None
    """How many of them did happen."""
    brier: float | None = None
    """The mean of (probability - outcome)^2 over the proposals."""


class BacktestSummary(TypedDict):
    """The JSON object that `backtest --json` prints."""

    dataset: str
    model: str
    protocol: Protocol
    filter: Filter
    first: str
    last: str
    facts: int
    metrics: Metrics | None
    proposals: int
    expected: float
    happened: int
    brier: float | None
    calibration_error: float | None
    reliability: list[ReliabilityRow]
    steps: list[dict[str, str | int | float | None]]
    notes: list[str]
    seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class Backtest(Tabular):
    """A replay of a period: each step was forecast from the facts before it."""

    dataset: str
    model: str
    steps: tuple[BacktestStep, ...]
    metrics: Metrics | None
    """Of the objects and subjects of all facts; null if there are none."""
    reliability: tuple[ReliabilityRow, ...]
    """How often proposals happened, in bins of their probability."""
    calibration_error: float | None
    """The expected calibration error of these probabilities; null if there are no proposals."""
    brier: float | None
    notes: tuple[str, ...]
    """What a reader should know about the figures."""
    seconds: float

    @property
    def facts(self) -> int:
        """How many facts were ranked."""
        return sum(step.facts for step in self.steps)

    @property
    def about(self) -> str:
        """Model, dataset and protocol, in a few words."""
        return f"{self.model} on {self.dataset}, protocol forecast-single, filter time"

    @property
    def title(self) -> str:
        """What was replayed, in a line."""
        first, last = self.steps[0].time, self.steps[-1].time
        return f"{self.model} on {self.dataset}, {first} to {last}: {self.facts:,} facts"

    def to_arrow(self) -> pa.Table:
        """One row per step: time, facts, mrr, hits_1, hits_10, and figures of the proposals.

        These are proposals, expected, happened and brier.
        """
        return pa.table(
            {
                name: pa.array([getattr(step, name) for step in self.steps], kind)
                for name, kind in _TYPES.items()
            }
        )

    def summary(self) -> BacktestSummary:
        """All figures."""
        return {
            "dataset": self.dataset,
            "model": self.model,
            "protocol": "forecast-single",
            "filter": "time",
            "first": self.steps[0].time,
            "last": self.steps[-1].time,
            "facts": self.facts,
            "metrics": self.metrics,
            "proposals": sum(step.proposals or 0 for step in self.steps),
            "expected": sum(step.expected or 0.0 for step in self.steps),
            "happened": sum(step.happened or 0 for step in self.steps),
            "brier": self.brier,
            "calibration_error": self.calibration_error,
            "reliability": list(self.reliability),
            "steps": [dataclasses.asdict(step) for step in self.steps],
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }

    def __repr__(self) -> str:
        mrr = "" if self.metrics is None else f", MRR {self.metrics['mrr']:.3f}"
        error = self.calibration_error
        shown = "" if error is None else f", calibration error {error:.3f}"
        return f"Backtest({self.title}{mrr}{shown})"

    def _repr_html_(self) -> str:
        """The figures of the whole period and of the first steps."""
        return html_block(
            html_title(self.title),
            "" if self.metrics is None else html_metrics("period", {"all steps": self.metrics}),
            html_rows(self.to_arrow()),
            *map(html_note, self.notes),
        )
