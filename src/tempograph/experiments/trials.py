"""The trials of a search: which models and settings are worth a try on some data and a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import torch

from tempograph.data.graph import TemporalGraph
from tempograph.data.suggestions import did_you_mean
from tempograph.errors import ConfigError
from tempograph.models.registry import model_kind
from tempograph.training.config import Config
from tempograph.training.fit_record import SearchPlan
from tempograph.training.search_record import Trial
from tempograph.training.setting_values import Setting, parse_override
from tempograph.training.setup import configure

FIRST_MODEL: Final = "ted"
"""The model that is usable within seconds: it counts facts and learns nothing."""
ENSEMBLE: Final = "ensemble"
"""The model that combines trials."""
_CPU_MODELS: Final = ("pointer", "tntcomplex")
_GPU_MODELS: Final = ("pointer", "tntcomplex", "temp-gru")
_USUAL_PENALTY: Final = 0.01
"""The weight of penalties to vary if the rules have none."""


def candidate_trials(
    graph: TemporalGraph, device: torch.device, plan: SearchPlan, seed: int
) -> list[Trial]:
    """The trials of a search, the cheapest of each model first.

    A requested model varies in all ways, on a GPU the others do as well; on a CPU, each has one
    variant. Overrides apply to the models that have the setting, and win over what a trial varies.

    Raises:
        ConfigError: The requested model combines others, or no model has an overridden setting.
    """
    rules, gpu = plan.rules.model, device.type == "cuda"
    if plan.requested and model_kind(rules).has_parts:
        raise ConfigError(
            f"a search combines models itself, so it cannot be one of {rules}; "
            "leave out the model or the minutes"
        )
    others = _GPU_MODELS if gpu else _CPU_MODELS
    models = [rules] if plan.requested else sorted(others, key=lambda name: name != rules)
    trials, known, settings = list[Trial](), set[str](), set[str]()
    for model in models:
        suggested = configure(graph, model, device, seed=seed)
        names = suggested.flat().keys()
        given = tuple(each for each in plan.overrides if _setting(each) in names)
        settings |= names
        variants = list(_variants(suggested))
        for name, overrides in variants if gpu or plan.requested else variants[:2]:
            trial = Trial(f"{model}{name}", model, (*overrides, *given))
            config = configure(graph, model, device, seed=seed, overrides=trial.overrides)
            if (key := repr(config.flat())) not in known:
                known.add(key)
                trials.append(trial)
    for override in plan.overrides:
        if (name := _setting(override)) not in settings:
            raise ConfigError(
                f"none of the models has a setting '{name}'{did_you_mean(name, sorted(settings))}"
            )
    return trials


def _variants(config: Config) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Suffixes of names and overrides, from the settings that a model has; cheap ones first."""
    settings = config.flat()
    votes = {name: value for name, value in settings.items() if name.startswith("model.max_facts")}
    # Smoothness is that of the vectors of time steps, which only these relations have.
    stepwise = settings.get("model.relations") in ("shifted", "factored")
    penalties = ("train.n3", "train.smoothness") if stepwise else ("train.n3",)
    rate = settings.get("train.learning_rate")
    if votes:
        yield "-fewer-facts", _scaled(votes, 1 / 8)
        yield "", ()
        yield "-more-facts", _scaled(votes, 2)
        yield "-no-paths", ("model.paths=false",)
    elif "train.n3" in settings:
        usual = {name: settings[name] or _USUAL_PENALTY for name in penalties}
        yield "", ()
        yield "-strong-penalties", _scaled(usual, 10)
        yield "-weak-penalties", _scaled(usual, 1 / 10)
    else:
        yield "", ()
        if rate is not None:
            yield "-fast", _scaled({"train.learning_rate": rate}, 3)
            yield "-slow", _scaled({"train.learning_rate": rate}, 1 / 3)


def _scaled(settings: Mapping[str, Setting], factor: float) -> tuple[str, ...]:
    """Overrides that scale the numbers that are not 0; whole numbers stay whole."""
    overrides = []
    for name, value in settings.items():
        assert isinstance(value, int | float)
        whole = isinstance(value, int)
        scaled = str(max(1, round(value * factor))) if whole else f"{value * factor:.6g}"
        overrides += [f"{name}={scaled}"] if value else []
    return tuple(overrides)


def _setting(override: str) -> str:
    return ".".join(parse_override(override)[:2])
