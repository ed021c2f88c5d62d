"""Evaluate a trained run: rank a split, save ranks and figures in its folder."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Literal, overload

import torch

from tempograph.device import resolve_device
from tempograph.errors import ConfigError
from tempograph.evaluation.evaluations import Evaluation, QuestionEvaluation
from tempograph.evaluation.evaluator import evaluate_model, require_facts
from tempograph.evaluation.interval_evaluation import IntervalEvaluation, evaluate_intervals
from tempograph.evaluation.question_evaluator import rank_questions, rank_questions_at_steps
from tempograph.evaluation.tgb_rules import evaluate_by_tgb
from tempograph.progress import show_progress
from tempograph.training.distributed import Processes, launch_fabric
from tempograph.training.run_card import figures_note
from tempograph.training.run_heads import baseline_head
from tempograph.training.run_protocol import evaluation_protocol
from tempograph.training.runs import Run
from tempograph.typing import (
    Asked,
    Filter,
    HeadAsked,
    Progress,
    ProgressOption,
    Protocol,
    RankingRules,
    Split,
)


@overload
def evaluate(
    run: Run | str | Path,
    split: Split = "test",
    *,
    ask: Literal["entity"] = "entity",
    protocol: Protocol | RankingRules | None = None,
    filter: Filter = "time",
    negatives: int | None = None,
    device: str = "auto",
    budget: int | None = None,
    progress: ProgressOption = True,
) -> Evaluation: ...


@overload
def evaluate(
    run: Run | str | Path,
    split: Split = "test",
    *,
    ask: HeadAsked,
    device: str = "auto",
    budget: int | None = None,
    progress: ProgressOption = True,
) -> QuestionEvaluation | IntervalEvaluation: ...


def evaluate(
    run: Run | str | Path,
    split: Split = "test",
    *,
    ask: Asked = "entity",
    protocol: Protocol | RankingRules | None = None,
    filter: Filter = "time",
    negatives: int | None = None,
    device: str = "auto",
    budget: int | None = None,
    progress: ProgressOption = True,
) -> Evaluation | QuestionEvaluation | IntervalEvaluation:
    """Rank a split with a trained run, and save ranks and figures in its folder.

    By default, the subjects and objects of all facts are ranked; with `ask`, their relations or
    their times, beside a baseline that counts what the same pair did, or when it was active. A
    forecaster can be ranked under either protocol of forecasts; other runs only under their own,
    and under `paper` if facts hold for a while: that asks for the start and the end of each fact.
    With `ask="time"`, the intervals of such facts are predicted.

    With the protocol `tgb`, entities are ranked by the rules of TGB 2.0: for tkgl-wikidata, or with
    `negatives`, among sampled candidates. These figures are saved beside the usual ones.
    Progress is a bar in a terminal or notebook, a function of (done, total), or False for neither.
    """
    if protocol == "tgb" and (ask, filter) != ("entity", "time"):
        raise ConfigError(
            f"the protocol {protocol} ranks entities by the filter time, found ask '{ask}' and "
            f"filter '{filter}'; leave them out"
        )
    if protocol != "tgb" and negatives is not None:
        raise ConfigError(
            "negatives are sampled only by the rules of TGB 2.0; pass the protocol tgb"
        )
    loaded = run if isinstance(run, Run) else Run.load(run, resolve_device(device))
    if loaded.model.shards is not None:
        if protocol == "tgb" or ask != "entity":
            raise ConfigError(
                "several processes rank entities by our own rules; rank relations, times or by the "
                "rules of TGB 2.0 in one process"
            )
        loaded = _join_processes(loaded)
    evaluation: Evaluation | QuestionEvaluation | IntervalEvaluation
    with show_progress(f"ranking the {split} facts", progress) as advance:
        if protocol == "tgb":
            evaluation = evaluate_by_tgb(
                loaded.model,
                loaded.graph,
                split,
                evaluation_protocol(loaded),
                negatives,
                budget,
                advance,
            )
        elif ask == "entity":
            chosen = evaluation_protocol(loaded, protocol)
            evaluation = _evaluate_entities(loaded, split, chosen, filter, budget, advance)
        elif ask == "time" and loaded.graph.has_intervals:
            evaluation = _evaluate_intervals(loaded, split, budget, advance)
        else:
            evaluation = _evaluate_questions(loaded, split, ask, advance)
    note = figures_note(evaluation.note, loaded.results)
    evaluation = dataclasses.replace(evaluation, note=note)
    loaded.save_evaluation(evaluation)
    return evaluation


def _join_processes(run: Run) -> Run:
    """The run, ready to exchange rows with other processes; only the main one writes to it."""
    processes = Processes.from_environment()
    assert run.config.train is not None
    if not torch.distributed.is_initialized():
        launch_fabric(run.model.device, run.config.train, processes, sharded=True)
    return run if processes.is_main else dataclasses.replace(run, path=None)


def _evaluate_entities(
    run: Run,
    split: Split,
    protocol: Protocol,
    filter: Filter,
    budget: int | None,
    progress: Progress | None,
) -> Evaluation:
    # On valid, the calibration is measured by cross-fitting when it is fitted.
    calibrated = split != "valid" and filter == "time" and run.results.finished
    calibrated = calibrated and run.model.shards is None
    return evaluate_model(
        run.model,
        run.graph,
        split,
        protocol,
        filter,
        budget,
        progress,
        run.questions.calibrator() if calibrated else None,
    )


def _evaluate_intervals(
    run: Run, split: Split, budget: int | None, progress: Progress | None
) -> IntervalEvaluation:
    require_facts(run.graph, split)
    return evaluate_intervals(
        run.model,
        run.graph,
        split,
        evaluation_protocol(run),
        run.questions.calibrator(),
        run.questions.interval_choice(progress),
        budget,
        progress,
    )


def _evaluate_questions(
    run: Run, split: Split, asked: HeadAsked, progress: Progress | None
) -> QuestionEvaluation:
    graph, started = run.graph, time.perf_counter()
    head, baseline = run.questions.heads(progress).head(asked), baseline_head(asked, run.timeline)
    calibrator = None if split == "valid" else run.questions.calibrator(asked)
    facts = torch.from_numpy(require_facts(graph, split)).to(run.timeline.device)
    ranked, counted_at_steps = None, None
    if graph.has_intervals:
        ranked, confidence = rank_questions_at_steps(head, graph, facts, calibrator, progress)
        counted_at_steps, _ = rank_questions_at_steps(baseline, graph, facts)
        ranks, counted = ranked.ranks, counted_at_steps.ranks
    else:
        ranks, confidence = rank_questions(head, graph, facts, calibrator, progress)
        counted, _ = rank_questions(baseline, graph, facts)
    return QuestionEvaluation(
        graph.name,
        run.model.name,
        split,
        run.config.protocol,
        asked,
        graph.facts(split),
        ranks.cpu(),
        counted.cpu(),
        time.perf_counter() - started,
        None if confidence is None else confidence.cpu(),
        graph,
        step_ranks=None if ranked is None else ranked.cpu(),
        baseline_at_steps=None if counted_at_steps is None else counted_at_steps.cpu(),
    )
