"""A search within a budget: successive halving of trials by their valid MRR.

A model that needs no training comes first, so that there is something to ask at once. Then every
trial is trained for its share of the time, and the worse half is dropped, until one is left, which
is trained with the rest of the time. In the end, those that add something to it are combined with
it. Test facts are never ranked.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Final

from tempograph.data.timeline import Timeline
from tempograph.device import resolve_device
from tempograph.errors import RunError
from tempograph.experiments.fit_hooks import FitHooks
from tempograph.experiments.part_choice import MIN_GAIN, choose_parts
from tempograph.experiments.scheduler import run_processes
from tempograph.experiments.specs import RunSpec
from tempograph.experiments.status import RunStatus
from tempograph.experiments.trials import FIRST_MODEL, candidate_trials
from tempograph.io import lock_folder, make_folder
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
from tempograph.training.runs import Run
from tempograph.training.search_record import (
    TRIALS,
    SearchRecord,
    Trial,
    TrialRound,
    read_search_record,
)
from tempograph.training.trainer import end_training
from tempograph.typing import Progress

_COMBINING: Final = 0.1
"""The share of the time that the last trial leaves for combining it with others."""
_PATIENCE: Final = 2.0
"""How many times its share a trial may take until its process is stopped."""
_ENSEMBLE: Final = "ensemble"


def keep_better_half(scores: Mapping[str, float | None]) -> list[str]:
    """The names of the better half, rounded up, in their order; without a score, none is kept.

    Of equal scores, the earlier is better.
    """
    measured = [name for name, score in scores.items() if score is not None]
    ranked = sorted(measured, key=lambda name: -(scores[name] or 0.0))
    kept = set(ranked[: math.ceil(len(scores) / 2)])
    return [name for name in scores if name in kept]


def share_of_trial(seconds: float, halvings_left: int, trials: int, jobs: int) -> float:
    """The seconds that each of some trials may train in a round.

    All rounds, and the training of the last trial after them, take equally long; `jobs` trials are
    trained at a time.
    """
    return seconds / (halvings_left + 1) * min(jobs, trials) / trials


def is_unfinished_search(folder: Path, record: FitRecord) -> bool:
    """Whether a fit was asked to search and has not come to the end of that."""
    if record.plan is None:
        return False
    search = read_search_record(folder)
    return search is None or not search.finished


def run_search(folder: Path, record: FitRecord, hooks: FitHooks, device: str) -> FitRecord | None:
    """Search, and leave the best model as the run in the folder; None if the time is up before.

    The folder holds a run of the first model; the trials are trained beside it. Whatever ends this
    function, the folder holds the best model so far, and another call continues.
    """
    assert record.plan is not None
    with lock_folder(_trials_folder(folder), wait=False):
        return BudgetSearch(folder, record, record.plan, hooks, device).run()


def _trials_folder(folder: Path) -> Path:
    make_folder(folder / TRIALS)
    return folder / TRIALS


class BudgetSearch:
    """A search in the folder of a fit; everything it must remember is in its record."""

    def __init__(
        self, folder: Path, fit: FitRecord, plan: SearchPlan, hooks: FitHooks, device: str
    ) -> None:
        config = read_config(folder)
        self.folder, self.fit, self.plan, self.hooks = folder, fit, plan, hooks
        self.graph = read_graph(folder, config.dataset)
        self.seed, self.device_name, self.device = config.seed, device, resolve_device(device)
        found = read_search_record(folder)
        self.record = self._new_record() if found is None else found
        self.started = time.perf_counter() - self.record.seconds
        self.jobs = len(self.record.trials) if self.device.type == "cuda" else 1
        self.advance: Progress | None = None

    def run(self) -> FitRecord | None:
        """Go on to the end of the search, or until the time is up."""
        try:
            if self.record.leader is not None and self.record.leader != FIRST_MODEL:
                # A process that was killed may have replaced only some of the files.
                replace_run(self.folder, self._path(self.record.leader))
            with self.hooks.stage("searching") as advance:
                self.advance = advance
                if not self._halve() or not self._train_last() or not self._combine():
                    return None
        finally:
            self._write()
        return self._finish()

    def _new_record(self) -> SearchRecord:
        """The record of a search whose first model is trained."""
        trials = candidate_trials(self.graph, self.device, self.plan, self.seed)
        results = read_results(self.folder)
        seconds, mrr = (
            results.train_seconds or 0.0,
            results.valid and results.valid["metrics"]["mrr"],
        )
        first = Trial(
            FIRST_MODEL, FIRST_MODEL, rounds=[TrialRound(0, seconds, seconds, 0, mrr, True)]
        )
        others = [trial for trial in trials if trial.model != FIRST_MODEL]
        record = SearchRecord(self.plan.minutes, self.plan.rules, [first, *others], seconds)
        record.leader = FIRST_MODEL
        names = (self.graph.entities[0], self.graph.relations[0], self.graph.times[-1])
        subject, relation, when = map(quote, names)
        self.hooks.notify(
            f"valid MRR {mrr or 0.0:.3f} with {FIRST_MODEL} after {format_duration(seconds)}; "
            f"ask it while this goes on: tempograph complete {quote(str(self.folder))} "
            f"--subject {subject} --relation {relation} --time {when}"
        )
        return record

    def _write(self) -> None:
        self.record.seconds = time.perf_counter() - self.started
        self.record.write(self.folder)
        save(search_figure(self.record), self.folder / SEARCH_PICTURE)

    def _path(self, name: str) -> Path:
        return self.folder / TRIALS / name

    def _alive(self) -> list[Trial]:
        """The trials that are still trained; the first model has nothing to train."""
        return [
            trial
            for trial in self.record.trials
            if trial.dropped is None and trial.name not in (FIRST_MODEL, _ENSEMBLE)
        ]

    def _halve(self) -> bool:
        """Train all trials and drop the worse half, until one is left or nothing is gained."""
        record = self.record
        while len(alive := self._alive()) > 1 and record.stopped is None:
            number = record.halvings + 1
            before = self._best_mrr(number - 1)
            waiting = [t for t in alive if not t.finished and not t.took_part(number)]
            if not self._train(waiting, number, math.ceil(math.log2(len(alive)))):
                return False
            alive = self._alive()
            kept = keep_better_half({trial.name: trial.valid_mrr for trial in alive})
            for trial in alive:
                if trial.name not in kept:
                    trial.dropped = f"in the worse half after round {number}"
            gain = self._best_mrr(number) - before
            if number > 1 and gain < MIN_GAIN:
                record.stopped = f"round {number} gained {max(gain, 0):.4f} in valid MRR"
            elif not record.seconds_left:
                record.stopped = "the time is used up"
            record.halvings = number
            self._write()
        return True

    def _train_last(self) -> bool:
        """Train the trial that is left with the rest of the time."""
        waiting = [trial for trial in self._alive() if not trial.finished]
        if self.record.stopped is not None or not waiting:
            return True
        number = self.record.halvings + 1
        if all(trial.took_part(number) for trial in waiting):
            return True
        return self._train(waiting[:1], number, 0)

    def _train(self, trials: Sequence[Trial], number: int, halvings_left: int) -> bool:
        """Train some trials for a round, as many at a time as the device allows.

        Returns whether all were trained; otherwise the time of this call is up.
        """
        share = 0.0
        if trials:
            left = (1 - _COMBINING) * self.record.seconds_left
            share = share_of_trial(left, halvings_left, len(trials), self.jobs)
        for start in range(0, len(trials), self.jobs):
            if start and self.hooks.time_is_up:
                return False
            self._train_together(trials[start : start + self.jobs], number, share)
        return not (trials and self.hooks.time_is_up)

    def _train_together(self, trials: Sequence[Trial], number: int, share: float) -> None:
        if not self.record.seconds_left and self._chosen() is not None:
            for trial in trials:
                trial.dropped = "the time was used up"
            return
        # Something must be trained, however long it takes.
        stop = None if self._chosen() is None else _PATIENCE * share
        left = self.hooks.seconds_left
        limit = share if left is None else min(share, max(0.0, left))
        runs = [RunStatus(self._spec(trial, limit, stop)) for trial in trials]
        run_processes(runs, {run.spec: set() for run in runs}, self.jobs, self._show)
        for trial, run in zip(trials, runs, strict=True):
            self._take_over(trial, run, number)
        self._write()

    def _spec(self, trial: Trial, limit: float | None, stop: float | None) -> RunSpec:
        return RunSpec(
            self.graph.name,
            trial.model,
            seed=self.seed,
            overrides=trial.overrides,
            source=str(self.folder / "dataset"),
            folder=self._path(trial.name),
            device=self.device_name,
            max_seconds=limit,
            valid_only=True,
            stop_seconds=stop,
        )

    def _show(self, run: RunStatus) -> None:
        if self.advance is not None:
            total = max(1, round(60 * self.record.minutes))
            self.advance(min(total - 1, round(time.perf_counter() - self.started)), total)

    def _take_over(self, trial: Trial, run: RunStatus, number: int) -> None:
        """Record how a trial did in a round; if it is the best now, the folder gets its model."""
        self.record.seconds = time.perf_counter() - self.started
        best_before = self._chosen()
        lines, mrr = (0, None) if run.results is None else read_progress(run.spec.folder)
        mrr = run.valid_mrr if mrr is None else mrr
        finished = run.state == "finished"
        seconds = run.seconds or 0.0
        interrupted = self.hooks.time_is_up and not finished and bool(self.record.seconds_left)
        trial.rounds.append(
            TrialRound(number, self.record.seconds, seconds, lines, mrr, finished, interrupted)
        )
        if run.reason is not None:
            trial.dropped = f"failed: {run.reason}"
        elif mrr is None and not interrupted:
            trial.dropped = f"too slow: no epoch within {format_duration(seconds)}"
        best = self._chosen()
        reached = trial.dropped or ("stopped" if mrr is None else f"valid MRR {mrr:.3f}")
        leads = ", the best so far" if trial is best else ""
        after = format_duration(self.record.seconds)
        self.hooks.notify(f"{trial.name}: {reached} after {after}{leads}")
        if best is not None and (best is not best_before or trial is best):
            self._adopt(best, f"it has the best valid MRR so far, {best.valid_mrr:.3f}")

    def _eligible(self) -> list[Trial]:
        """The trials that may be chosen: if a model was requested, those of that model."""
        wanted = self.plan.rules.model if self.plan.requested else None
        trials = self.record.trials
        return [t for t in trials if t.valid_mrr is not None and wanted in (None, t.model)]

    def _chosen(self) -> Trial | None:
        """The best trial so far, of equal ones the first."""
        return max(self._eligible(), key=lambda trial: trial.valid_mrr or 0.0, default=None)

    def _best_mrr(self, number: int) -> float:
        """The best valid MRR of any trial up to a round."""
        rounds = (one for trial in self._eligible() for one in trial.rounds)
        return max((one.valid_mrr or 0.0 for one in rounds if one.number <= number), default=0.0)

    def _adopt(self, trial: Trial, why: str) -> None:
        """Make the model of a trial that of the run."""
        self.record.leader = trial.name
        self._write()
        if trial.name != FIRST_MODEL:
            replace_run(self.folder, self._path(trial.name))
        self.fit = dataclasses.replace(self.fit, choice=ModelChoice(trial.model, why))
        self.fit.write(self.folder)

    def _combine(self) -> bool:
        """Combine the best trial with others that add something; not if a model was requested."""
        best = self._chosen()
        if best is None:
            reasons = [f"{t.name}: {t.dropped}" for t in self.record.trials if t.dropped]
            raise RunError(f"{self.folder}: no trial could be trained; {'; '.join(reasons)}")
        if best.name == FIRST_MODEL or best.name == _ENSEMBLE:
            return True
        number = self.record.halvings + 2
        ensemble = next((trial for trial in self.record.trials if trial.name == _ENSEMBLE), None)
        if ensemble is None:
            if self.plan.requested or not self.record.seconds_left:
                return True
            parts = [self.record.trial(name) for name in self._parts(best)]
            if len(parts) < 2:
                return True
            if not self._train([part for part in parts if not part.finished], number, 0):
                return False
            ensemble = self._new_ensemble(parts)
        if not ensemble.rounds:
            run = RunStatus(self._spec(ensemble, None, None))
            run_processes([run], {run.spec: set()}, 1, self._show)
            self._take_over(ensemble, run, number)
        return True

    def _new_ensemble(self, parts: Sequence[Trial]) -> Trial:
        """A trial that combines others, which end as they are.

        Its gate is fitted on valid, which needs no copies of the parts, and its valid MRR comes
        from gates that are fitted on the other half of valid.
        """
        for part in parts:
            end_training(self._path(part.name), device=self.device_name)
        paths = json.dumps([str(self._path(part.name)) for part in parts])
        overrides = [f"model.parts={paths}", "model.fit_on=valid"]
        if self.device.type == "cuda":
            overrides += ["model.candidate_hidden=32", "model.common_neighbors=true"]
        ensemble = Trial(_ENSEMBLE, _ENSEMBLE, tuple(overrides))
        self.record.trials.append(ensemble)
        self._write()
        return ensemble

    def _parts(self, best: Trial) -> list[str]:
        """The names of the trials that raise the valid MRR of a mixture with the best one."""
        timeline = Timeline(self.graph, "strict", self.device)
        trained = [
            trial
            for trial in self._eligible()
            if trial.name not in (FIRST_MODEL, _ENSEMBLE) and trial is not best
        ]
        models = {
            trial.name: Run.load_with(self._path(trial.name), self.graph, timeline).model
            for trial in (best, *sorted(trained, key=lambda each: -(each.valid_mrr or 0.0)))
        }
        usable = {name: model for name, model in models.items() if model.probabilistic}
        return choose_parts(usable, self.graph, timeline, self.seed) if best.name in usable else []

    def _finish(self) -> FitRecord:
        """Note what was chosen and why."""
        best = self._chosen()
        assert best is not None
        if best.name != FIRST_MODEL:
            end_training(self._path(best.name), device=self.device_name)
        record, trials = self.record, len(self.record.trials)
        for trial in record.trials:
            if trial is not best and trial.dropped is None:
                trial.dropped = "below the choice"
        record.why = f"it has the best valid MRR, {best.valid_mrr:.3f}, of {trials} trials"
        self._adopt(best, record.why)
        record.finished = True
        self._write()
        return self.fit


def read_progress(folder: Path) -> tuple[int, float | None]:
    """The number of epochs of a trial and its best valid MRR, if it was measured."""
    if not (folder / RUN_MARKER).is_file():
        return 0, None
    results, history = read_results(folder), read_history(folder)
    reached = [line["valid/mrr"] for line in history if "valid/mrr" in line]
    if results.valid is not None:
        reached.append(results.valid["metrics"]["mrr"])
    return sum("epoch" in line for line in history), max(reached, default=None)
