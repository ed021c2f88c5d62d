"""The runs of the trials of a search: trained in processes, recorded, the best one in front."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tempograph.data.folder import write_folder
from tempograph.data.graph import TemporalGraph
from tempograph.device import max_parallel_runs, resolve_device
from tempograph.experiments.fit_hooks import FitHooks
from tempograph.experiments.part_choice import MIN_GAIN
from tempograph.experiments.scheduler import run_processes
from tempograph.experiments.specs import RunSpec
from tempograph.experiments.status import RunStatus
from tempograph.experiments.trials import ENSEMBLE, FIRST_MODEL
from tempograph.progress import format_duration
from tempograph.report.drawing import save
from tempograph.report.search_report import SEARCH_PICTURE, search_figure
from tempograph.training.fit_record import FitRecord, ModelChoice, SearchPlan
from tempograph.training.run_folder import (
    RUN_MARKER,
    read_config,
    read_graph,
    read_history,
    read_results,
    replace_run,
)
from tempograph.training.search_record import TRIALS, SearchRecord, Trial, TrialRound
from tempograph.typing import Progress

_MAX_SHARES: Final = 2
_MAX_OF_REST: Final = 1 / 3
"""A process is stopped after twice its share and a third of the time that is left."""


class TrialRuns:
    """The trials of a search in the folder of a fit.

    Whatever happens, the folder holds the best model so far, and the record says how far the search
    is. The trials know nothing of the test facts: their data has none.
    """

    def __init__(
        self,
        folder: Path,
        fit: FitRecord,
        plan: SearchPlan,
        record: SearchRecord,
        hooks: FitHooks,
        device: str,
    ) -> None:
        config = read_config(folder)
        self.folder, self.fit, self.plan, self.record, self.hooks = folder, fit, plan, record, hooks
        self.graph, self.seed = without_test(read_graph(folder, config.dataset)), config.seed
        self.device_name, self.device = device, resolve_device(device)
        self.jobs = max_parallel_runs(self.device)
        self.progress: Progress | None = None
        self._started = time.perf_counter() - record.seconds
        self._source = folder / TRIALS / "dataset"
        if not self._source.exists():
            write_folder(self.graph, self._source)
        if record.leader is not None and (self.path(record.leader) / RUN_MARKER).is_file():
            # A process that was killed may have replaced only some of the files.
            replace_run(folder, self.path(record.leader))

    def path(self, name: str) -> Path:
        """The run folder of a trial."""
        return self.folder / TRIALS / name

    def write(self) -> None:
        """Write the record and its picture."""
        self._count_time()
        self.record.write(self.folder)
        save(search_figure(self.record), self.folder / SEARCH_PICTURE)

    def train(self, trials: Sequence[Trial], number: int, share: float) -> bool:
        """Train some trials for a round, each for its share, as many at a time as the device takes.

        Returns whether all were trained; otherwise the time of this call is up.
        """
        for start in range(0, len(trials), self.jobs):
            if start and self.hooks.time_is_up:
                return False
            together = trials[start : start + self.jobs]
            self._count_time()
            if self.record.seconds_left or self.best() is None:
                self._train_together(together, number, share)
            else:
                for trial in together:
                    trial.dropped = "the time was used up"
        return not (trials and self.hooks.time_is_up)

    def _train_together(self, trials: Sequence[Trial], number: int, share: float) -> None:
        left = self.hooks.seconds_left
        limit = share if left is None else min(share, max(0.0, left))
        # Something must be trained, however long it takes.
        most = max(_MAX_SHARES * share, _MAX_OF_REST * self.record.seconds_left)
        stop = None if self.best() is None else most
        runs = [RunStatus(self._spec(trial, limit, stop)) for trial in trials]
        self._run(trials, runs, number)

    def train_whole(self, trial: Trial, number: int, most: float) -> None:
        """Train a trial to its end, or not at all if that takes more seconds."""
        self._run([trial], [RunStatus(self._spec(trial, None, most))], number)

    def _spec(self, trial: Trial, limit: float | None, stop: float | None) -> RunSpec:
        return RunSpec(
            self.graph.name,
            trial.model,
            seed=self.seed,
            overrides=trial.overrides,
            source=str(self._source),
            folder=self.path(trial.name),
            device=self.device_name,
            max_seconds=limit,
            valid_only=True,
            stop_seconds=stop,
        )

    def _run(self, trials: Sequence[Trial], runs: Sequence[RunStatus], number: int) -> None:
        by_spec = {run.spec: trial for run, trial in zip(runs, trials, strict=True)}

        def on_change(run: RunStatus) -> None:
            self._show_progress()
            if run.state not in ("waiting", "running"):
                self._take_over(by_spec[run.spec], run, number)

        run_processes(runs, {spec: set() for spec in by_spec}, self.jobs, on_change)

    def _show_progress(self) -> None:
        if self.progress is not None:
            total = max(1, round(60 * self.record.minutes))
            self.progress(min(total - 1, round(time.perf_counter() - self._started)), total)

    def _take_over(self, trial: Trial, run: RunStatus, number: int) -> None:
        """Record how a trial did in a round; if it is the best now, the folder gets its model."""
        self._count_time()
        epochs, measured = (0, []) if run.results is None else read_progress(run.spec.folder)
        mrr = max(measured, default=run.valid_mrr)
        finished, seconds = run.state == "finished", run.seconds or 0.0
        interrupted = self.hooks.time_is_up and not finished and bool(self.record.seconds_left)
        trial.rounds.append(
            TrialRound(
                number=number,
                at=self.record.seconds,
                seconds=seconds,
                epochs=epochs,
                validations=len(measured),
                valid_mrr=mrr,
                finished=finished,
                interrupted=interrupted,
            )
        )
        if run.reason is not None:
            trial.dropped = f"failed: {run.reason}"
        elif mrr is None and not interrupted:
            trial.dropped = f"too slow: no epoch within {format_duration(seconds)}"
        best = self.best()
        reached = trial.dropped or ("stopped" if mrr is None else f"valid MRR {mrr:.3f}")
        leads = ", the best so far" if trial is best else ""
        after = format_duration(self.record.seconds)
        self.hooks.notify(f"{trial.name}: {reached} after {after}{leads}")
        if trial is best:
            self.adopt(best, f"it has the best valid MRR so far, {best.valid_mrr:.3f}")
        else:
            self.write()

    def eligible(self) -> list[Trial]:
        """The trials that may be chosen: if a model was requested, those of that model."""
        wanted = self.plan.rules.model if self.plan.requested else None
        trials = self.record.trials
        return [t for t in trials if t.valid_mrr is not None and wanted in (None, t.model)]

    def best(self) -> Trial | None:
        """The best trial so far, of equal ones the first; an ensemble must be worth its parts."""

        def score(trial: Trial) -> float:
            return (trial.valid_mrr or 0.0) - (MIN_GAIN if trial.name == ENSEMBLE else 0.0)

        return max(self.eligible(), key=score, default=None)

    def best_mrr(self, number: int) -> float:
        """The best valid MRR of any trial up to a round."""
        rounds = (one for trial in self.eligible() for one in trial.rounds)
        return max((one.valid_mrr or 0.0 for one in rounds if one.number <= number), default=0.0)

    def adopt(self, trial: Trial, why: str) -> None:
        """Make the model of a trial that of the run."""
        self.record.leader = trial.name
        self.write()
        if trial.name != FIRST_MODEL:
            replace_run(self.folder, self.path(trial.name))
        self.fit = dataclasses.replace(self.fit, choice=ModelChoice(trial.model, why))
        self.fit.write(self.folder)

    def _count_time(self) -> None:
        self.record.seconds = time.perf_counter() - self._started


def without_test(graph: TemporalGraph) -> TemporalGraph:
    """The graph without its test facts, which must have no part in a choice."""
    return dataclasses.replace(graph, test=graph.test[:0])


def read_progress(folder: Path) -> tuple[int, list[float]]:
    """The number of epochs of a trial, and every valid MRR that was measured."""
    results, history = read_results(folder), read_history(folder)
    measured = [line["valid/mrr"] for line in history if "valid/mrr" in line]
    if results.valid is not None:
        measured.append(results.valid["metrics"]["mrr"])
    return sum("epoch" in line for line in history), measured
