"""From settings to a run that is not trained yet, with the parts that it is made of."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch

from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.device import hardware, source_commit
from tempograph.errors import ConfigError, RunError, did_you_mean
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.models.base import Model
from tempograph.models.ensemble.ensemble_settings import part_names
from tempograph.models.registry import MODELS, model_kind
from tempograph.training.callbacks import Callbacks
from tempograph.training.config import Config, by_name, make_config
from tempograph.training.recipes import recipe_for
from tempograph.training.runs import RUN_MARKER, Run, read_data, read_record
from tempograph.typing import Progress, Protocol

_APART: Final = 1000
"""Between the seeds of parts with the same settings, so that joins of neighbouring seeds share none."""


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
    kind = model_kind(model)
    gradient = recipe_for(kind).gradient
    suggested = (
        gradient.suggest(kind, graph, device) if preset is None and gradient is not None else None
    )
    return make_config(
        model,
        graph.name,
        protocol=protocol,
        seed=seed,
        preset=preset,
        overrides=overrides,
        suggested=suggested,
    )


def changed(config: Config) -> dict[str, Any]:
    """The settings that differ from those of the preset, by name; none without a preset."""
    if config.preset is None:
        return {}
    shipped = by_name(make_config(config.name, config.dataset, preset=config.preset).settings())
    return {
        name: value for name, value in by_name(config.settings()).items() if value != shipped[name]
    }


def begin(
    asked: Config,
    graph: TemporalGraph,
    timeline: Timeline,
    callbacks: Callbacks,
    shelf: Path | None = None,
) -> Run:
    """A run that is not trained yet, with its parts; what is chosen before training is chosen.

    A part that stands finished on the shelf, a folder of runs, is taken from there.
    """
    kind, config, history = model_kind(asked.name), asked, list[dict[str, float]]()
    recipe, parts = recipe_for(kind), {}
    if kind.has_parts:
        names = part_names(asked.model.parts)
        configs = _part_configs(asked, graph, timeline.device)
        parts = {
            name: _take_over(part, asked, graph, timeline)
            if own is None
            else _begin_part(own, graph, timeline, callbacks.about(name), shelf)
            for name, part, own in zip(names, asked.model.parts, configs, strict=True)
        }
    started = time.perf_counter()
    if recipe.choose is not None:

        def keep(line: dict[str, float]) -> None:
            history.append(line)
            callbacks.tell(line)

        validate = validator(graph, asked.protocol, callbacks.progress)
        config = dataclasses.replace(
            config, model=recipe.choose(config.model, timeline, validate, keep)
        )
    run = Run(config, graph, build(config, timeline, parts), timeline, history, {}, parts=parts)
    if recipe.gradient is not None:
        # Made for its complaints alone: settings that do not fit together must not leave a run folder behind.
        recipe.gradient.loss(run.model, config.train)
    seconds = round(time.perf_counter() - started, 3) if recipe.choose is not None else None
    run.results.update(_head(run, asked), train_seconds=seconds)
    return run


def part_configs(whole: Config, graph: TemporalGraph, device: torch.device) -> list[Config]:
    """The settings of the parts that a model is made of and trains; none where it is one by itself."""
    if not model_kind(whole.name).has_parts:
        return []
    return [config for config in _part_configs(whole, graph, device) if config is not None]


def _part_configs(whole: Config, graph: TemporalGraph, device: torch.device) -> list[Config | None]:
    """The settings of each part, None where it is no model but the path of a run; one named again has another seed."""
    found: list[Config | None] = []
    parts = whole.model.parts
    for place, part in enumerate(parts):
        name, _, preset = part.partition(":")
        seed = whole.seed + _APART * parts[:place].count(part)
        config = None
        if name in MODELS:
            config = configure(
                graph, name, device, protocol=whole.protocol, preset=preset or None, seed=seed
            )
        found.append(config)
    return found


def _begin_part(
    config: Config,
    graph: TemporalGraph,
    timeline: Timeline,
    callbacks: Callbacks,
    shelf: Path | None,
) -> Run:
    """A part of a model, to be trained, or as it stands finished on the shelf."""
    ready = next(
        (
            folder
            for folder in _finished(shelf, config)
            if read_data(folder, graph.name).same_as(graph)
        ),
        None,
    )
    return (
        begin(config, graph, timeline, callbacks)
        if ready is None
        else Run.load_with(ready, graph, timeline)
    )


def _finished(shelf: Path | None, config: Config) -> Iterator[Path]:
    """The finished runs of a folder that have these settings."""
    for marker in sorted(shelf.glob(f"*/{RUN_MARKER}")) if shelf is not None else ():
        kept, results = read_record(marker.parent)
        if results["finished"] and kept.flat() == config.flat():
            yield marker.parent


def build(config: Config, timeline: Timeline, parts: Mapping[str, Run]) -> Model:
    """A model with its weights as they are before training."""
    torch.manual_seed(config.seed)
    return model_kind(config.name).build(
        config.model, timeline, *(part.model for part in parts.values())
    )


def _take_over(part: str, whole: Config, graph: TemporalGraph, timeline: Timeline) -> Run:
    """A finished run as a part; it must have been trained on the same data and under the same protocol."""
    folder = Path(part)
    if not (folder / RUN_MARKER).is_file():
        offer = did_you_mean(part.partition(":")[0], MODELS)
        raise ConfigError(
            f"'{part}' cannot be a part of {whole.name}: there is no such model or run folder{offer}"
        )
    config, results = read_record(folder)
    if not results["finished"]:
        raise RunError(f"{folder}: a part must be finished; go on with: tempograph resume {folder}")
    if config.protocol != whole.protocol:
        raise RunError(
            f"{folder}: a run under protocol {config.protocol}, asked for {whole.protocol}; train it anew"
        )
    if not read_data(folder, config.dataset).same_as(graph):
        raise RunError(f"{folder}: a run on other data than {graph.name}; train it anew")
    return Run.load_with(folder, graph, timeline)


def validator(
    graph: TemporalGraph, protocol: Protocol, progress: Progress | None
) -> Callable[[Model], dict[str, float]]:
    """What measures a model on valid."""

    def validate(model: Model) -> dict[str, float]:
        found: dict[str, float] = evaluate_model(
            model, graph, "valid", protocol, progress=progress
        ).summary()["metrics"]
        return found

    return validate


def _head(run: Run, asked: Config) -> dict[str, Any]:
    """The head of results.json; training and evaluations add the rest."""
    config, model = run.config, run.model
    fitted = dataclasses.asdict(config.model)
    left_open = {
        name: value
        for name, value in dataclasses.asdict(asked.model).items()
        if value != fitted[name]
    }
    return {
        "dataset": config.dataset,
        "model": config.name,
        "protocol": config.protocol,
        "seed": config.seed,
        "preset": config.preset,
        "config": config.settings(),
        "asked": left_open,
        "changed": changed(asked),
        "commit": source_commit(),
        "hardware": hardware(model.device),
        "parameters": model.num_parameters,
        "finished": False,
        "best_epoch": None,
        "epoch_seconds": None,
        "train_seconds": None,
        "peak_memory_bytes": None,
    }
