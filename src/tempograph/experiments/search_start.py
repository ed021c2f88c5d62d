"""The start of a search: a model that needs no training, and the record of the trials to come."""

from __future__ import annotations

import dataclasses
import time
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Final

import numpy as np

from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.device import resolve_device
from tempograph.experiments.fit_hooks import FitHooks
from tempograph.experiments.trial_runs import without_test
from tempograph.experiments.trials import FIRST_MODEL, candidate_trials
from tempograph.progress import format_duration
from tempograph.training.fit_record import ModelChoice, SearchPlan
from tempograph.training.run_folder import read_config, read_graph, read_results
from tempograph.training.runs import Run
from tempograph.training.search_record import SearchRecord, Trial, TrialRound
from tempograph.training.setup import configure, valid_metrics
from tempograph.training.trainer import train

_FIRST_FACTS: Final = 1000
"""Valid facts that the settings of the first model are chosen on."""
FIRST_CHOICE: Final = ModelChoice(FIRST_MODEL, "it needs no training; a search goes on")


def start_search(
    graph: TemporalGraph, plan: SearchPlan, seed: int, device: str, hooks: FitHooks
) -> Run:
    """The first model, trained without a look at test; settings that no model has are refused.

    Its settings are chosen on a sample of valid, so that there is soon something to ask.
    """
    started, blind, resolved = time.perf_counter(), without_test(graph), resolve_device(device)
    candidate_trials(blind, resolved, plan, seed)
    sample = np.random.default_rng(seed).permutation(len(blind.valid))[:_FIRST_FACTS]
    config = configure(blind, FIRST_MODEL, resolved, seed=seed)
    assert config.recipe.choose is not None
    chosen = config.recipe.choose(
        config.model,
        Timeline(blind, config.protocol, resolved),
        partial(
            valid_metrics,
            dataclasses.replace(blind, valid=blind.valid[np.sort(sample)]),
            config.protocol,
            None,
        ),
        hooks.report or (lambda line: None),
    )
    overrides = [f"model.{name}={value}" for name, value in vars(chosen).items()]
    run = train(
        blind, FIRST_MODEL, seed=seed, overrides=overrides, device=device, progress=hooks.progress
    )
    run.results.train_seconds = round(time.perf_counter() - started, 3)
    return run


def begin_record(folder: Path, plan: SearchPlan, device: str) -> SearchRecord:
    """The record of a search whose first model is trained, in the folder."""
    config, results = read_config(folder), read_results(folder)
    graph = without_test(read_graph(folder, config.dataset))
    trials = candidate_trials(graph, resolve_device(device), plan, config.seed)
    seconds = results.train_seconds or 0.0
    mrr = None if results.valid is None else results.valid["metrics"]["mrr"]
    rounds = [TrialRound(0, seconds, seconds, mrr, finished=True)]
    others = [trial for trial in trials if trial.model != FIRST_MODEL]
    first = Trial(FIRST_MODEL, FIRST_MODEL, rounds=rounds)
    return SearchRecord(plan.minutes, plan.rules, [first, *others], seconds, leader=FIRST_MODEL)


def describe_first(folder: Path, record: SearchRecord) -> str:
    """What the first model reaches, and the command that asks it."""
    graph: TemporalGraph = read_graph(folder, "")
    subject, relation, day = map(quote, (graph.entities[0], graph.relations[0], graph.times[-1]))
    return (
        f"valid MRR {record.trials[0].valid_mrr or 0.0:.3f} with {FIRST_MODEL} after "
        f"{format_duration(record.seconds)}; ask it while this goes on: "
        f"tempograph complete {quote(str(folder))} "
        f"--subject {subject} --relation {relation} --time {day}"
    )
