"""Every model by its name: its settings, how it is built, how it is fitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tempograph.errors import ConfigError, did_you_mean
from tempograph.models.contract import Model
from tempograph.models.ted import TED, TEDSettings, choose_sigma
from tempograph.timeline import Timeline

Validate = Callable[[Model], dict[str, float]]
"""The metrics of a model on valid; raises DataError when valid has no facts."""

Report = Callable[[dict[str, float]], None]
"""Takes one line of metrics.jsonl."""


@dataclass(frozen=True)
class ModelKind:
    """What the rest of the package needs to know of a kind of model."""

    name: str
    summary: str
    settings: type[Any]
    build: Callable[[Any, Timeline], Model]
    fit: Callable[[Any, Timeline, Validate, Report], Any]
    """Settings as asked for -> settings as fitted."""


MODELS: Final = {
    kind.name: kind
    for kind in (
        ModelKind(
            name="ted",
            summary="copy what happened near in time: counts that decay exponentially",
            settings=TEDSettings,
            build=lambda settings, timeline: TED(timeline, settings.sigma),
            fit=choose_sigma,
        ),
    )
}


def model_kind(name: str) -> ModelKind:
    """The kind of model with this name."""
    if name not in MODELS:
        raise ConfigError(f"there is no model '{name}'{did_you_mean(name, MODELS) or '; models: ' + ', '.join(MODELS)}")
    return MODELS[name]
