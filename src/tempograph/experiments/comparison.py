"""What a comparison has come to: several models and seeds in one table, the published figures beside ours."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tempograph.experiments.published import Published
from tempograph.experiments.results import HITS, SPREAD, figure_cells, half_range, seeds_cells
from tempograph.experiments.status import State
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults
from tempograph.typing import Protocol

COLUMNS: Final = (
    *("model", "settings", "seeds", "MRR", "Hits@1", "Hits@3", "Hits@10"),
    *("published: MRR", "Hits@1", "Hits@3", "Hits@10", "parameters", "s/epoch", "training s"),
)


@dataclass(frozen=True)
class Outcome:
    """What has become of one run. `results` is None if it failed before it had any."""

    run: str
    seed: int
    state: State
    results: RunResults | None
    reason: str | None = None

    def summary(self) -> dict[str, Any]:
        """What differs from seed to seed, ready for JSON."""
        figures = {
            "valid": self.results.valid["metrics"] if self.results and self.results.valid else None,
            "test": self.results.test["metrics"] if self.results and self.results.test else None,
        }
        times = {
            name: getattr(self.results, name, None)
            for name in ("best_epoch", "epoch_seconds", "train_seconds")
        }
        return (
            {"run": self.run, "seed": self.seed, "state": self.state, "reason": self.reason}
            | figures
            | times
        )


@dataclass(frozen=True)
class Row:
    """One model: the runs of its seeds, where its settings come from, and what was published of it."""

    model: str
    settings: str
    published: Published
    runs: tuple[Outcome, ...]

    @property
    def tested(self) -> list[dict[str, float]]:
        """The test figures of each finished run; no other has seen test."""
        return [
            run.results.test["metrics"]
            for run in self.runs
            if run.state == "finished" and run.results and run.results.test
        ]

    def mean(self, name: str) -> float | None:
        """The mean of a figure of results.json over the runs that have it."""
        values = [getattr(run.results, name, None) for run in self.runs]
        found = [value for value in values if value is not None]
        return statistics.mean(found) if found else None

    def cells(self) -> list[str]:
        """The row as a table shows it, under COLUMNS."""
        tested, parameters, epoch, training = (
            self.tested,
            *map(self.mean, ("parameters", "epoch_seconds", "train_seconds")),
        )
        lacking = (
            "not finished" if any(run.state == "unfinished" for run in self.runs) else "failed"
        )
        return [
            self.model,
            self.settings,
            f"{len(tested)}"
            if len(tested) == len(self.runs)
            else f"{len(tested)}/{len(self.runs)}",
            *(seeds_cells(tested) if tested else [lacking, "-", "-", "-"]),
            *figure_cells(self.published),
            "-" if parameters is None else f"{parameters:,.0f}",
            "-" if epoch is None else f"{epoch:.2f}",
            "-" if training is None else f"{training:,.1f}",
        ]

    def summary(self) -> dict[str, Any]:
        """The row and its runs, ready for JSON; Hits are fractions of 1, also the published ones."""
        columns = {
            name: [metrics[name] for metrics in self.tested] for name in (self.tested or [{}])[0]
        }
        mrr, *hits = self.published
        theirs = (mrr, *(None if value is None else round(value / 100, 3) for value in hits))
        return {
            "model": self.model,
            "settings": self.settings,
            "seeds": [run.seed for run in self.runs if run.state == "finished"],
            "metrics": {name: statistics.mean(values) for name, values in columns.items()} or None,
            "spread": {name: half_range(values) for name, values in columns.items()} or None,
            "published": None
            if set(theirs) == {None}
            else dict(zip(("mrr", *HITS), theirs, strict=True)),
            "parameters": self.mean("parameters"),
            "epoch_seconds": self.mean("epoch_seconds"),
            "train_seconds": self.mean("train_seconds"),
            "runs": [run.summary() for run in self.runs],
        }


@dataclass(frozen=True)
class Comparison:
    """The models of a comparison on one dataset under one protocol, and the folder that holds their runs."""

    dataset: str
    protocol: Protocol
    folder: Path
    overrides: tuple[str, ...]
    jobs: int
    rows: tuple[Row, ...]

    @property
    def failed(self) -> list[Outcome]:
        """The runs that ended with an error."""
        return [run for row in self.rows for run in row.runs if run.state == "failed"]

    def caption(self) -> str:
        """What must stand beside the figures."""
        parts = [f"protocol {self.protocol}, filter time, Hits in per cent"]
        parts += [SPREAD] if "±" in str(self._cells()) else []
        parts += [f"with {' '.join(self.overrides)}"] if self.overrides else []
        parts += [f"times are of up to {self.jobs} runs at once"] if self.jobs > 1 else []
        return "; ".join(parts)

    def notes(self) -> list[str]:
        """What the table does not show: runs without figures, and why they have none."""
        told = {"unfinished": "not finished when its time was up; the same command goes on with it"}
        return [
            f"{run.run}: {told.get(run.state) or f'failed: {run.reason}'}"
            for row in self.rows
            for run in row.runs
            if run.state != "finished"
        ]

    def summary(self) -> dict[str, Any]:
        """What `compare --json` prints and compare.json holds."""
        head = {
            "dataset": self.dataset,
            "split": "test",
            "protocol": self.protocol,
            "filter": "time",
        }
        told = {"overrides": list(self.overrides), "jobs": self.jobs, "folder": str(self.folder)}
        return head | told | {"models": [row.summary() for row in self.rows]}

    def sheet(self) -> TextTable:
        """The table."""
        packed = (
            ("model", [0]),
            ("seeds", [2]),
            ("MRR", [3]),
            ("Hits@1, 3, 10", [4, 5, 6]),
            ("published", range(7, 11)),
        )
        return TextTable(
            f"Models on {self.dataset}, test",
            COLUMNS,
            self._cells(),
            2,
            f"{self.caption()}.",
            packed,
        )

    def markdown(self) -> str:
        """The table as a page, with what it does not show."""
        notes = "".join(f"- {note}\n" for note in self.notes())
        return self.sheet().page() + (f"\n{notes}" if notes else "")

    def _cells(self) -> list[list[str]]:
        return [row.cells() for row in self.rows]
