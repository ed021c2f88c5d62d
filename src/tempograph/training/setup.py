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
from tempograph.training.run_folder import RUN_MARKER, read_config, read_graph, read_results
from tempograph.training.run_results import RunResults
from tempograph.training.runs import Run
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
    model = build(config, timeline, parts)
    run = Run(
        config, graph, model, timeline, history, _results(asked, config, model, parts), parts=parts
    )
    if recipe.gradient is not None:
        # Made for its complaints alone: settings that do not fit together must not leave a run folder behind.
        recipe.gradient.loss(run.model, config.train)
    if recipe.choose is not None:
        run.results.train_seconds = round(time.perf_counter() - started, 3)
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
            if read_graph(folder, graph.name).same_as(graph)
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
        folder = marker.parent
        if read_results(folder).finished and read_config(folder).flat() == config.flat():
            yield folder


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
    config = read_config(folder)
    if not read_results(folder).finished:
        raise RunError(f"{folder}: a part must be finished; go on with: tempograph resume {folder}")
    if config.protocol != whole.protocol:
        raise RunError(
            f"{folder}: a run under protocol {config.protocol}, asked for {whole.protocol}; train it anew"
        )
    if not read_graph(folder, config.dataset).same_as(graph):
        raise RunError(f"{folder}: a run on other data than {graph.name}; train it anew")
    return Run.load_with(folder, graph, timeline)


def validator(
    graph: TemporalGraph, protocol: Protocol, progress: Progress | None
) -> Callable[[Model], dict[str, float]]:
    """What measures a model on valid."""

    def validate(model: Model) -> dict[str, float]:
        return evaluate_model(model, graph, "valid", protocol, progress=progress).summary()[
            "metrics"
        ]

    return validate


def _results(asked: Config, config: Config, model: Model, parts: Mapping[str, Run]) -> RunResults:
    """The results before training: settings, hardware and size."""
    fitted = dataclasses.asdict(config.model)
    return RunResults(
        dataset=config.dataset,
        model=config.name,
        protocol=config.protocol,
        seed=config.seed,
        preset=config.preset,
        config=config.settings(),
        asked={
            name: value
            for name, value in dataclasses.asdict(asked.model).items()
            if value != fitted[name]
        },
        changed=changed(asked),
        commit=source_commit(),
        hardware=hardware(model.device),
        parameters=model.num_parameters,
        finished=False,
    )
