"""The configuration of a result: all settings under today's names, which runs of a row share."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from tempograph.errors import ConfigError
from tempograph.models.ensemble.ensemble_settings import part_names
from tempograph.models.registry import MODELS
from tempograph.training.config import make_config
from tempograph.training.recipes import recipe_for
from tempograph.training.run_results import RunResults
from tempograph.training.setting_values import current_name, earlier_values, flat_settings
from tempograph.training.setup import part_changes

Configuration = dict[str, Any]
"""Settings as `section.setting`; those of a part of an ensemble as `parts.NAME.section.setting`."""


def settings_of(result: RunResults) -> Configuration:
    """Return the settings of a result, as `section.setting`."""
    return _earlier_settings(result) | current_names(result.model, flat_settings(result.config))


def changes_of(result: RunResults) -> Configuration:
    """Return the settings that a result changed in its preset, or that were another way then."""
    return _earlier_settings(result) | current_names(result.model, result.changed)


def _earlier_settings(result: RunResults) -> Configuration:
    """Return the settings that a result of an earlier version lacks, with their values then."""
    return {
        f"{section}.{name}": value
        for section, owner in _owners(result.model).items()
        for name, value in earlier_values(owner).items()
        if name not in result.config.get(section, {})
    }


def current_names(model: str, settings: Mapping[str, Any]) -> Configuration:
    """Return settings, as `section.setting`, with earlier spellings replaced by the current."""
    owners = _owners(model)
    split = [name.partition(".") for name in settings]
    names = [f"{part}.{current_name(owners.get(part), setting)}" for part, _, setting in split]
    return dict(zip(names, settings.values(), strict=True))


def configuration_of(result: RunResults) -> Configuration:
    """Return all settings of a result as requested: the seed is not one of them.

    A setting that did not exist yet had its default, unless its class names `earlier_values`.
    """
    requested = current_names(result.model, flat_settings({"model": result.asked}))
    settings = _complete(result.model, settings_of(result) | requested)
    for name, model in _part_models(settings).items():
        if (tables := result.parts.get(name)) is not None:
            part = _complete(model, current_names(model, flat_settings(tables)))
            settings |= {f"parts.{name}.{setting}": value for setting, value in part.items()}
    return settings


def uses_names(result: RunResults) -> bool:
    """Return whether a run looks at the words in names."""
    return bool(configuration_of(result).get("model.names"))


def preset_configuration(
    model: str, dataset: str, preset: str, changes: Mapping[str, Any]
) -> Configuration:
    """Return all settings of a shipped preset with some changes.

    Raises:
        ConfigError: There is no such preset.
    """
    config = make_config(model, dataset, preset=preset)
    settings = _complete(model, flat_settings(config.settings()) | dict(changes))
    for (name, part), spec in zip(
        _part_models(settings).items(), settings.get("model.parts", ()), strict=True
    ):
        if part_preset := spec.partition(":")[2]:
            taken_over = part_changes(settings, part)
            inner = preset_configuration(part, dataset, part_preset, taken_over)
            settings |= {f"parts.{name}.{setting}": value for setting, value in inner.items()}
    return settings


def has_settings_of(
    result: RunResults, preset: str | None, changes: Mapping[str, Any] | None = None
) -> bool:
    """Return whether a result has the settings of a preset as it is shipped, with some changes.

    Parts of an ensemble are compared if the result says what they were.
    """
    if preset is None:
        return False
    try:
        wanted = preset_configuration(result.model, result.dataset, preset, changes or {})
    except ConfigError:
        return False
    found = configuration_of(result)
    if not result.parts:
        wanted = {name: value for name, value in wanted.items() if not name.startswith("parts.")}
    return found == wanted


def configuration_key(result: RunResults) -> str:
    """Return the configuration as a text that equal configurations share."""
    return json.dumps(configuration_of(result), sort_keys=True)


def _owners(model: str) -> dict[str, type]:
    """Return the classes of the settings of a model, by section."""
    owners: dict[str, type] = {}
    if (kind := MODELS.get(model)) is not None:
        owners["model"] = kind.settings
        if (gradient := recipe_for(kind).gradient) is not None:
            owners["train"] = gradient.settings
    return owners


def _complete(model: str, settings: Mapping[str, Any]) -> Configuration:
    """Return settings with those that are missing, in a form that can be compared."""
    complete: Configuration = {}
    for section, owner in _owners(model).items():
        values = {
            field.name: field.default
            for field in dataclasses.fields(owner)
            if field.default is not dataclasses.MISSING
        }
        values |= earlier_values(owner)
        complete |= {f"{section}.{name}": value for name, value in values.items()}
    return {name: _comparable(value) for name, value in (complete | dict(settings)).items()}


def _comparable(value: Any) -> Any:
    """Return a value as JSON has it, whole numbers as floats: 0 and 0.0 are one setting."""
    if isinstance(value, list | tuple):
        return [_comparable(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _part_models(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the models of the parts of an ensemble, by the names of the parts."""
    parts = settings.get("model.parts") or ()
    return dict(zip(part_names(parts), (part.partition(":")[0] for part in parts), strict=True))
