"""What a comparison asks of each model: the settings it takes, and whether a run folder holds a run with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from tempograph.data.graph import TemporalGraph
from tempograph.errors import ConfigError, RunError, did_you_mean
from tempograph.models.registry import MODELS, model_kind
from tempograph.training.config import Config
from tempograph.training.presets import shipped_presets
from tempograph.training.run_folder import RUN_MARKER, read_config, read_graph, read_results
from tempograph.training.run_results import RunResults
from tempograph.training.setting_values import parse_override
from tempograph.training.setup import configure
from tempograph.typing import Protocol

PRESETS: Final = ("tuned", "paper")
"""The presets that are looked for when none is named."""


@dataclass(frozen=True)
class Plan:
    """The settings of a model, with the overrides that it takes."""

    config: Config
    overrides: tuple[str, ...]

    @property
    def origin(self) -> str:
        """Where the settings come from, in a word."""
        return self.config.preset or ("default" if self.config.train is None else "suggested")


def make_plans(
    graph: TemporalGraph,
    models: Iterable[str],
    device: torch.device,
    protocol: Protocol,
    preset: str | None,
    overrides: Sequence[str],
) -> list[Plan]:
    """A plan for each model: the preset if it has one for this dataset, and the overrides that name a setting of it.

    A preset that no model has for any dataset, or a setting that none of these models has, is an error.
    """
    known = {name.rpartition(".")[2] for model in MODELS for name in shipped_presets(model)}
    if preset is not None and preset not in known:
        offer = did_you_mean(preset, known) or f"; presets: {', '.join(sorted(known))}"
        raise ConfigError(f"there is no preset '{preset}'{offer}")
    wanted = {override: ".".join(parse_override(override)[:2]) for override in overrides}
    plans, settings = [], set[str]()
    for model in models:
        model_kind(model)
        shipped = shipped_presets(model)
        found = next(
            (
                name
                for name in (PRESETS if preset is None else (preset,))
                if f"{graph.name}.{name}" in shipped
            ),
            None,
        )
        has = configure(graph, model, device, preset=found).flat()
        taken = tuple(override for override, setting in wanted.items() if setting in has)
        plans.append(
            Plan(
                configure(graph, model, device, protocol=protocol, preset=found, overrides=taken),
                taken,
            )
        )
        settings |= set(has)
    for setting in wanted.values():
        if setting not in settings:
            raise ConfigError(
                f"none of the models has a setting '{setting}'{did_you_mean(setting, settings)}"
            )
    return plans


def plan_notes(plans: Sequence[Plan], overrides: Sequence[str]) -> list[str]:
    """Which models take which settings, in lines for people."""
    origins = {
        plan.origin: [other.config.name for other in plans if other.origin == plan.origin]
        for plan in plans
    }
    lines = [f"{origin} settings: {', '.join(names)}" for origin, names in origins.items()]
    for plan in plans:
        left_out = [override for override in overrides if override not in plan.overrides]
        lines += (
            [f"{plan.config.name} has no setting for {', '.join(left_out)}"] if left_out else []
        )
    return lines


def run_there(folder: Path, config: Config, graph: TemporalGraph) -> RunResults | None:
    """The results of the run in a folder, None where there is nothing; a run of something else is refused."""
    way_out = "choose another --out, or remove it"
    if not folder.exists():
        return None
    if not (folder / RUN_MARKER).is_file():
        raise RunError(f"{folder}: exists and is not a run; {way_out}")
    results = read_results(folder)
    here = read_config(folder).flat() | {
        f"model.{name}": value for name, value in results.asked.items()
    }
    asked = config.flat()
    other = [name for name in here | asked if here.get(name) != asked.get(name)]
    if other:
        shown = [f"{name} is {here.get(name)}, asked for {asked.get(name)}" for name in other[:3]]
        more = f" and {len(other) - 3} more" if len(other) > 3 else ""
        raise RunError(f"{folder}: a run with other settings ({'; '.join(shown)}{more}); {way_out}")
    if not read_graph(folder, graph.name).same_as(graph):
        raise RunError(f"{folder}: a run on other data of the name {graph.name}; {way_out}")
    return results
