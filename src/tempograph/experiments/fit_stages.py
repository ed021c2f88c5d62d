"""What `fit` does after training: measure, answer from all facts, report; and how it resumes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tempograph.device import resolve_device
from tempograph.errors import RunError
from tempograph.evaluation.evaluations import Evaluation
from tempograph.experiments.fit_result import FitResult
from tempograph.progress import show_progress
from tempograph.report.trust_report import (
    TRUST_REPORT,
    TrustReport,
    make_trust_report,
    measure_questions,
)
from tempograph.training import trainer
from tempograph.training.callbacks import Callbacks
from tempograph.training.final_fit import answer_from_all_facts
from tempograph.training.fit_record import FitRecord, read_fit_record
from tempograph.training.runs import Run
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

    @staticmethod
    def within(
        max_seconds: float | None,
        report: MetricsCallback | None,
        progress: ProgressOption,
        on_stage: OnStage | None,
    ) -> FitHooks:
        """Hooks of a fit that may take some seconds from now on."""
        deadline = None if max_seconds is None else time.perf_counter() + max_seconds
        return FitHooks(report, progress, on_stage, deadline)

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

    @property
    def time_is_up(self) -> bool:
        """Whether the time is used up."""
        return self.deadline is not None and time.perf_counter() >= self.deadline


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


def resume_fit(
    path: str | Path, hooks: FitHooks, device: str = "auto", tensorboard: bool = False
) -> FitResult:
    """Continue an interrupted fit, as if it had never stopped."""
    folder = Path(path)
    record = read_fit_record(folder)
    if record is None or record.finished:
        raise RunError(f"{path}: this fit is finished; its trust report is in {TRUST_REPORT}")
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
        if results.test is None or "test" not in results.relation or "test" not in results.time:
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
                self.evaluation = trainer.evaluate(self.run, "test", progress=advance)
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
        return FitResult(run, imported, table, choice, self.evaluation, self.trust)
