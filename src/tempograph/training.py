"""From a dataset and settings to a run, and from an interrupted run to a finished one."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from tempograph.config import Config, make_config
from tempograph.data.catalog import load_dataset
from tempograph.data.graph import Split, TemporalGraph
from tempograph.environment import commit, hardware, peak_memory_bytes, resolve_device
from tempograph.errors import ConfigError, DataError, RunError
from tempograph.evaluation import Evaluation, Progress, evaluate_model
from tempograph.files import refuse_existing
from tempograph.known import Filter
from tempograph.loop import Hooks, fit
from tempograph.loop import Progress as Training
from tempograph.models.contract import Model
from tempograph.models.registry import model_kind
from tempograph.processes import Processes
from tempograph.runs import RUN_MARKER, Run
from tempograph.timeline import Protocol, Timeline

Report = Callable[[dict[str, float]], None]


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
    report: Report | None = None,
    progress: Progress | None = None,
) -> Run:
    """Fit a model to the train facts, choosing on valid, and keep it in a run folder when `out` is given.

    Without a preset, settings are chosen by the size of the data and the machine. Overrides are texts such as
    `model.sigma=0.1`. `report` hears each line of metrics.jsonl and how many seconds are left at most, `progress` each
    ranking. A run that `max_seconds` ends, or an interrupt, goes on with `resume`.
    """
    if not Processes.here().leads:
        out = report = progress = None
    if out is not None:
        refuse_existing(Path(out), RUN_MARKER, overwrite)
    graph = load_dataset(dataset)
    kind, place = model_kind(model), resolve_device(device)
    if kind.gradient is not None and not len(graph.valid):
        raise DataError(f"{graph.name}: {model} stops training by its valid split, which has no facts; give it some")
    config = asked = configure(graph, model, place, protocol=protocol, preset=preset, seed=seed, overrides=overrides)
    timeline = Timeline(graph, protocol, place)
    torch.manual_seed(seed)
    begin = time.perf_counter()
    history: list[dict[str, float]] = []
    if kind.choose is not None:

        def keep(line: dict[str, float]) -> None:
            history.append(line)
            _tell(report, line)

        config = dataclasses.replace(
            config, model=kind.choose(config.model, timeline, _validator(graph, protocol, progress), keep)
        )
    run = Run(config, graph, kind.build(config.model, timeline), timeline, history, {})
    run.results.update(_head(run, asked))
    if out is not None:
        run = run.save(Path(out), overwrite)
    if kind.gradient is not None:
        return _train_on(run, max_seconds, _board(run, report) if tensorboard else report, progress)
    return _finish(run, time.perf_counter() - begin, progress)


def configure(
    graph: TemporalGraph,
    model: str,
    device: torch.device,
    *,
    protocol: Protocol = "strict",
    preset: str | None = None,
    seed: int = 0,
    overrides: Iterable[str] = (),
) -> Config:
    """The settings that `train` takes: of the preset, or else by the size of the data and the device."""
    gradient = model_kind(model).gradient
    suggested = gradient.suggest(graph, device) if preset is None and gradient is not None else None
    return make_config(
        model, graph.name, protocol=protocol, seed=seed, preset=preset, overrides=overrides, suggested=suggested
    )


def resume(
    path: str | Path,
    *,
    device: str = "auto",
    max_seconds: float | None = None,
    tensorboard: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
) -> Run:
    """Go on with a run that was stopped, from its last epoch, as if it had never been stopped."""
    run = Run.load(path, resolve_device(device))
    if run.results["finished"]:
        raise RunError(f"{path}: this run is finished; train another one, or evaluate it")
    if run.config.train is None:
        raise RunError(f"{path}: {run.config.name} was stopped before it was measured; train it again with --overwrite")
    if run.checkpoint is None or not run.checkpoint.exists():
        # Killed in its first epoch: what weights there are may be those of a part of it.
        torch.manual_seed(run.config.seed)
        run = dataclasses.replace(run, model=model_kind(run.config.name).build(run.config.model, run.timeline))
    return _train_on(run, max_seconds, _board(run, report) if tensorboard else report, progress)


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
    evaluation = evaluate_model(loaded.model, loaded.graph, split, loaded.config.protocol, filter, budget, progress)
    loaded.record(evaluation)
    return evaluation


def _train_on(run: Run, max_seconds: float | None, report: Report | None, progress: Progress | None) -> Run:
    """Train by gradient, from the checkpoint where there is one."""
    config, gradient = run.config, model_kind(run.config.name).gradient
    assert gradient is not None and config.train is not None
    epochs = config.train.epochs

    def told(line: dict[str, float], training: Training) -> None:
        run.history[:] = training.history
        run.keep_history()
        left = (epochs - training.epoch) * training.seconds / training.epoch
        _tell(report, line | {"left": 0.0 if training.finished else left})

    hooks = Hooks(
        validate=_validator(run.graph, config.protocol, progress),
        report=told,
        keep_best=lambda _: run.keep_weights(),
        checkpoint=run.checkpoint,
        max_seconds=max_seconds,
    )
    leads = Processes.here().leads
    if not leads:
        run = dataclasses.replace(run, path=None)
    loss = gradient.loss(run.model, config.train)
    training = fit(run.model, loss, config.train, config.seed, hooks)
    run.history[:] = training.history
    run.results.update(best_epoch=training.best_epoch, epoch_seconds=training.epoch_seconds)
    if not leads:
        return run
    if not training.finished:
        run.results["train_seconds"] = round(training.seconds, 3)
        run.keep_results()
        return run
    return _finish(run, training.seconds, progress)


def _finish(run: Run, seconds: float, progress: Progress | None) -> Run:
    memory = peak_memory_bytes(run.model.device)
    run.results.update(train_seconds=round(seconds, 3), peak_memory_bytes=memory, finished=True)
    run.keep_weights()
    run.keep_results()
    if len(run.graph.valid):
        evaluate(run, "valid", progress=progress)
    if run.checkpoint is not None:
        run.checkpoint.unlink(missing_ok=True)
    return run


def _validator(
    graph: TemporalGraph, protocol: Protocol, progress: Progress | None
) -> Callable[[Model], dict[str, float]]:
    def validate(model: Model) -> dict[str, float]:
        found: dict[str, float] = evaluate_model(model, graph, "valid", protocol, progress=progress).summary()[
            "metrics"
        ]
        return found

    return validate


def _board(run: Run, report: Report | None) -> Report:
    """A report that also writes each line as TensorBoard events into the run folder."""
    if run.path is None:
        raise ConfigError("TensorBoard events lie in the run folder; say where it is with out")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError("TensorBoard is not installed; pip install 'tempograph[tensorboard]'") from None
    writer = SummaryWriter(str(run.path / "tensorboard"))

    def tell(line: dict[str, float]) -> None:
        for name, value in line.items():
            writer.add_scalar(name, value, int(line["epoch"]))
        writer.flush()
        _tell(report, line)

    return tell


def _tell(report: Report | None, line: dict[str, float]) -> None:
    if report is not None:
        report(line)


def _head(run: Run, asked: Config) -> dict[str, Any]:
    """The head of results.json; training and evaluations add the rest."""
    config, model = run.config, run.model
    fitted = dataclasses.asdict(config.model)
    left_open = {name: value for name, value in dataclasses.asdict(asked.model).items() if value != fitted[name]}
    return {
        "dataset": config.dataset,
        "model": config.name,
        "protocol": config.protocol,
        "seed": config.seed,
        "preset": config.preset,
        "config": config.settings(),
        "asked": left_open,
        "commit": commit(),
        "hardware": hardware(model.device),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "finished": False,
        "best_epoch": None,
        "epoch_seconds": None,
        "train_seconds": None,
        "peak_memory_bytes": None,
    }
