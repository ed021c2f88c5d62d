"""Fit a model to events in a file or table: import, choose a model, train, measure and report."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch

from tempograph.data.arrow_tables import TableLike
from tempograph.data.graph import TemporalGraph, rows_in
from tempograph.data.importers.any_source import (
    FactSource,
    PathLike,
    add_attributes,
    has_own_splits,
    import_facts,
    refuse_empty_splits,
)
from tempograph.data.importers.options import ImportOptions
from tempograph.device import resolve_device
from tempograph.errors import ConfigError
from tempograph.experiments.fit_hooks import FitHooks, OnStage
from tempograph.experiments.fit_result import FitResult
from tempograph.experiments.fit_stages import (
    finish_fit,
    is_unfinished_fit,
    resume_fit,
    search_and_finish,
)
from tempograph.experiments.search_start import FIRST_CHOICE, start_search
from tempograph.experiments.status import Notify
from tempograph.io import refuse_existing
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.models.registry import model_kind
from tempograph.models.sparse_scores import MANY_ENTITIES
from tempograph.progress import show_progress
from tempograph.training import trainer
from tempograph.training.defaults import ensemble_parts
from tempograph.training.distributed import Processes
from tempograph.training.fit_record import FitRecord, ModelChoice, SearchPlan
from tempograph.training.run_folder import RUN_MARKER
from tempograph.training.runs import Run
from tempograph.typing import MetricsCallback, Progress, ProgressOption, Task

_COPYING_SHARE: Final = 0.25
"""The share of held-out facts between pairs known from train above which copying works best."""


def fit(
    facts: FactSource,
    *,
    out: str | Path,
    task: Task = "complete",
    options: ImportOptions | None = None,
    attributes: PathLike | TableLike | None = None,
    model: str | None = None,
    overrides: Sequence[str] = (),
    seed: int = 0,
    device: str = "auto",
    overwrite: bool = False,
    keep_holdout: bool = False,
    minutes: float = 0,
    max_seconds: float | None = None,
    importing: Progress | None = None,
    report: MetricsCallback | None = None,
    progress: ProgressOption = True,
    on_stage: OnStage | None = None,
    note: Notify | None = None,
) -> FitResult:
    """Import events, choose a model for them, train it, and test it on held-out facts.

    Afterwards the run answers from all facts, those held out included, and a trust report is
    written into its folder. With `keep_holdout`, answers rest on the train facts alone.

    The task is to `complete` facts inside the period of the data, or to `forecast` from the facts
    before; then the latest facts are held out, and the figures are about the future.

    `facts` are a file, several files, a DataFrame of pandas or polars, a pyarrow Table or anything
    else with `__arrow_c_stream__`, rows (tuples or dicts), or a graph. If they are split already,
    pass a dict with train, valid and test, a folder with such files, or options with a
    `split_column`. Columns that the options do not name are guessed from their names; it is an
    error if two fit. `attributes` is a CSV file or a table with a column `entity`; its other
    columns are attributes of entities, which models with `model.names=true` use. The run folder
    `out` holds everything, the data and how it was imported too.
    `note` is called before training with what was guessed and what was left out. A terminal or
    notebook shows bars; with `progress=False` there are none. Functions as `importing` and
    `progress` are called instead while files are read and facts are ranked, and `on_stage` with the
    name of each stage after training; it returns a function of (done, total). A fit that
    `max_seconds` or an interrupt ends can be resumed.

    By default, rules choose the model and its settings. With `minutes`, a search within that time
    compares several on valid. The run answers within seconds, with a model that only counts facts,
    and gets better ones as they are found. The minutes are for search and training together;
    measuring, training on all facts and the report come after them. With a model, only its settings
    vary.
    """
    check_minutes(minutes)
    options = options or ImportOptions()
    if task == "forecast":
        options = forecast_options(facts, options, keep_holdout, minutes)
    refuse_existing(Path(out), RUN_MARKER, overwrite)
    resolved = resolve_device(device)
    if model is not None:
        model_kind(model)
    name = Path(out).resolve().name
    bar = progress if importing is None and isinstance(progress, bool) else importing
    with show_progress("importing", bar) as read:
        imported, table = import_facts(facts, options, name, read, note)
    if attributes is not None:
        imported = add_attributes(imported, attributes, options.keep_names, note)
    graph = imported.graph
    refuse_empty_splits(facts, imported)
    choice = (
        choose_model(graph, resolved, task)
        if model is None
        else ModelChoice(model, "it was requested")
    )
    hooks = FitHooks.within(max_seconds, report, progress, on_stage, note)
    if minutes:
        plan = SearchPlan(minutes, choice, model is not None, tuple(overrides))
        record = FitRecord.of(imported, table, FIRST_CHOICE, keep_holdout, plan)
        first = start_search(graph, plan, seed, device, hooks)
        used = imported.options or options
        first = dataclasses.replace(first, graph=graph, import_options=used, fit=record)
        first.save(Path(out), overwrite)
        return search_and_finish(Path(out), record, hooks, device)
    record = FitRecord.of(imported, table, choice, keep_holdout)
    run = trainer.train(
        graph,
        choice.model,
        options=imported.options or options,
        out=out,
        task=task,
        seed=seed,
        overrides=(*_quick_gate(choice.model), *overrides),
        device=device,
        overwrite=overwrite,
        max_seconds=max_seconds,
        report=report,
        progress=progress,
        fit_record=record,
        note=note,
    )
    return finish_fit(run, record, hooks, trained_now=True)


def _quick_gate(model: str) -> tuple[str, ...]:
    """Overrides that fit the gate of an ensemble on valid: its parts are trained once, not twice.

    Figures of a fit are those of test, which has no part in it.
    """
    return ("model.fit_on=valid",) if model_kind(model).settings is EnsembleSettings else ()


def check_minutes(minutes: float) -> None:
    """Refuse a budget that is no number of minutes, or that several processes would share."""
    if not 0 <= minutes < math.inf:
        raise ConfigError(f"minutes must be at least 0 and finite, found {minutes:g}")
    if minutes and Processes.from_environment().size > 1:
        raise ConfigError("a search starts processes of its own; leave out torchrun or the minutes")


def forecast_options(
    facts: FactSource, options: ImportOptions, keep_holdout: bool, minutes: float
) -> ImportOptions:
    """The options of a fit that forecasts: the latest facts are held out."""
    if options.split == "random":
        raise ConfigError(
            "a forecast is measured on facts after those it learns from, so they cannot be split "
            "at random; leave out split, or choose chronological"
        )
    if keep_holdout:
        raise ConfigError(
            "a forecaster answers from all facts before a question, those held out included; leave "
            "out keep_holdout"
        )
    if minutes:
        raise ConfigError("a search compares models of task complete; leave out minutes")
    if options.split_column is not None or has_own_splits(facts):
        return options
    return dataclasses.replace(options, split="chronological")


def resume(
    path: str | Path,
    *,
    device: str = "auto",
    max_seconds: float | None = None,
    tensorboard: bool = False,
    report: MetricsCallback | None = None,
    progress: ProgressOption = True,
) -> Run:
    """Continue an interrupted run from its last epoch, as if it had never stopped.

    A run that `fit` started is also measured, answers from all facts, and gets its trust report.
    Progress is shown as in `train`.
    """
    if is_unfinished_fit(path):
        hooks = FitHooks.within(max_seconds, report, progress, None)
        return resume_fit(path, hooks, device, tensorboard).run
    return trainer.resume(
        path,
        device=device,
        max_seconds=max_seconds,
        tensorboard=tensorboard,
        report=report,
        progress=progress,
    )


def choose_model(
    graph: TemporalGraph, device: torch.device, task: Task = "complete"
) -> ModelChoice:
    """Choose by the share of held-out facts whose pair is known from train, and by the device."""
    share = known_pair_share(graph)
    known = f"{share:.0%} of held-out facts connect two entities that also occur together in train"
    if graph.has_intervals:
        # Few of such pairs meet twice, and copying from others still does best (results/tried.md).
        known = f"{known}, and facts hold for a while"
    elif share < _COPYING_SHARE:
        # Vectors of a step say nothing about later ones.
        embeddings = "complex" if task == "forecast" else "tntcomplex"
        return ModelChoice(embeddings, f"{known}: embeddings generalize to new pairs")
    if len(graph.entities) >= MANY_ENTITIES and not graph.has_intervals:
        why = (
            "copying known facts works well, and the pointer scores one by one only those of the "
            f"{len(graph.entities):,} entities that a nearby fact names"
        )
        return ModelChoice("pointer", f"{known}: {why}")
    if device.type == "cuda":
        parts = ensemble_parts(model_kind("temp-pointer"), graph, device, task)
        if len(parts) == 1:
            why = "copying known facts works well, and no model to combine with it suits such data"
            return ModelChoice(parts[0], f"{known}: {why}")
        why = "copying known facts works well, and the GPU can train more models to combine with it"
        return ModelChoice("temp-pointer", f"{known}: {why}")
    why = "copying known facts works well, and shows which facts are copied"
    return ModelChoice("pointer", f"{known}: {why}")


def known_pair_share(graph: TemporalGraph) -> float:
    """Return the share of valid facts whose entities share a train fact, in either direction."""
    valid, train = (np.sort(facts[:, [0, 2]], axis=1) for facts in (graph.valid, graph.train))
    return float(rows_in(valid, train).mean()) if len(valid) else 0.0
