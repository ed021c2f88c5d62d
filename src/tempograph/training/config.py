"""Settings: frozen dataclasses, presets in TOML, `key=value` overrides; a wrong name or value is never ignored."""

from __future__ import annotations

import dataclasses
import tomllib
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tempograph.errors import ConfigError, did_you_mean
from tempograph.models.registry import model_kind
from tempograph.training.recipes import recipe_for
from tempograph.training.settings import TrainSettings
from tempograph.typing import Protocol

_TABLES: Final = ("run", "model", "train", "target")
_PRESETS: Final = resources.files("tempograph") / "training" / "presets"

T = TypeVar("T")


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

    @property
    def about(self) -> str:
        """What must stand beside the figures of a run."""
        return f"{self.name} on {self.dataset}; protocol {self.protocol}, seed {self.seed}"

    def to_toml(self) -> str:
        """The complete configuration as a preset file would hold it."""
        run = {
            "name": self.name,
            "dataset": self.dataset,
            "protocol": self.protocol,
            "seed": self.seed,
        }
        if self.preset is not None:
            run["preset"] = self.preset
        tables = {"run": run, **self.settings(), "target": dict(self.target)}
        return "\n".join(_table(name, values) for name, values in tables.items() if values)

    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings of the model and, if it is trained, of its training."""
        tables = {"model": dataclasses.asdict(self.model)}
        return tables if self.train is None else tables | {"train": dataclasses.asdict(self.train)}

    def flat(self) -> dict[str, Any]:
        """All that decides a run, by name."""
        head = {
            "dataset": self.dataset,
            "protocol": self.protocol,
            "model": self.name,
            "seed": self.seed,
        }
        return head | by_name(self.settings())

    @staticmethod
    def from_toml(text: str, source: str) -> Config:
        """Read what `to_toml` wrote; the source is named in errors."""
        tables = parse_toml(text, source)
        run = tables.get("run", {})
        try:
            name, dataset = run.pop("name"), run.pop("dataset")
        except KeyError as error:
            raise ConfigError(f"{source}: [run] lacks the setting {error}") from None
        settings, train = _settings(name, tables, f"{source}: ")
        rest = make(_RunSettings, run, f"{source}: [run]")
        return Config(
            name,
            dataset,
            settings,
            train,
            rest.protocol,
            rest.seed,
            rest.preset,
            tables.get("target", {}),
        )


@dataclass(frozen=True)
class _RunSettings:
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
    """Settings of a model: its defaults, then the preset's or else those suggested, then the overrides."""
    model_kind(name)
    tables: dict[str, dict[str, Any]] = {}
    if preset is not None:
        tables |= load_preset(name, dataset, preset)
    elif suggested is not None:
        tables |= {section: dict(values) for section, values in suggested.items()}
    for override in overrides:
        section, key, value = parse_override(override)
        tables.setdefault(section, {})[key] = value
    settings, train = _settings(name, tables, "")
    return Config(name, dataset, settings, train, protocol, seed, preset, tables.get("target", {}))


def _settings(
    name: str, tables: Mapping[str, Mapping[str, Any]], source: str
) -> tuple[Any, TrainSettings | None]:
    kind = model_kind(name)
    settings = make(
        kind.settings, {**kind.defaults, **tables.get("model", {})}, f"{source}model {name}"
    )
    gradient = recipe_for(kind).gradient
    if gradient is not None:
        train = {**kind.train_defaults, **tables.get("train", {})}
        return settings, make(gradient.settings, train, f"{source}train")
    if tables.get("train"):
        raise ConfigError(
            f"{source}{name} is not trained by gradient and has no settings under train"
        )
    return settings, None


def load_preset(model: str, dataset: str, preset: str) -> dict[str, dict[str, Any]]:
    """The tables of a shipped preset (`paper` for this model and dataset) or of a TOML file given by its path."""
    if preset.endswith(".toml"):
        path = Path(preset)
        if not path.is_file():
            raise ConfigError(f"{preset}: no such preset file")
        tables = parse_toml(_text(path), preset)
        if "run" in tables:
            raise ConfigError(
                f"{preset}: a preset has no table 'run'; pass --protocol and --seed, and remove it"
            )
        return tables
    known = shipped_presets(model)
    wanted = f"{dataset}.{preset}"
    if wanted not in known:
        offer = f"; there are {', '.join(known)}" if known else ""
        raise ConfigError(f"{model} has no preset '{preset}' for dataset {dataset}{offer}")
    file = _PRESETS / model / f"{wanted}.toml"
    return parse_toml(file.read_text(encoding="utf-8"), file.name)


def shipped_presets(model: str) -> list[str]:
    """The presets that come with the package for a model, each as DATASET.PRESET."""
    folder = _PRESETS / model
    return (
        sorted(file.name.removesuffix(".toml") for file in folder.iterdir())
        if folder.is_dir()
        else []
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}"
        ) from None


def parse_toml(text: str, source: str) -> dict[str, dict[str, Any]]:
    """Tables of settings; anything outside a known table is an error."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: {error}") from None
    for name, table in tables.items():
        if name not in _TABLES or not isinstance(table, dict):
            raise ConfigError(
                f"{source}: unknown table or setting '{name}'{did_you_mean(name, _TABLES)}"
            )
    return tables


def make(cls: type[T], values: Mapping[str, Any], owner: str) -> T:
    """An instance of a settings dataclass; unknown names and values of the wrong type are errors.

    A class may name earlier spellings of its settings in `aliases`, a ClassVar mapping old to new.
    """
    hints, aliases = get_type_hints(cls), getattr(cls, "aliases", {})
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    settings = {}
    for key, value in values.items():
        name = aliases.get(key, key)
        if name not in names:
            raise ConfigError(f"{owner} has no setting '{key}'{did_you_mean(key, names)}")
        if not _fits(value, hints[name]):
            raise ConfigError(f"{owner}: {key} must be {_spell(hints[name])}, found {value!r}")
        settings[name] = tuple(value) if isinstance(value, list) else value
    return cls(**settings)


def by_name(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Settings in sections as `section.setting`."""
    return {
        f"{section}.{name}": value for section, of in settings.items() for name, value in of.items()
    }


def parse_override(override: str) -> tuple[str, str, Any]:
    """The section, the setting and the value of `section.setting=value`."""
    path, equals, text = override.partition("=")
    section, dot, key = path.strip().partition(".")
    if not equals or not dot or not key:
        raise ConfigError(
            f"'{override}' is not an override; write section.setting=value, such as model.sigma=0.1"
        )
    if section not in ("model", "train"):
        raise ConfigError(
            f"'{override}': there is no section '{section}'; the sections are model and train"
        )
    try:
        return section, key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return section, key, text.strip()


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is tuple:
        return isinstance(value, list | tuple) and all(
            _fits(entry, get_args(hint)[0]) for entry in value
        )
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _spell(hint: Any) -> str:
    names = {
        float: "a number",
        int: "a whole number",
        str: "text",
        bool: "true or false",
        type(None): "nothing",
    }
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_spell(option) for option in get_args(hint))
    if get_origin(hint) is Literal:
        return " or ".join(repr(option) for option in get_args(hint))
    if get_origin(hint) is tuple:
        return f'a list of {_spell(get_args(hint)[0])}, such as ["a", "b"]'
    return names.get(hint, str(hint))


def _table(name: str, values: Mapping[str, Any]) -> str:
    return "".join(
        [f"[{name}]\n", *(f"{_key(key)} = {_toml(value)}\n" for key, value in values.items())]
    )


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() else f'"{key}"'


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return (
            '"'
            + "".join(f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c for c in escaped)
            + '"'
        )
    if isinstance(value, float | int):
        return repr(value)
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(entry) for entry in value)}]"
    raise TypeError(f"no TOML form for {value!r}")
