"""A trust report: how far the answers of a run can be trusted, on one page."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tempograph.data.result_table import ResultTable
from tempograph.errors import RunError
from tempograph.evaluation.evaluations import Evaluation
from tempograph.evaluation.interval_evaluation import has_known_intervals
from tempograph.evaluation.rank_table import read_run_ranks
from tempograph.prediction.forecast import Forecast
from tempograph.prediction.predictor import Predictor
from tempograph.report.run_report import writer_for
from tempograph.report.trust_examples import ExampleAnswer, find_examples
from tempograph.report.trust_figures import TrustFigures, trust_figures
from tempograph.report.trust_sections import trust_blocks
from tempograph.training.run_evaluation import evaluate
from tempograph.training.runs import Run
from tempograph.typing import ASKED, HEAD_ASKED, Asked, Progress

TRUST_REPORT: Final = "trust.html"
"""The file of a run folder in which `fit` writes the trust report."""
_FACTS: Final = 10
"""How many missing and surprising facts are shown."""

StageProgress = Callable[[str], AbstractContextManager[Progress | None]]
"""Opens the progress of a stage of the work, given its name."""


@dataclass(frozen=True)
class TrustReport:
    """Everything that a trust report says beside what the run folder holds."""

    run: Run
    figures: TrustFigures
    examples: list[ExampleAnswer]
    surprising: ResultTable
    """Of the facts held out for validation and test."""
    missing: ResultTable | None = None
    """Facts that probably happened; none if the run forecasts."""
    forecast: Forecast | None = None
    """What may happen at the step after the data, if the run forecasts."""

    def write(self, path: Path) -> None:
        """Write the report; .html is one self-contained page, .md has a folder of pictures."""
        write = writer_for(path)
        config = self.run.config
        title = f"How far to trust {config.name} on {config.dataset}"
        blocks = trust_blocks(
            self.run,
            self.figures,
            self.examples,
            [] if self.missing is None else self.missing.to_pylist(),
            self.surprising.to_pylist(),
            self.forecast,
        )
        write(path, title, blocks)


def measure_questions(run: Run, stage: StageProgress) -> Evaluation | None:
    """Rank the entities, relations and times of test, where that was not done before.

    A forecaster ranks entities alone, and learns to tell what will happen. Returns the evaluation
    of the entities, if they were ranked.
    """
    results, evaluation = run.results, None
    if results.test is None:
        with stage("ranking entities") as progress:
            evaluation = evaluate(run, "test", progress=progress)
    if run.timeline.past_only:
        if not run.questions.has_occurrence:
            with stage("learning to tell what will happen") as progress:
                run.questions.occurrence(progress)
        return evaluation
    if run.graph.has_intervals:
        # In place of times, intervals are predicted; the report has no part about relations.
        if "test" not in results.intervals and has_known_intervals(run.graph, "test"):
            with stage("predicting intervals") as progress:
                evaluate(run, "test", ask="time", progress=progress)
        return evaluation
    if not run.questions.has_heads:
        with stage("learning to rank relations and times") as progress:
            run.questions.heads(progress)
    for asked in HEAD_ASKED:
        if "test" not in results.questions(asked):
            with stage(f"ranking {asked}s") as progress:
                evaluate(run, "valid", ask=asked, progress=progress)
                evaluate(run, "test", ask=asked, progress=progress)
    return evaluation


def make_trust_report(run: Run, stage: StageProgress) -> TrustReport:
    """The trust report of a run folder that was measured on test."""
    if run.path is None or run.results.test is None:
        raise RunError(
            f"{run.path or run}: it was not measured on test; "
            f"run 'tempograph evaluate {run.path or 'RUN'} --ask all' first"
        )
    asked_for = ranked_parts(run)
    ranks = {asked: read_run_ranks(run.path, asked=asked)["test"] for asked in asked_for}
    with stage("measuring baselines") as progress:
        figures = trust_figures(run, ranks, progress)
    with stage("asking example questions") as progress:
        examples = find_examples(run, ranks, progress)
    predictor = Predictor(run)
    with stage("searching for surprising facts") as progress:
        surprising = predictor.surprising(("valid", "test"), _FACTS, progress)
    if run.timeline.past_only:
        with stage("forecasting") as progress:
            forecast = predictor.forecast(top=_FACTS, progress=progress)
        return TrustReport(run, figures, examples, surprising, forecast=forecast)
    with stage("searching for missing facts") as progress:
        missing = predictor.missing(top=_FACTS, progress=progress)
    assert isinstance(missing, ResultTable)
    return TrustReport(run, figures, examples, surprising, missing)


def ranked_parts(run: Run) -> tuple[Asked, ...]:
    """What a trust report asks a run for."""
    return ("entity",) if run.timeline.past_only or run.graph.has_intervals else ASKED
