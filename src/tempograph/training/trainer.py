"""From a dataset and settings to a run, and from an interrupted run to a finished one."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from pathlib import Path

from tempograph.data.catalog import load_dataset
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.device import peak_memory_bytes, resolve_device
from tempograph.errors import DataError, RunError
from tempograph.evaluation.evaluator import Evaluation, evaluate_model
from tempograph.io import refuse_existing
from tempograph.models.registry import model_kind
from tempograph.training.callbacks import Callbacks
from tempograph.training.distributed import Processes
from tempograph.training.loop import Hooks, Training, fit
from tempograph.training.recipes import recipe_for
from tempograph.training.run_folder import RUN_MARKER
from tempograph.training.runs import Run
from tempograph.training.setup import begin, build, configure, validator
from tempograph.typing import Filter, MetricsCallback, Progress, Protocol, Split


def train(
    dataset: str | Path | TemporalGraph,
    model: str = "ted",
    *,
    out: str | Path | None = None,
    protocol: Protocol = "strict",
    preset: str | None = None,
    seed: int = 0,
    overrides: Iterable[str] = (),
    device: str = "auto",
    overwrite: bool = False,
    max_seconds: float | None = None,
    tensorboard: bool = False,
    report: MetricsCallback | None = None,
    progress: Progress | None = None,
    shelf: Path | None = None,
) -> Run:
    """Fit a model to the train facts, choosing on valid, and keep it in a run folder when `out` is given.

    Without a preset, settings are chosen by the size of the data and the machine. Overrides are texts such as
    `model.sigma=0.1`. `report` hears each line of metrics.jsonl and how many seconds are left at most, of which part
    where a model is made of several; `progress` hears of each ranking. A run that `max_seconds` ends, or an interrupt,
    goes on with `resume`. Parts of a model that stand finished on the `shelf`, a folder of runs, are
    taken from there.
    """
    if not Processes.here().leads:
        out = None
    if out is not None:
        refuse_existing(Path(out), RUN_MARKER, overwrite)
    graph = load_dataset(dataset)
    recipe, place = recipe_for(model_kind(model)), resolve_device(device)
    if recipe.choose is None and not len(graph.valid):
        raise DataError(
            f"{graph.name}: {model} stops training by its valid split, which has no facts; give it some"
        )
    config = configure(
        graph, model, place, protocol=protocol, preset=preset, seed=seed, overrides=overrides
    )
    callbacks = _outside(max_seconds, report, progress, tensorboard)
    run = begin(config, graph, Timeline(graph, protocol, place), callbacks, shelf)
    return _go_on(run if out is None else run.save(Path(out), overwrite), callbacks)


def resume(
    path: str | Path,
    *,
    device: str = "auto",
    max_seconds: float | None = None,
    tensorboard: bool = False,
    report: MetricsCallback | None = None,
    progress: Progress | None = None,
) -> Run:
    """Go on with a run that was stopped, from its last epoch, as if it had never been stopped."""
    run = Run.load(path, resolve_device(device))
    if run.results.finished:
        raise RunError(f"{path}: this run is finished; train another one, or evaluate it")
    for begun in (each for each in (*run.parts.values(), run) if not each.results.finished):
        begun.discard_evaluations()
        if begun.checkpoint is not None and not begun.checkpoint.exists():
            # Killed in its first epoch: what weights there are may be those of a part of it.
            begun.model.load_state_dict(
                build(begun.config, begun.timeline, begun.parts).state_dict()
            )
    return _go_on(run, _outside(max_seconds, report, progress, tensorboard))


def evaluate(
    run: Run | str | Path,
    split: Split = "test",
    *,
    filter: Filter = "time",
    device: str = "auto",
    budget: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Rank a split with a trained run, and keep ranks and figures in its folder."""
    loaded = run if isinstance(run, Run) else Run.load(run, resolve_device(device))
    evaluation = evaluate_model(
        loaded.model, loaded.graph, split, loaded.config.protocol, filter, budget, progress
    )
    loaded.save_evaluation(evaluation)
    return evaluation


def _outside(
    max_seconds: float | None,
    report: MetricsCallback | None,
    progress: Progress | None,
    tensorboard: bool,
) -> Callbacks:
    stop = None if max_seconds is None else time.perf_counter() + max_seconds
    if not Processes.here().leads:
        return Callbacks(None, None, stop=stop)
    return Callbacks(report, progress, tensorboard, stop)


def _go_on(run: Run, callbacks: Callbacks) -> Run:
    """Bring a run to its end, or as far as the time goes: first its parts, one after another, then itself."""
    for name, part in run.parts.items():
        if not part.results.finished and not _go_on(part, callbacks.about(name)).results.finished:
            return run
    recipe = recipe_for(model_kind(run.config.name))
    if recipe.gradient is not None:
        return _train_on(run, callbacks)
    if recipe.combine is not None:
        return _combine(run, callbacks)
    return _finish(run, run.results.train_seconds or 0.0, callbacks.progress)


def _combine(run: Run, callbacks: Callbacks) -> Run:
    """Fit what joins the parts, all at once: it takes little time, and starts anew when it is stopped."""
    combine, started = recipe_for(model_kind(run.config.name)).combine, time.perf_counter()
    if combine is None or not Processes.here().leads:
        return run
    run.history.clear()

    def keep(line: dict[str, float]) -> None:
        run.history.append(line)
        callbacks.about("gate").tell(line)

    run.results.gate = combine(run.model, run.graph, run.config.seed, keep, callbacks.progress)
    run.write_history()
    seconds = sum(part.results.train_seconds or 0 for part in run.parts.values())
    return _finish(run, seconds + time.perf_counter() - started, callbacks.progress)


def _train_on(run: Run, callbacks: Callbacks) -> Run:
    """Train by gradient, from the checkpoint where there is one."""
    config, gradient = run.config, recipe_for(model_kind(run.config.name)).gradient
    assert gradient is not None and config.train is not None
    epochs = config.train.epochs
    tell = callbacks.at(run.path).tell

    def told(line: dict[str, float], training: Training) -> None:
        run.history[:] = training.history
        run.write_history()
        left = (epochs - training.epoch) * training.seconds / training.epoch
        tell(line | {"left": 0.0 if training.finished else left})

    hooks = Hooks(
        validate=validator(run.graph, config.protocol, callbacks.progress),
        report=told,
        keep_weights=lambda _: run.write_weights(),
        checkpoint=run.checkpoint,
        max_seconds=callbacks.seconds_left,
    )
    leads = Processes.here().leads
    if not leads:
        run = dataclasses.replace(run, path=None)
    loss = gradient.loss(run.model, config.train)
    training = fit(run.model, loss, config.train, config.seed, hooks)
    run.history[:] = training.history
    run.results.best_epoch = training.best_epoch
    run.results.epoch_seconds = training.epoch_seconds
    if not leads:
        run.results.finished = training.finished
        return run
    if not training.finished:
        run.results.train_seconds = round(training.seconds, 3)
        run.write_results()
        return run
    return _finish(run, training.seconds, callbacks.progress)


def _finish(run: Run, seconds: float, progress: Progress | None) -> Run:
    memory = peak_memory_bytes(run.model.device)
    run.results.train_seconds = round(seconds, 3)
    run.results.peak_memory_bytes = memory
    run.write_weights()
    run.write_results()
    if len(run.graph.valid):
        evaluate(run, "valid", progress=progress)
        run.temperature(progress)
    # Only now: whoever is stopped before this resumes, and nothing is measured twice but valid.
    run.update_results(finished=True)
    if run.checkpoint is not None:
        run.checkpoint.unlink(missing_ok=True)
    return run
