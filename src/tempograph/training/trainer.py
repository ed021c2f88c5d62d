"""Train and resume: load data -> configure -> build -> train -> finish."""

from __future__ import annotations

import dataclasses
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from tempograph.data.arrow_tables import TableLike
from tempograph.data.catalog import load_with_options
from tempograph.data.graph import TemporalGraph
from tempograph.data.importers.any_source import SplitSources
from tempograph.data.importers.options import ImportOptions
from tempograph.data.protocol import protocol_for, task_of
from tempograph.data.timeline import Timeline
from tempograph.device import peak_memory_bytes, resolve_device
from tempograph.errors import DataError, RunError
from tempograph.evaluation.history import require_chronological
from tempograph.io import refuse_existing
from tempograph.models.base import Model
from tempograph.progress import show_progress
from tempograph.training.callbacks import Callbacks
from tempograph.training.distributed import Processes
from tempograph.training.fit_record import FitRecord
from tempograph.training.holdout import train_copies
from tempograph.training.loop import LoopHooks, train_model
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.lost_processes import watch_processes
from tempograph.training.run_evaluation import evaluate
from tempograph.training.run_folder import HOLDOUT, RUN_MARKER
from tempograph.training.runs import Run
from tempograph.training.setup import build_model, configure, prepare_run, valid_metrics
from tempograph.training.sharded_checkpoint import remove_shards
from tempograph.training.train_state import MetricsLine, TrainProgress
from tempograph.typing import MetricsCallback, Progress, ProgressOption, Protocol, Task


def train(
    dataset: str | Path | TemporalGraph | TableLike | SplitSources,
    model: str = "ted",
    *,
    options: ImportOptions | None = None,
    out: str | Path | None = None,
    task: Task | None = None,
    protocol: Protocol | None = None,
    preset: str | None = None,
    seed: int = 0,
    overrides: Iterable[str] = (),
    device: str = "auto",
    overwrite: bool = False,
    max_seconds: float | None = None,
    tensorboard: bool = False,
    report: MetricsCallback | None = None,
    progress: ProgressOption = True,
    finished_runs: Path | None = None,
    fit_record: FitRecord | None = None,
    note: Callable[[str], None] | None = None,
) -> Run:
    """Train a model on the train facts, selecting on valid, and save it if `out` is given.

    The dataset is one that `load_dataset` takes, with the options: a name or folder, a graph, a
    file of facts, a DataFrame or Arrow table, rows, or a dict of splits. The run remembers how a
    file or table was imported; for a graph, the options say how it was. The task is to `complete`
    facts inside a period, or to `forecast` from the facts before; a protocol implies the task, and
    forecasts need splits by time. Without a preset, settings
    suit the size of the data and the machine; overrides are texts such as `model.sigma=0.1`.
    `report` is called with each line of metrics.jsonl, to which it adds the seconds that are `left`
    at most and, in an ensemble, the `part`. A terminal or notebook shows a bar; with
    `progress=False` there is none, and a function as `progress` is called instead while facts are
    ranked. A run that `max_seconds` or an interrupt ends can be resumed. Parts of an ensemble that
    are finished in the folder `finished_runs` are loaded instead of trained. `fit` passes what it
    read and chose as `fit_record`, which is kept in the run folder. `note` is called with the
    reasons for settings that are suggested for many entities.
    """
    is_main, folder = Processes.from_environment().is_main, out
    if not is_main:
        out = None
    if out is not None:
        refuse_existing(Path(out), RUN_MARKER, overwrite)
    protocol = protocol_for(task, protocol)
    graph, import_options = load_with_options(dataset, options)
    resolved = resolve_device(device)
    config = configure(
        graph, model, resolved, protocol=protocol, preset=preset, seed=seed, overrides=overrides
    )
    if task_of(protocol) == "forecast":
        require_chronological(graph)
    if not len(graph.valid) and (use := config.recipe.needs_valid(config.model)) is not None:
        raise DataError(
            f"{graph.name}: {model} needs the valid split {use}, and it has no facts; import the "
            "data with some facts held out"
        )
    description = f"training {model} on {graph.name}"
    with Callbacks.open(description, report, progress, tensorboard, max_seconds) as callbacks:
        timeline = Timeline(graph, protocol, resolved)
        run = dataclasses.replace(
            prepare_run(config, graph, timeline, callbacks, finished_runs),
            import_options=import_options,
            fit=fit_record,
        )
        # Settings that do not fit together are refused here, before a run folder is written.
        losses = _build_losses(run)
        if note is not None and is_main:
            for reason in _reasons(run):
                note(reason)
        if out is not None:
            run = run.save(Path(out), overwrite)
        elif folder is not None and run.model.shards is not None:
            # Every process writes its part of a checkpoint.
            run = run.moved(Path(folder))
        return _train_run(run, losses, callbacks)


def _reasons(run: Run) -> Iterator[str]:
    """Why the settings of a run, and of its parts, differ from those of small data."""
    yield from run.results.reasons
    for name, part in run.parts.items():
        for reason in part.results.reasons:
            yield f"{name}: {reason}"


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

    Progress is shown as in `train`.
    """
    run = Run.load(path, resolve_device(device))
    if run.results.finished:
        raise RunError(f"{path}: this run is finished; train another one, or evaluate it")
    for each in _unfinished(run):
        each.discard_evaluations()
        if each.checkpoint is not None and not each.checkpoint.exists():
            # Killed in its first epoch: the weights in the folder may be from the middle of it.
            fresh = build_model(each.config, each.timeline, each.parts)
            each.model.load_state_dict(fresh.state_dict())
    description = f"training {run.config.name} on {run.graph.name}"
    with Callbacks.open(description, report, progress, tensorboard, max_seconds) as callbacks:
        return _train_run(run, _build_losses(run), callbacks)


def end_training(
    path: str | Path, *, device: str = "auto", progress: ProgressOption = False
) -> Run:
    """End the training of an unfinished run: its best weights so far become the final ones.

    They are evaluated and calibrated on valid, as at the usual end.
    """
    run = Run.load(path, resolve_device(device))
    if run.results.finished:
        return run
    if run.parts or not run.history:
        raise RunError(
            f"{path}: no epoch is finished yet; continue with `tempograph resume {path}`"
        )
    validated = [line for line in run.history if "valid/mrr" in line]
    best = max(validated or run.history[-1:], key=lambda line: line.get("valid/mrr", 0.0))
    run.discard_evaluations()
    run.results.best_epoch = round(best["epoch"])
    run.results.epoch_seconds = statistics.median(line["seconds"] for line in run.history)
    with show_progress("ranking the valid facts", progress) as advance:
        return _finish(run, run.results.train_seconds or 0.0, advance)


def _unfinished(run: Run) -> Iterator[Run]:
    """The runs still to be trained: the parts first, then the run itself."""
    for part in run.parts.values():
        yield from _unfinished(part)
    if not run.results.finished:
        yield run


def _build_losses(run: Run) -> dict[Model, TrainingLoss]:
    """The loss of every model that is still to be trained by gradient."""
    losses = {}
    for each in _unfinished(run):
        if (gradient := each.config.recipe.gradient) is not None:
            loss = gradient.loss if each.model.shards is None else gradient.sharded_loss
            assert loss is not None
            losses[each.model] = loss(each.model, each.config.train)
    return losses


def _train_run(run: Run, losses: dict[Model, TrainingLoss], callbacks: Callbacks) -> Run:
    """Train the parts, then the run itself, as far as the time allows."""
    for name, part in run.parts.items():
        if not part.results.finished:
            _train_run(part, losses, callbacks.for_part(name))
            if not part.results.finished:
                return run
    if run.model in losses:
        return _train_by_gradient(run, losses.pop(run.model), callbacks)
    if run.config.recipe.combine is not None:
        return _combine_parts(run, callbacks)
    return _finish(run, run.results.train_seconds or 0.0, callbacks.progress)


def _combine_parts(run: Run, callbacks: Callbacks) -> Run:
    """Fit the gate of an ensemble; it takes little time and restarts when it is interrupted."""
    recipe, seed = run.config.recipe, run.config.seed
    seconds = sum(part.results.train_seconds or 0 for part in run.parts.values())
    model, graph = run.model, run.graph
    held_out = recipe.hold_out and recipe.hold_out(
        run.config.model, graph, seed, run.config.protocol
    )
    if held_out is not None:
        copies = train_copies(run, held_out, callbacks)
        if copies is None:
            return run
        model, graph, seconds = copies.model, held_out, seconds + copies.seconds
    started = time.perf_counter()
    if recipe.combine is None or not Processes.from_environment().is_main:
        return run
    run.history.clear()

    def report(line: MetricsLine) -> None:
        run.history.append(line)
        callbacks.for_part("gate").report(line)

    run.results.gate = recipe.combine(model, graph, seed, report, callbacks.progress)
    run.model.load_state_dict(model.state_dict())
    run.write_history()
    _finish(run, seconds + time.perf_counter() - started, callbacks.progress)
    if run.path is not None:
        shutil.rmtree(run.path / HOLDOUT, ignore_errors=True)
    return run


def _train_by_gradient(run: Run, loss: TrainingLoss, callbacks: Callbacks) -> Run:
    """Train by gradient descent, from the checkpoint if there is one."""
    config, settings = run.config, run.config.train
    assert settings is not None
    report, checkpoint = callbacks.with_tensorboard(run.path).report, run.checkpoint
    is_main = Processes.from_environment().is_main
    if not is_main:
        # Only the main process writes to the folder; all of them resume from its checkpoint.
        run = dataclasses.replace(run, path=None)

    def on_epoch(line: MetricsLine, progress: TrainProgress) -> None:
        run.history[:] = progress.history
        run.write_history()
        left = (settings.epochs - progress.epoch) * progress.seconds / progress.epoch
        report(line | {"left": 0.0 if progress.finished else left})

    hooks = LoopHooks(
        validate=partial(valid_metrics, run.graph, config.protocol, callbacks.progress),
        on_epoch=on_epoch,
        save_weights=run.write_weights,
        checkpoint=checkpoint,
        max_seconds=callbacks.seconds_left,
    )
    progress = train_model(run.model, loss, settings, config.seed, hooks)
    run.history[:] = progress.history
    run.results.best_epoch = progress.best_epoch
    run.results.epoch_seconds = progress.epoch_seconds
    if not is_main and run.model.shards is None:
        run.results.finished = progress.finished
        return run
    # A process that was killed after its last checkpoint has not written the last line.
    run.write_history()
    if not progress.finished:
        run.results.train_seconds = round(progress.seconds, 3)
        run.write_results()
        return run
    if run.model.shards is None:
        return _finish(run, progress.seconds, callbacks.progress)
    folder = None if checkpoint is None else checkpoint.parent
    with watch_processes(Processes.from_environment(), folder):
        return _finish(run, progress.seconds, callbacks.progress)


def _finish(run: Run, seconds: float, progress: Progress | None) -> Run:
    """Write weights and results, and evaluate and calibrate on valid."""
    run.results.train_seconds = round(seconds, 3)
    run.results.peak_memory_bytes = peak_memory_bytes(run.model.device)
    run.write_weights()
    run.write_results()
    if len(run.graph.valid):
        evaluate(run, "valid", progress=progress)
        if run.model.shards is None:
            run.questions.calibrator("entity", progress)
    # Last, so that a run interrupted before this is resumed; only valid is measured twice.
    run.update_results(finished=True)
    if run.checkpoint is not None:
        run.checkpoint.unlink(missing_ok=True)
        remove_shards(run.checkpoint)
    return run
