"""Settings as values: checked against a dataclass, parsed from `key=value`, written as TOML."""

from __future__ import annotations

import dataclasses
import json
import tomllib
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tempograph.data.suggestions import did_you_mean
from tempograph.errors import ConfigError

T = TypeVar("T")

Setting = bool | int | float | str | Sequence[str] | None
SettingTables = dict[str, dict[str, Setting]]
"""Settings by section, such as model and train."""

_WORDS = {
    float: "a number",
    int: "a whole number",
    str: "text",
    bool: "true or false",
    type(None): "nothing",
}


def make_settings(cls: type[T], values: Mapping[str, Any], owner: str) -> T:
    """An instance of a settings dataclass; unknown names and wrong types are errors."""
    hints = get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    settings = {}
    for key, value in values.items():
        name = current_name(cls, key)
        if name not in names:
            raise ConfigError(f"{owner} has no setting '{key}'{did_you_mean(key, names)}")
        if not _fits(value, hints[name]):
            raise ConfigError(f"{owner}: {key} must be {_spell(hints[name])}, found {value!r}")
        settings[name] = tuple(value) if isinstance(value, list) else value
    return cls(**settings)


def current_name(cls: type | None, name: str) -> str:
    """The name of a setting today; `aliases`, a ClassVar of the class, maps earlier spellings."""
    aliases: Mapping[str, str] = getattr(cls, "aliases", {})
    return aliases.get(name, name)


def earlier_values(cls: type | None) -> Mapping[str, Setting]:
    """Values of settings that a file of an earlier version lacks, from a ClassVar of the class."""
    values: Mapping[str, Setting] = getattr(cls, "earlier_values", {})
    return values


def flat_settings(tables: Mapping[str, Mapping[str, Setting]]) -> dict[str, Setting]:
    """Settings by section as `section.setting`."""
    return {
        f"{section}.{name}": value
        for section, values in tables.items()
        for name, value in values.items()
    }


def parse_override(override: str) -> tuple[str, str, Setting]:
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


def toml_table(name: str, values: Mapping[str, Setting]) -> str:
    """A table of settings in TOML."""
    lines = [f"{_toml_key(key)} = {_toml_value(value)}\n" for key, value in values.items()]
    return "".join([f"[{name}]\n", *lines])


def _toml_key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() else f'"{key}"'


def _toml_value(value: Setting) -> str:
    if isinstance(value, float):
        return repr(value)
    if not isinstance(value, bool | int | str | tuple):
        raise TypeError(f"no TOML form for {value!r}")
    # What JSON escapes, TOML reads; but TOML wants the delete character escaped as well.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a hint names; a whole number is a number too."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in arguments)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_fits(item, arguments[0]) for item in value)
    if hint in (float, int):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    return isinstance(value, hint)


def _spell(hint: Any) -> str:
    """A type in words."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_spell(option) for option in arguments)
    if origin is Literal:
        return " or ".join(repr(option) for option in arguments)
    if origin is tuple:
        return f'a list of {_spell(arguments[0])}, such as ["a", "b"]'
    return _WORDS.get(hint, str(hint))
