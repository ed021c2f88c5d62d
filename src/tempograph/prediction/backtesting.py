"""Replay a period: forecast each step from the facts before it, and compare with what happened."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tempograph.data.fact_ids import FactsLike, read_facts
from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import Facts, When, rows_in, sort_by_time
from tempograph.data.importers.options import ImportOptions
from tempograph.data.timeline import Timeline
from tempograph.device import memory_budget, resolve_device
from tempograph.errors import DataError, QueryError, RunError
from tempograph.evaluation.evaluator import rank_facts
from tempograph.evaluation.ranking import Ranks, metrics
from tempograph.evaluation.reliability import calibration_error, reliability
from tempograph.prediction.backtest_result import Backtest, BacktestStep
from tempograph.prediction.outlook import Outlook, StepForecast
from tempograph.prediction.scenario import Scenario
from tempograph.progress import show_progress
from tempograph.training.answering import measured_answering, model_over
from tempograph.training.question_models import Answering
from tempograph.training.runs import Run
from tempograph.typing import Progress, ProgressOption, Split


def backtest(
    run: Run | str | Path,
    events: FactsLike | None = None,
    first: When | None = None,
    last: When | None = None,
    *,
    split: Split = "test",
    probabilities: bool = True,
    options: ImportOptions | Mapping[str, Any] | None = None,
    device: str = "auto",
    progress: ProgressOption = True,
    budget: int | None = None,
) -> Backtest:
    """Forecast each step of a period from the facts before it, and compare with what happened.

    The facts are `events`, in any form that `Predictor.score` takes, or those of a split of the
    run's data. The period is that of the facts, or the part of it from `first` to `last`. The
    facts of a step become history for the steps after it; the weights stay as they are. The ranks
    of facts are those of an evaluation under protocol forecast-single. Comparing the proposed facts
    with what happened shows how far the probabilities of `Predictor.forecast` can be trusted;
    without `probabilities`, this is left out, which is faster.
    """
    loaded = run if isinstance(run, Run) else Run.load(run, resolve_device(device))
    if not loaded.timeline.past_only:
        raise RunError(
            f"{loaded.config.about}: a run of task complete cannot be replayed, because it looks "
            "at facts of all times; train one with task forecast"
        )
    started = time.perf_counter()
    replayed = (
        _replay_split(loaded, split) if events is None else _replay_events(loaded, events, options)
    )
    replayed, steps = replayed.within(first, last)
    if not len(loaded.graph.valid):
        replayed = replayed.with_note("there are no valid facts to calibrate probabilities on")
        probabilities = False
    if probabilities and not loaded.questions.has_occurrence:
        with show_progress("learning to tell what will happen", progress) as advance:
            loaded.questions.occurrence(advance)
    with show_progress("ranking facts", progress) as advance:
        ranks = replayed.rank(budget, advance)
    forecasts: list[StepForecast] = []
    if probabilities:
        with show_progress("forecasting", progress) as advance:
            forecasts = _forecast(replayed.scenario, steps, budget, advance)
    return _collect(replayed, steps, ranks, forecasts, time.perf_counter() - started)


class _Replay(NamedTuple):
    """Facts to replay, and the model over the history that they are part of."""

    scenario: Scenario
    facts: Facts
    """The facts to rank, [n, 4]."""
    split: Split | None
    """The split that they are all facts of, if they are of one."""
    notes: tuple[str, ...] = ()

    def with_note(self, text: str) -> _Replay:
        """The replay with one more note."""
        return self._replace(notes=(*self.notes, text))

    def within(self, first: When | None, last: When | None) -> tuple[_Replay, range]:
        """The part of the replay that is inside a period, and its steps."""
        times, own = self.scenario.graph.times, self.facts[:, 3]
        start = int(own.min()) if first is None else self.scenario.at(first)[1]
        stop = int(own.max()) + 1 if last is None else self.scenario.at(last)[1] + 1
        start, stop = max(start, int(own.min())), min(stop, int(own.max()) + 1)
        if start >= stop:
            raise QueryError(
                f"there is no fact to replay from {first or times[start]} to "
                f"{last or times[stop - 1]}; the facts are from {times[own.min()]} to "
                f"{times[own.max()]}"
            )
        inside = (own >= start) & (own < stop)
        return self._replace(facts=self.facts[inside]), range(start, stop)

    def rank(self, budget: int | None, progress: Progress | None) -> Ranks:
        """Ranks of the objects, then of the subjects; facts of valid by cross-fitted scores."""
        graph, model = self.scenario.graph, self.scenario.model
        cross_fitted = None
        if self.split is not None:
            whole = graph.facts(self.split)
            cross_fitted = model.cross_fitted(self.split, len(whole))
            if cross_fitted is not None:
                chosen = torch.from_numpy(rows_in(whole, self.facts)).to(model.device)
                cross_fitted = cross_fitted._replace(scorer=cross_fitted.scorer[chosen])
        facts = torch.from_numpy(self.facts).to(model.device)
        known = KnownAnswers.from_graph(graph, "time", model.device)
        with torch.inference_mode():
            return rank_facts(model, facts, known, budget, progress, cross_fitted).cpu()


def _replay_split(run: Run, split: Split) -> _Replay:
    """The facts of valid or test, forecast by the model as it was measured."""
    if split == "train":
        raise QueryError("the model was trained on the train facts; replay those of valid or test")
    facts = run.graph.facts(split)
    if not len(facts):
        raise DataError(f"{run.graph.name}: the {split} split has no facts to replay")
    notes = []
    if split == "valid":
        notes.append(
            "settings were chosen and probabilities calibrated on valid, so these figures are "
            "better than those of later steps will be"
        )
    return _Replay(_scenario(run, measured_answering(run)), facts, split, tuple(notes))


def _replay_events(
    run: Run, events: FactsLike, options: ImportOptions | Mapping[str, Any] | None
) -> _Replay:
    """Facts given by the caller, with those that the run knows already as history."""
    graph = run.graph if run.updates is None else run.updates.additions.onto(run.graph)
    notes: list[str] = []
    given = options.given if isinstance(options, ImportOptions) else options or {}
    batch = read_facts(graph, events, given, run.import_options, extend=True, note=notes.append)
    if run.import_options is None:
        notes = []
    if not batch.valid.all():
        notes += batch.describe_errors("replayed", limit=1)[:1]
    facts = sort_by_time(batch.ids[batch.valid])
    trained = int(run.graph.train[:, 3].max())
    early = facts[:, 3] <= trained
    if early.any():
        notes.append(
            f"{int(early.sum()):,} facts are not later than {graph.times[trained]}, up to which "
            "the model was trained; they are not replayed"
        )
        facts = facts[~early]
    if not len(facts):
        raise DataError(f"{graph.name}: there are no facts to replay; {'; '.join(notes)}")
    later = facts[~rows_in(facts, graph.all_facts)]
    graph = replace(graph, times=batch.graph.times, test=np.concatenate([graph.test, later]))
    history = replace(graph, train=graph.all_facts)
    timeline = Timeline(history, "forecast-single", run.timeline.device)
    model = model_over(run, timeline, measured=True)
    return _Replay(_scenario(run, Answering(graph, timeline, model)), facts, None, tuple(notes))


def _scenario(run: Run, answering: Answering) -> Scenario:
    return Scenario(run, memory_budget("history", run.timeline.device), answering)


def _forecast(
    scenario: Scenario, steps: Sequence[int], budget: int | None, progress: Progress | None
) -> list[StepForecast]:
    outlook, found = Outlook(scenario), []
    for number, step in enumerate(steps, 1):
        found.append(outlook.at(step, budget=budget))
        if progress is not None:
            progress(number, len(steps))
    return found


def _collect(
    replayed: _Replay, steps: range, ranks: Ranks, forecasts: Sequence[StepForecast], seconds: float
) -> Backtest:
    """The figures of each step and of the whole period."""
    graph, run = replayed.scenario.graph, replayed.scenario.run
    of_step = torch.from_numpy(replayed.facts[:, 3]).repeat(2)
    outcomes = [replayed.scenario.occurrences.features.happened(each.facts) for each in forecasts]
    rows = []
    for number, step in enumerate(steps):
        own = ranks.realistic[of_step == step]
        figures = metrics(own, (1, 10)) if len(own) else {}
        mrr, hits_1, hits_10 = (figures.get(name) for name in ("mrr", "hits@1", "hits@10"))
        row = BacktestStep(graph.times[step], len(own) // 2, mrr, hits_1, hits_10)
        if forecasts:
            probability, outcome = forecasts[number].probability, outcomes[number]
            row = replace(
                row,
                proposals=len(outcome),
                expected=float(probability.sum()),
                happened=int(outcome.sum()),
                brier=_brier(probability, outcome),
            )
        rows.append(row)
    table, error, brier = [], None, None
    if sum(map(len, outcomes)):
        probability = torch.cat([each.probability for each in forecasts])
        outcome = torch.cat(outcomes)
        table, brier = reliability(probability, outcome), _brier(probability, outcome)
        error = calibration_error(table)
    return Backtest(
        graph.name,
        run.model.name,
        tuple(rows),
        metrics(ranks.realistic),
        tuple(table),
        error,
        brier,
        replayed.notes,
        seconds,
    )


def _brier(probability: Tensor, outcome: Tensor) -> float | None:
    """The mean of (probability - outcome)^2; None without any."""
    if not len(outcome):
        return None
    return float((probability - outcome.double()).square().mean())
