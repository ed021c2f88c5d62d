"""From a dataset and settings to a run."""

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
from tempograph.evaluation import DEFAULT_BUDGET, Evaluation, Progress, evaluate_model
from tempograph.files import refuse_existing
from tempograph.known import Filter
from tempograph.models.contract import Model
from tempograph.models.registry import model_kind
from tempograph.runs import RUN_MARKER, Run
from tempograph.timeline import Protocol, Timeline


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
    report: Callable[[dict[str, float]], None] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Fit a model to the train facts, choosing on valid, and keep it in a run folder when `out` is given.

    Overrides are texts such as `model.sigma=0.1`. `report` hears each line of metrics.jsonl, `progress` each ranking.
    """
    if out is not None:
        refuse_existing(Path(out), RUN_MARKER, overwrite)
    graph = load_dataset(dataset)
    config = make_config(model, graph.name, protocol=protocol, seed=seed, preset=preset, overrides=overrides)
    run = _fit(graph, config, resolve_device(device), report, progress)
    saved = run if out is None else run.save(Path(out), overwrite)
    if len(graph.valid):
        evaluate(saved, "valid", progress=progress)
    return saved


def evaluate(
    run: Run | str | Path,
    split: Split = "test",
    *,
    filter: Filter = "time",
    device: str = "auto",
    budget: int = DEFAULT_BUDGET,
    progress: Progress | None = None,
) -> Evaluation:
    """Rank a split with a trained run, and keep ranks and figures in its folder."""
    loaded = run if isinstance(run, Run) else Run.load(run, resolve_device(device))
    evaluation = evaluate_model(loaded.model, loaded.graph, split, loaded.config.protocol, filter, budget, progress)
    loaded.record(evaluation)
    return evaluation


def _fit(
    graph: TemporalGraph,
    config: Config,
    device: torch.device,
    report: Callable[[dict[str, float]], None] | None,
    progress: Progress | None,
) -> Run:
    kind = model_kind(config.name)
    history: list[dict[str, float]] = []

    def validate(model: Model) -> dict[str, float]:
        found: dict[str, float] = evaluate_model(model, graph, "valid", config.protocol, progress=progress).summary()[
            "metrics"
        ]
        return found

    def keep(line: dict[str, float]) -> None:
        history.append(line)
        if report is not None:
            report(line)

    begin = time.perf_counter()
    timeline = Timeline(graph, config.protocol, device)
    config = dataclasses.replace(config, model=kind.fit(config.model, timeline, validate, keep))
    model = kind.build(config.model, timeline)
    seconds = time.perf_counter() - begin
    return Run(config, graph, model, history, _results(config, model, seconds))


def _results(config: Config, model: Model, seconds: float) -> dict[str, Any]:
    """The head of results.json; evaluations add `valid` and `test`."""
    return {
        "dataset": config.dataset,
        "model": config.name,
        "protocol": config.protocol,
        "seed": config.seed,
        "preset": config.preset,
        "config": dataclasses.asdict(config.model),
        "commit": commit(),
        "hardware": hardware(model.device),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "best_epoch": None,
        "epoch_seconds": None,
        "train_seconds": round(seconds, 3),
        "peak_memory_bytes": peak_memory_bytes(model.device),
    }
