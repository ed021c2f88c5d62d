"""What to run: the arguments of a training run, the name of its results and its run folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tempograph.data.graph import TemporalGraph
from tempograph.data.suggestions import did_you_mean
from tempograph.device import resolve_device
from tempograph.errors import ConfigError, RunError
from tempograph.experiments.configurations import (
    changes_of,
    current_names,
    has_settings_of,
    settings_of,
)
from tempograph.experiments.results import result_name
from tempograph.models.registry import MODELS, model_kind
from tempograph.training.config import Config
from tempograph.training.preset_files import shipped_presets
from tempograph.training.recipes import recipe_for
from tempograph.training.run_folder import RUN_MARKER, read_config, read_graph, read_results
from tempograph.training.run_results import RunResults
from tempograph.training.setting_values import flat_settings, parse_override
from tempograph.training.setup import configure
from tempograph.typing import Protocol

DEFAULT_PRESETS: Final = ("tuned", "paper")
"""The presets to look for, in this order, when none is named."""


@dataclass(frozen=True)
class RunSpec:
    """A run to train: the arguments of `train`, and the run folder."""

    dataset: str
    model: str
    protocol: Protocol = "strict"
    seed: int = 0
    preset: str | None = None
    overrides: tuple[str, ...] = ()
    source: str = ""
    """The name or path that the data is loaded from."""
    folder: Path = Path()
    device: str = "auto"
    max_seconds: float | None = None
    save_ranks: bool = False
    """Whether the ranks of test are saved with the results."""
    valid_only: bool = False
    """Whether the run is compared on valid alone: test is not ranked, nor relations and times."""
    audit: bool = False
    """Whether the figures are audited once they are measured."""
    stop_seconds: float | None = None
    """When the process stops, also in the middle of an epoch, which is then lost."""

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that the overrides change, as `section.setting`."""
        parsed = map(parse_override, self.overrides)
        changes = {f"{section}.{setting}": value for section, setting, value in parsed}
        return current_names(self.model, changes)

    @property
    def variant(self) -> str:
        """The preset and the overrides, as they appear in file names."""
        changes = [
            f"{name.partition('.')[2].replace('_', '-')}-{value}"
            for name, value in self.changes.items()
        ]
        return "-".join([*([self.preset] if self.preset else []), *changes]).lower()

    @property
    def name(self) -> str:
        """The name of the result file."""
        return result_name(self.model, self.variant, self.protocol, self.seed)

    @property
    def settings_source(self) -> str:
        """The preset, or `suggested` for settings that suit the data, or `default`."""
        suggested = recipe_for(model_kind(self.model)).suggest_settings is not None
        return self.preset or ("suggested" if suggested else "default")

    def config(self, graph: TemporalGraph) -> Config:
        """Return the complete settings of the run on this data."""
        return configure(
            graph,
            self.model,
            resolve_device(self.device),
            protocol=self.protocol,
            preset=self.preset,
            seed=self.seed,
            overrides=self.overrides,
        )

    def matches(self, result: RunResults) -> bool:
        """Return whether a result has the settings of the preset with the overrides.

        Without a preset, whether nothing but the overrides is known to differ from the defaults.
        """
        if (result.dataset, result.model) != (self.dataset, self.model) or (
            (result.protocol, result.seed) != (self.protocol, self.seed)
        ):
            return False
        if self.preset is not None:
            return has_settings_of(result, self.preset, self.changes)
        return (
            changes_of(result).keys() <= self.changes.keys()
            and self.changes.items() <= settings_of(result).items()
        )

    def read_results(self, graph: TemporalGraph) -> RunResults | None:
        """Return the results in the run folder, or None if the folder does not exist.

        Raises:
            RunError: The folder holds something else, or a run with other settings or data.
        """
        way_out = "choose another --out, or remove it"
        if not self.folder.exists():
            return None
        if not (self.folder / RUN_MARKER).is_file():
            raise RunError(f"{self.folder}: exists and is not a run; {way_out}")
        results = read_results(self.folder)
        # A setting that was chosen on valid is compared as it was requested.
        requested = current_names(self.model, flat_settings({"model": results.asked}))
        there = read_config(self.folder).flat() | requested
        wanted = self.config(graph).flat()
        other = [name for name in there | wanted if there.get(name) != wanted.get(name)]
        if other:
            shown = [f"{n} is {there.get(n)}, not {wanted.get(n)}" for n in other[:3]]
            more = f" and {len(other) - 3} more" if len(other) > 3 else ""
            raise RunError(
                f"{self.folder}: a run with other settings ({'; '.join(shown)}{more}); {way_out}"
            )
        if not read_graph(self.folder, graph.name).same_as(graph):
            raise RunError(
                f"{self.folder}: a run on other data of the name {graph.name}; {way_out}"
            )
        return results


def has_preset(model: str, dataset: str, preset: str) -> bool:
    """Return whether a preset is shipped for a model and a dataset."""
    return f"{dataset}.{preset}" in shipped_presets(model)


def specs_per_model(base: RunSpec, models: Iterable[str], graph: TemporalGraph) -> list[RunSpec]:
    """Return a spec for each model, with the preset and the overrides of `base` that it has.

    Raises:
        ConfigError: No model has the preset for any dataset, or none of the models has a setting.
    """
    known = {name.rpartition(".")[2] for model in MODELS for name in shipped_presets(model)}
    if base.preset is not None and base.preset not in known:
        offer = did_you_mean(base.preset, known) or f"; presets: {', '.join(sorted(known))}"
        raise ConfigError(f"there is no preset '{base.preset}'{offer}")
    presets = DEFAULT_PRESETS if base.preset is None else (base.preset,)
    specs, settings = [], set[str]()
    for model in models:
        model_kind(model)
        preset = next((name for name in presets if has_preset(model, graph.name, name)), None)
        plain = replace(base, model=model, preset=preset, overrides=())
        own = plain.config(graph).flat()
        accepted = tuple(
            override
            for override in base.overrides
            if replace(plain, overrides=(override,)).changes.keys() <= own.keys()
        )
        specs.append(replace(plain, overrides=accepted))
        specs[-1].config(graph)
        settings |= own.keys()
    for override in base.overrides:
        name = ".".join(parse_override(override)[:2])
        if not any(override in spec.overrides for spec in specs):
            raise ConfigError(
                f"none of the models has a setting '{name}'{did_you_mean(name, settings)}"
            )
    return specs


def describe_settings(specs: Sequence[RunSpec], overrides: Sequence[str]) -> list[str]:
    """Return lines that say where settings come from, and which models lack an override."""
    sources: dict[str, list[str]] = {}
    for spec in specs:
        sources.setdefault(spec.settings_source, []).append(spec.model)
    lines = [f"{source} settings: {', '.join(models)}" for source, models in sources.items()]
    for spec in specs:
        lacking = [override for override in overrides if override not in spec.overrides]
        lines += [f"{spec.model} has no setting for {', '.join(lacking)}"] if lacking else []
    return lines
