"""What `fit` does after training: measure, answer from all facts, report; and how it resumes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

from tempograph.device import resolve_device
from tempograph.errors import RunError
from tempograph.evaluation.evaluations import Evaluation
from tempograph.experiments.fit_hooks import FitHooks
from tempograph.experiments.fit_result import FitResult
from tempograph.experiments.search import is_unfinished_search, run_search
from tempograph.report.trust_report import (
    TRUST_REPORT,
    TrustReport,
    make_trust_report,
    measure_questions,
)
from tempograph.training import run_evaluation, trainer
from tempograph.training.callbacks import Callbacks
from tempograph.training.final_fit import answer_from_all_facts
from tempograph.training.fit_record import FitRecord, read_fit_record
from tempograph.training.runs import Run
from tempograph.training.search_record import read_search_record


def finish_fit(run: Run, record: FitRecord, hooks: FitHooks, trained_now: bool) -> FitResult:
    """Do what is left of a fit after training; what was done before is not repeated.

    If the time is up between two stages, the result has no trust report, and `resume_fit` goes on.
    A call does at least one stage, unless it has trained already.
    """
    finishing = _Finishing(run, record, hooks)
    started = trained_now
    for stage in finishing.stages_left() if run.results.finished and run.path else ():
        if started and hooks.time_is_up:
            break
        started = True
        if not stage():
            break
    return finishing.result()


def search_and_finish(
    folder: Path, record: FitRecord, hooks: FitHooks, device: str = "auto"
) -> FitResult:
    """Search for the best model of a fit, then do what is left of it."""
    found = run_search(folder, record, hooks, device)
    run = Run.load(folder, resolve_device(device))
    if found is None:
        return _Finishing(run, read_fit_record(folder) or record, hooks).result()
    return finish_fit(run, found, hooks, trained_now=True)


def resume_fit(
    path: str | Path, hooks: FitHooks, device: str = "auto", tensorboard: bool = False
) -> FitResult:
    """Continue an interrupted fit, as if it had never stopped."""
    folder = Path(path)
    record = read_fit_record(folder)
    if record is None or record.finished:
        raise RunError(f"{path}: this fit is finished; its trust report is in {TRUST_REPORT}")
    if is_unfinished_search(folder, record):
        return search_and_finish(folder, record, hooks, device)
    run = Run.load(folder, resolve_device(device))
    trained_before = run.results.finished
    if not trained_before:
        run = trainer.resume(
            folder,
            device=device,
            max_seconds=hooks.seconds_left,
            tensorboard=tensorboard,
            report=hooks.report,
            progress=hooks.progress,
        )
    return finish_fit(run, record, hooks, trained_now=not trained_before)


def is_unfinished_fit(folder: str | Path) -> bool:
    """Whether a folder holds a run of a fit that has not come to its end."""
    record = read_fit_record(Path(folder))
    return record is not None and not record.finished


class _Finishing:
    """The stages of a fit after training, each a method that says whether to go on."""

    def __init__(self, run: Run, record: FitRecord, hooks: FitHooks) -> None:
        self.run, self.record, self.hooks = run, record, hooks
        self.evaluation: Evaluation | None = None
        self.trust: TrustReport | None = None

    def stages_left(self) -> Iterator[Callable[[], bool]]:
        """The stages that are not done yet, in their order."""
        results = self.run.results
        heads = "test" in results.relation and "test" in results.time
        learned = results.occurrence is not None if self.run.timeline.past_only else heads
        if results.test is None or not learned:
            yield self.measure
        if results.answers is None and not self.record.keep_holdout:
            yield self.answer_from_all
        yield self.write_report

    def measure(self) -> bool:
        self.evaluation = measure_questions(self.run, self.hooks.stage)
        return True

    def answer_from_all(self) -> bool:
        with self.hooks.stage("training on all facts") as advance:
            callbacks = Callbacks(self.hooks.report, advance, deadline=self.hooks.deadline)
            return answer_from_all_facts(self.run, callbacks) is not None

    def write_report(self) -> bool:
        assert self.run.path is not None
        if self.evaluation is None:
            # Measured by an earlier call: the figures are in the folder, the ranks are needed here.
            with self.hooks.stage("ranking entities") as advance:
                self.evaluation = run_evaluation.evaluate(self.run, "test", progress=advance)
        trust = make_trust_report(self.run, self.hooks.stage)
        with self.hooks.stage("writing the trust report"):
            trust.write(self.run.path / TRUST_REPORT)
        self.record = dataclasses.replace(self.record, finished=True)
        self.record.write(self.run.path)
        self.run = dataclasses.replace(self.run, fit=self.record)
        self.trust = trust
        return True

    def result(self) -> FitResult:
        """What there is of the result."""
        run, record = self.run, self.record
        imported = record.imported(run.graph, run.import_options)
        table, choice = record.table, record.choice
        search = None if run.path is None else read_search_record(run.path)
        return FitResult(run, imported, table, choice, self.evaluation, self.trust, search)
