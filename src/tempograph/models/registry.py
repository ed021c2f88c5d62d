"""Every model by its name: its settings, how it is built, how it is fitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from torch import nn

from tempograph.errors import ConfigError, did_you_mean
from tempograph.models.contract import Model
from tempograph.models.ted import TED, TEDSettings, choose_sigma
from tempograph.models.temp import TeMP
from tempograph.models.temp_loss import TeMPLoss
from tempograph.models.temp_settings import TeMPSettings
from tempograph.objective import TrainSettings
from tempograph.timeline import Timeline

Validate = Callable[[Model], dict[str, float]]
"""The metrics of a model on valid; raises DataError when valid has no facts."""

Report = Callable[[dict[str, float]], None]
"""Takes one line of metrics.jsonl."""


@dataclass(frozen=True)
class ModelKind:
    """What the rest of the package needs to know of a kind of model.

    A model is trained by gradient when it has a loss, and otherwise by `choose`: settings as asked for -> as fitted.
    """

    name: str
    summary: str
    settings: type[Any]
    build: Callable[[Any, Timeline], Model]
    choose: Callable[[Any, Timeline, Validate, Report], Any] | None = None
    loss: Callable[[Any, TrainSettings], nn.Module] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Where the settings of this model differ from the defaults of their class."""


def _temp(name: str, summary: str, **defaults: Any) -> ModelKind:
    return ModelKind(
        name=name,
        summary=summary,
        settings=TeMPSettings,
        build=lambda settings, timeline: TeMP(timeline, settings, name),
        loss=TeMPLoss,
        defaults=defaults,
    )


MODELS: Final = {
    kind.name: kind
    for kind in (
        ModelKind(
            name="ted",
            summary="copy what happened near in time: counts that decay exponentially",
            settings=TEDSettings,
            build=lambda settings, timeline: TED(timeline, settings.sigma),
            choose=choose_sigma,
        ),
        _temp("temp-gru", "message passing in each snapshot, a recurrent memory across them", temporal="gru"),
        _temp("temp-sa", "message passing in each snapshot, attention across them", temporal="attention"),
        _temp(
            "srgcn",
            "message passing in the snapshot asked about, and nothing else",
            temporal="none",
            gate=False,
            imputation=False,
        ),
    )
}


def model_kind(name: str) -> ModelKind:
    """The kind of model with this name."""
    if name not in MODELS:
        raise ConfigError(f"there is no model '{name}'{did_you_mean(name, MODELS) or '; models: ' + ', '.join(MODELS)}")
    return MODELS[name]
