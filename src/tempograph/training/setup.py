"""From settings to a run that is not trained yet, with the parts of an ensemble."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import torch

from tempograph.data.graph import TemporalGraph
from tempograph.data.protocol import task_of
from tempograph.data.split_records import split_records
from tempograph.data.suggestions import did_you_mean
from tempograph.data.timeline import Timeline
from tempograph.device import hardware, versions
from tempograph.errors import ConfigError, RunError
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.evaluation.ranking import Metrics, metrics
from tempograph.models.base import Model
from tempograph.models.ensemble.ensemble_settings import part_names
from tempograph.models.registry import MODELS, model_kind
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.provenance import source_version
from tempograph.training.callbacks import Callbacks
from tempograph.training.config import Config, make_config
from tempograph.training.recipes import recipe_for
from tempograph.training.run_folder import RUN_MARKER, read_config, read_graph, read_results
from tempograph.training.run_results import RunResults
from tempograph.training.runs import Run
from tempograph.training.setting_reasons import explain_settings
from tempograph.training.sharding import build_sharded_or_whole
from tempograph.typing import Progress, Protocol

_SEED_STEP: Final = 1000
"""The distance between the seeds of equal parts, so that ensembles of close seeds share none."""


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
    """The configuration that `train` uses: the preset's, or one that suits the data and device."""
    kind = model_kind(model)
    suggest = recipe_for(kind).suggest_settings
    config = make_config(
        model,
        graph.name,
        protocol=protocol,
        seed=seed,
        preset=preset,
        overrides=overrides,
        suggested=suggest(kind, graph, device, task_of(protocol))
        if suggest and preset is None
        else None,
    )
    if task_of(protocol) == "forecast" and _sees_no_past(config):
        raise ConfigError(
            f"{model} reads only the facts at the time of a question, which a forecast must not "
            "see; choose temp-gru or temp-sa"
        )
    return config


def _sees_no_past(config: Config) -> bool:
    """Whether a model reads the snapshot of a question alone, with none before it."""
    return isinstance(config.model, TeMPSettings) and config.model.temporal == "none"


def prepare_run(
    requested: Config,
    graph: TemporalGraph,
    timeline: Timeline,
    callbacks: Callbacks,
    finished_runs: Path | None = None,
) -> Run:
    """A run with untrained weights, after the settings that are chosen on valid have been chosen.

    A part of an ensemble is loaded if a finished run of it is in the folder `finished_runs`.
    """
    parts = _prepare_parts(requested, graph, timeline, callbacks, finished_runs)
    config, history, seconds = requested, list[dict[str, float]](), None
    if config.recipe.choose is not None:
        started = time.perf_counter()

        def report(line: dict[str, float]) -> None:
            history.append(line)
            callbacks.report(line)

        validate = partial(valid_metrics, graph, config.protocol, callbacks.progress)
        chosen = config.recipe.choose(config.model, timeline, validate, report)
        config = dataclasses.replace(config, model=chosen)
        seconds = round(time.perf_counter() - started, 3)
    model = build_model(config, timeline, parts)
    results = _initial_results(requested, config, model, graph)
    results.parts = {name: part.config.settings() for name, part in parts.items()}
    results.train_seconds = seconds
    return Run(config, graph, model, timeline, history, results, parts=parts)


def build_model(config: Config, timeline: Timeline, parts: Mapping[str, Run]) -> Model:
    """A model with the weights it has before training."""
    torch.manual_seed(config.seed)
    return build_sharded_or_whole(config, timeline, *(part.model for part in parts.values()))


def valid_metrics(
    graph: TemporalGraph, protocol: Protocol, progress: Progress | None, model: Model
) -> Metrics:
    """The metrics of a model on valid."""
    return metrics(evaluate_model(model, graph, "valid", protocol, progress=progress).values())


def part_configs(ensemble: Config, graph: TemporalGraph, device: torch.device) -> list[Config]:
    """The configurations of the parts that a model trains; none unless it is an ensemble."""
    specs = _part_specs(ensemble, graph, device)
    return [spec for spec in specs.values() if isinstance(spec, Config)]


def _part_specs(
    ensemble: Config, graph: TemporalGraph, device: torch.device
) -> dict[str, Config | Path]:
    """The parts of an ensemble by name: a configuration, or the path of a run.

    Equal parts differ by seed.
    """
    specs: dict[str, Config | Path] = {}
    parts = ensemble.model.parts if ensemble.kind.has_parts else ()
    for number, (name, part) in enumerate(zip(part_names(parts), parts, strict=True)):
        model, _, preset = part.partition(":")
        seed = ensemble.seed + _SEED_STEP * parts[:number].count(part)
        specs[name] = Path(part)
        if model in MODELS or MODELS.problem(model):
            specs[name] = configure(
                graph,
                model,
                device,
                protocol=ensemble.protocol,
                preset=preset or None,
                seed=seed,
                overrides=[
                    f"{name}={str(value).lower()}"
                    for name, value in part_changes(ensemble.flat(), model).items()
                ],
            )
    return specs


def part_changes(settings: Mapping[str, object], model: str) -> dict[str, bool]:
    """The settings of an ensemble, as `section.setting`, that a part with this model takes over.

    That is `names`, but not if the part has factored embeddings: names made TNTComplEx slower and
    worse, and the pointer and TeMP better (results/tried.md).
    """
    kind = model_kind(model)
    has_names = "names" in {each.name for each in dataclasses.fields(kind.settings)}
    takes_names = has_names and kind.defaults.get("relations") != "factored"
    return {"model.names": True} if settings.get("model.names") and takes_names else {}


def _prepare_parts(
    ensemble: Config,
    graph: TemporalGraph,
    timeline: Timeline,
    callbacks: Callbacks,
    finished_runs: Path | None,
) -> dict[str, Run]:
    """The parts of an ensemble by name: new runs, or finished ones that are loaded."""
    parts = {}
    for name, spec in _part_specs(ensemble, graph, timeline.device).items():
        if isinstance(spec, Path):
            _check_part(spec, ensemble, graph)
            parts[name] = Run.load_with(spec, graph, timeline)
        elif (found := _find_finished(finished_runs, spec, graph)) is not None:
            parts[name] = Run.load_with(found, graph, timeline)
        else:
            parts[name] = prepare_run(spec, graph, timeline, callbacks.for_part(name))
    return parts


def _find_finished(runs: Path | None, config: Config, graph: TemporalGraph) -> Path | None:
    """The first finished run in a folder with this configuration and these data."""
    # Folders with a leading dot are being written.
    for marker in sorted(runs.glob(f"[!.]*/{RUN_MARKER}")) if runs is not None else ():
        folder = marker.parent
        if (
            read_results(folder).finished
            and read_config(folder).flat() == config.flat()
            and read_graph(folder, graph.name).same_as(graph)
        ):
            return folder
    return None


def _check_part(folder: Path, ensemble: Config, graph: TemporalGraph) -> None:
    """Refuse a run as a part if it is unfinished, of another protocol, or on other data."""
    if not (folder / RUN_MARKER).is_file():
        offer = did_you_mean(str(folder).partition(":")[0], MODELS)
        raise ConfigError(
            f"'{folder}' cannot be a part of {ensemble.name}: "
            f"there is no such model or run folder{offer}"
        )
    config = read_config(folder)
    if not read_results(folder).finished:
        raise RunError(f"{folder}: a part must be finished; run `tempograph resume {folder}` first")
    if config.protocol != ensemble.protocol:
        raise RunError(
            f"{folder}: trained under protocol {config.protocol}, not {ensemble.protocol}; "
            "train it again"
        )
    if not read_graph(folder, config.dataset).same_as(graph):
        raise RunError(f"{folder}: trained on other data than {graph.name}; train it again")


def _initial_results(
    requested: Config, config: Config, model: Model, graph: TemporalGraph
) -> RunResults:
    """The results before training: settings, source, hardware, size and data."""
    fitted = dataclasses.asdict(config.model)
    given = dataclasses.asdict(requested.model)
    return RunResults(
        dataset=config.dataset,
        model=config.name,
        protocol=config.protocol,
        seed=config.seed,
        preset=config.preset,
        config=config.settings(),
        asked={name: value for name, value in given.items() if value != fitted[name]},
        changed=requested.preset_changes(),
        **source_version()._asdict(),
        versions=versions(),
        hardware=hardware(model.device),
        parameters=model.num_parameters,
        finished=False,
        splits=split_records(graph),
        reasons=explain_settings(config, graph),
    )
