"""Presets: settings of a model for a dataset in TOML, shipped with the package or not."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any, Final

from tempograph.data.suggestions import did_you_mean
from tempograph.errors import ConfigError

_TABLES: Final = ("run", "model", "train", "target")
_PRESETS: Final = resources.files("tempograph") / "training" / "presets"


def load_preset(model: str, dataset: str, preset: str) -> dict[str, dict[str, Any]]:
    """The tables of a preset: a shipped one by name, such as `paper`, or any file by its path."""
    if preset.endswith(".toml"):
        tables = parse_toml(_read_text(Path(preset)), preset)
        if "run" in tables:
            raise ConfigError(
                f"{preset}: a preset has no table 'run'; pass --protocol and --seed, and remove it"
            )
        return tables
    shipped = shipped_presets(model)
    name = f"{dataset}.{preset}"
    if name not in shipped:
        offer = f"; there are {', '.join(shipped)}" if shipped else ""
        raise ConfigError(f"{model} has no preset '{preset}' for dataset {dataset}{offer}")
    file = _PRESETS / model / f"{name}.toml"
    return parse_toml(file.read_text(encoding="utf-8"), file.name)


def shipped_presets(model: str) -> list[str]:
    """The presets that come with the package for a model, each as DATASET.PRESET."""
    folder = _PRESETS / model
    if not folder.is_dir():
        return []
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir())


def parse_toml(text: str, source: str) -> dict[str, dict[str, Any]]:
    """Tables of settings; anything outside a known table is an error that names the source."""
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


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise ConfigError(f"{path}: no such preset file")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
