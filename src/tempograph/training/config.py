"""The configuration of a run: defaults, then a preset or suggestions, then overrides."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tempograph.errors import ConfigError
from tempograph.models.registry import MODELS, ModelKind, model_kind
from tempograph.training.preset_files import load_preset, parse_toml
from tempograph.training.recipes import Recipe, recipe_for
from tempograph.training.setting_values import (
    Setting,
    SettingTables,
    earlier_values,
    flat_settings,
    make_settings,
    parse_override,
    toml_table,
)
from tempograph.training.settings import TrainSettings
from tempograph.typing import Protocol


@dataclass(frozen=True)
class Config:
    """Everything that decides a run. `model` holds the settings of the model called `name`."""

    name: str
    dataset: str
    model: Any
    train: TrainSettings | None = None
    protocol: Protocol = "strict"
    seed: int = 0
    preset: str | None = None
    target: Mapping[str, float] = field(default_factory=dict)
    """The figures that the preset must reach, such as `test/mrr`."""

    @cached_property
    def kind(self) -> ModelKind:
        """The registry's entry of the model."""
        return model_kind(self.name)

    @cached_property
    def recipe(self) -> Recipe:
        """How the model is trained."""
        return recipe_for(self.kind)

    @property
    def about(self) -> str:
        """Model, dataset, protocol and seed in words, to print beside figures."""
        return f"{self.name} on {self.dataset}; protocol {self.protocol}, seed {self.seed}"

    def to_toml(self) -> str:
        """The complete configuration as config.toml holds it."""
        run: dict[str, Setting] = {
            "name": self.name,
            "dataset": self.dataset,
            "protocol": self.protocol,
            "seed": self.seed,
        }
        if self.preset is not None:
            run["preset"] = self.preset
        tables: SettingTables = {"run": run, **self.settings(), "target": {**self.target}}
        return "\n".join(toml_table(name, values) for name, values in tables.items() if values)

    @staticmethod
    def from_toml(text: str, source: str) -> Config:
        """Read what `to_toml` wrote; the source is named in errors."""
        tables = parse_toml(text, source)
        run = tables.get("run", {})
        try:
            name, dataset = run.pop("name"), run.pop("dataset")
        except KeyError as error:
            raise ConfigError(f"{source}: [run] lacks the setting {error}") from None
        try:
            kind = model_kind(name)
        except ConfigError as error:
            missing = not MODELS.problem(name)
            hint = "; if another package adds the model, install it" if missing else ""
            raise ConfigError(f"{source}: {error}{hint}") from None
        tables["model"] = {**earlier_values(kind.settings), **tables.get("model", {})}
        model, train = _make_tables(kind, tables, f"{source}: ")
        options = vars(make_settings(_RunOptions, run, f"{source}: [run]"))
        return Config(name, dataset, model, train, **options, target=tables.get("target", {}))

    def settings(self) -> SettingTables:
        """The settings of the model and, if it has any, of its training."""
        tables = {"model": dataclasses.asdict(self.model)}
        return tables if self.train is None else tables | {"train": dataclasses.asdict(self.train)}

    def flat(self) -> dict[str, Setting]:
        """Everything that decides a run, by name."""
        head: dict[str, Setting] = {
            "dataset": self.dataset,
            "protocol": self.protocol,
            "model": self.name,
            "seed": self.seed,
        }
        return head | flat_settings(self.settings())

    def preset_changes(self) -> dict[str, Setting]:
        """The settings that differ from those of the preset, as `section.setting`."""
        if self.preset is None:
            return {}
        preset = make_config(self.name, self.dataset, preset=self.preset).flat()
        settings = flat_settings(self.settings())
        return {name: value for name, value in settings.items() if value != preset[name]}


@dataclass(frozen=True)
class _RunOptions:
    protocol: Protocol = "strict"
    seed: int = 0
    preset: str | None = None


def make_config(
    name: str,
    dataset: str,
    *,
    protocol: Protocol = "strict",
    seed: int = 0,
    preset: str | None = None,
    overrides: Iterable[str] = (),
    suggested: Mapping[str, Mapping[str, Any]] | None = None,
) -> Config:
    """The configuration of a model: its defaults, then the preset or else what is suggested, then
    the overrides, such as `model.sigma=0.1`.
    """
    kind = model_kind(name)
    tables: dict[str, dict[str, Any]] = {}
    if preset is not None:
        tables |= load_preset(name, dataset, preset)
    elif suggested is not None:
        tables |= {section: dict(values) for section, values in suggested.items()}
    for override in overrides:
        section, key, value = parse_override(override)
        tables.setdefault(section, {})[key] = value
    model, train = _make_tables(kind, tables, "")
    return Config(name, dataset, model, train, protocol, seed, preset, tables.get("target", {}))


def _make_tables(
    kind: ModelKind, tables: Mapping[str, Mapping[str, Any]], source: str
) -> tuple[Any, TrainSettings | None]:
    """The settings of a model and of its training, from its defaults and these tables."""
    values = {**kind.defaults, **tables.get("model", {})}
    model = make_settings(kind.settings, values, f"{source}model {kind.name}")
    gradient = recipe_for(kind).gradient
    if gradient is not None:
        values = {**kind.train_defaults, **tables.get("train", {})}
        return model, make_settings(gradient.settings, values, f"{source}train")
    if tables.get("train"):
        raise ConfigError(
            f"{source}{kind.name} is not trained by gradient and has no settings under train"
        )
    return model, None
