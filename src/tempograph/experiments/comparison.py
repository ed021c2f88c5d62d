"""Compare models: train each with several seeds, and put the published figures beside ours."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tempograph.data.catalog import load_dataset
from tempograph.data.protocol import protocol_for, task_of
from tempograph.device import resolve_device
from tempograph.errors import ConfigError, DataError
from tempograph.evaluation.evaluations import BASELINES
from tempograph.evaluation.history import require_chronological
from tempograph.experiments.measured_rows import with_sources
from tempograph.experiments.published import Published, published
from tempograph.experiments.results import (
    HITS,
    SPREAD,
    Metrics,
    figure_cells,
    half_range,
    mean,
    metrics_of,
    narrow_figures,
    seeds_cells,
)
from tempograph.experiments.scheduler import train_missing
from tempograph.experiments.slurm import SlurmArray
from tempograph.experiments.specs import RunSpec, describe_settings, specs_per_model
from tempograph.experiments.status import Notify, RunStatus, Watch, count_ended
from tempograph.io import lock_folder, make_folder, write_json, write_text
from tempograph.models.registry import MODELS
from tempograph.progress import show_progress
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults
from tempograph.typing import HEAD_ASKED, HeadAsked, ProgressOption, Protocol, Task

COLUMNS: Final = (
    *("model", "settings", "seeds", "MRR", "Hits@1", "Hits@3", "Hits@10"),
    *("published: MRR", "Hits@1", "Hits@3", "Hits@10", "parameters", "s/epoch", "training s"),
)
_COSTS: Final = {"parameters": ",.0f", "epoch_seconds": ".2f", "train_seconds": ",.1f"}
"""Figures of results.json in the last columns, and their formats."""


@dataclass(frozen=True)
class ComparisonRow:
    """One model: the runs of its seeds, where its settings come from, and its published figures."""

    model: str
    settings: str
    published: Published
    runs: tuple[RunStatus, ...]

    @property
    def finished(self) -> list[RunResults]:
        """The results of the finished runs."""
        return [run.results for run in self.runs if run.results and run.state == "finished"]

    @property
    def test_metrics(self) -> list[Metrics]:
        """The test metrics of each finished run; no other is tested."""
        return metrics_of(self.finished, "test")

    @property
    def costs(self) -> dict[str, float | None]:
        """The mean parameters, seconds of an epoch and seconds of training."""
        return {
            name: mean(getattr(run.results, name, None) for run in self.runs) for name in _COSTS
        }

    def cells(self) -> list[str]:
        """Return the row of the table, under COLUMNS."""
        metrics, costs = self.test_metrics, self.costs.items()
        stopped = any(run.state == "unfinished" for run in self.runs)
        no_figures = ["not finished" if stopped else "failed", "-", "-", "-"]
        return [
            self.model,
            self.settings,
            "/".join(dict.fromkeys((str(len(metrics)), str(len(self.runs))))),
            *(seeds_cells(metrics) if metrics else no_figures),
            *figure_cells(self.published),
            *("-" if value is None else format(value, _COSTS[name]) for name, value in costs),
        ]

    def summary(self) -> dict[str, Any]:
        """Return the row and its runs as JSON; Hits are fractions of 1, the published ones too."""
        metrics = self.test_metrics
        columns = {name: [one[name] for one in metrics] for name in (metrics or [{}])[0]}
        mrr, *hits = self.published
        theirs = (mrr, *(None if value is None else round(value / 100, 3) for value in hits))
        published = dict(zip(("mrr", *HITS), theirs, strict=True))
        return {
            "model": self.model,
            "settings": self.settings,
            "seeds": [run.spec.seed for run in self.runs if run.state == "finished"],
            "metrics": {name: statistics.mean(values) for name, values in columns.items()} or None,
            "spread": {name: half_range(values) for name, values in columns.items()} or None,
            "published": None if set(theirs) == {None} else published,
            **self.costs,
            "runs": [_run_summary(run) for run in self.runs],
        }


def _run_summary(run: RunStatus) -> dict[str, Any]:
    """Return what differs from seed to seed, as JSON."""
    evaluations = run.results.evaluations if run.results else {}
    metrics = {split: evaluation["metrics"] for split, evaluation in evaluations.items()}
    head = {"run": run.name, "seed": run.spec.seed, "state": run.state, "reason": run.reason}
    others = ("best_epoch", "epoch_seconds", "train_seconds", "commit", "dirty", "code")
    return (
        head
        | {"valid": metrics.get("valid"), "test": metrics.get("test")}
        | {name: getattr(run.results, name, None) for name in others}
    )


@dataclass(frozen=True)
class Comparison:
    """The models of a comparison on one dataset under one protocol, and the folder of its runs."""

    dataset: str
    protocol: Protocol
    folder: Path
    overrides: tuple[str, ...]
    jobs: int
    rows: tuple[ComparisonRow, ...]

    @property
    def failed(self) -> list[RunStatus]:
        """The runs that ended with an error."""
        return [run for row in self.rows for run in row.runs if run.state == "failed"]

    def caption(self) -> str:
        """Return what a reader must know about the figures."""
        parts = [f"protocol {self.protocol}, filter time, Hits in percent"]
        parts += [SPREAD] if any(len(row.test_metrics) > 1 for row in self.rows) else []
        parts += [f"with {' '.join(self.overrides)}"] if self.overrides else []
        parts += (
            [f"times were measured with up to {self.jobs} runs in parallel"]
            if self.jobs > 1
            else []
        )
        return "; ".join(parts)

    def notes(self) -> list[str]:
        """Return how relations and times are ranked, and why some runs have no figures."""
        stopped = "stopped by the time limit; the same command resumes it"
        questions = [
            f"{asked.capitalize()} questions, which every model leaves to the same heads: "
            f"MRR {mrr['mrr']:.3f}; {BASELINES[asked]} {mrr['baseline']:.3f}."
            for asked, mrr in self.question_mrr().items()
        ]
        return questions + [
            f"{run.name}: "
            + (f"failed: {run.reason}" if run.state == "failed" else run.reason or stopped)
            for row in self.rows
            for run in row.runs
            if run.state != "finished"
        ]

    def question_mrr(self) -> dict[HeadAsked, dict[str, float]]:
        """Return the mean test MRR of relations and times over seeds, and that of the baseline."""
        found = {}
        for asked in HEAD_ASKED:
            # Runs of one seed share the heads.
            by_seed = {
                run.seed: run.questions(asked)["test"]
                for row in self.rows
                for run in row.finished
                if "test" in run.questions(asked)
            }
            if by_seed:
                found[asked] = {
                    "mrr": statistics.mean(one["metrics"]["mrr"] for one in by_seed.values()),
                    "baseline": statistics.mean(one["baseline"]["mrr"] for one in by_seed.values()),
                }
        return found

    def summary(self) -> dict[str, Any]:
        """Return what `compare --json` prints and compare.json holds."""
        return {
            "dataset": self.dataset,
            "split": "test",
            "protocol": self.protocol,
            "filter": "time",
            "overrides": list(self.overrides),
            "jobs": self.jobs,
            "folder": str(self.folder),
            "models": [row.summary() for row in self.rows],
            "questions": self.question_mrr(),
        }

    def text_table(self) -> TextTable:
        """Return the table."""
        rows, title = [row.cells() for row in self.rows], f"Models on {self.dataset}, test"
        narrow = (("model", [0]), ("seeds", [2]), *narrow_figures(3))
        table = TextTable(title, COLUMNS, rows, 2, f"{self.caption()}.", narrow)
        return with_sources(
            table, [[row.finished] for row in self.rows], [row.model for row in self.rows]
        )

    def _repr_html_(self) -> str:
        """Return the table for a notebook, with the notes below it."""
        table = self.text_table()
        return replace(table, notes=[*table.notes, *self.notes()])._repr_html_()

    def markdown(self) -> str:
        """Return the table as a page, with the notes below it."""
        notes = "".join(f"- {note}\n" for note in self.notes())
        return self.text_table().markdown_page() + (f"\n{notes}" if notes else "")


def compare(
    dataset: str | Path,
    models: Iterable[str] | None = None,
    *,
    out: str | Path,
    seeds: Iterable[int] = (0,),
    task: Task | None = None,
    protocol: Protocol | None = None,
    preset: str | None = None,
    overrides: Iterable[str] = (),
    device: str = "auto",
    jobs: int = 1,
    max_seconds: float | None = None,
    slurm: SlurmArray | None = None,
    note: Notify | None = None,
    watch: Watch | None = None,
    progress: ProgressOption = True,
) -> Comparison:
    """Train models, by default all, once for each seed, and compare them on the test split.

    Each run has a process and a folder of its own, MODEL-seedN in `out`; `jobs` run at a time. The
    same call later takes over finished runs, resumes the others, and refuses a run with other
    settings. With `slurm`, they are submitted as an array, and the same call later makes the table.
    Task and protocol are those of `train`. The preset applies to the models that have it
    for the dataset, an override to those that have the setting. `note` is called with lines for
    people, `watch` with the status of all runs and of the one that has changed. A terminal or
    notebook shows a bar; with `progress=False` there is none, and a function as `progress` is
    called with the number of ended runs instead.
    """
    graph, folder, given = load_dataset(dataset), Path(out), tuple(overrides)
    protocol = protocol_for(task, protocol)
    if task_of(protocol) == "forecast":
        require_chronological(graph)
    resolve_device(device)
    names = list(dict.fromkeys(MODELS if models is None else models))
    numbers = list(dict.fromkeys(seeds))
    for what, count in (("model", len(names)), ("seed", len(numbers)), ("job", jobs)):
        if count < 1:
            raise ConfigError(f"compare needs at least one {what}, found {count}")
    if not len(graph.test):
        raise DataError(
            f"{graph.name}: the test split has no facts, so there is nothing to compare models by"
        )
    base = RunSpec(
        graph.name,
        model="",
        protocol=protocol,
        preset=preset,
        overrides=given,
        source=str(dataset),
        device=device,
        max_seconds=max_seconds,
    )
    per_model = specs_per_model(base, names, graph)
    specs = [
        replace(spec, seed=seed, folder=folder / f"{spec.model}-seed{seed}")
        for seed in numbers
        for spec in per_model
    ]
    make_folder(folder)
    with lock_folder(folder, wait=False):
        if note is not None:
            for line in describe_settings(per_model, given):
                note(line)
        with show_progress(f"comparing models on {graph.name}", progress) as advance:
            counted = count_ended(watch, advance)
            runs = train_missing(specs, graph, jobs, note, counted, slurm=slurm)
        rows = [
            ComparisonRow(
                spec.model,
                spec.settings_source,
                published(
                    graph.name, spec.model, protocol, None if spec.overrides else spec.preset
                ),
                tuple(run for run in runs if run.spec.model == spec.model),
            )
            for spec in per_model
        ]
        comparison = Comparison(graph.name, protocol, folder, given, jobs, tuple(rows))
        write_json(folder / "compare.json", comparison.summary())
        write_text(folder / "compare.md", comparison.markdown())
    return comparison
