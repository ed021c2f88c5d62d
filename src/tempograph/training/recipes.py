"""How each family of models is trained, by its class of settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.errors import ConfigError
from tempograph.models.base import Model
from tempograph.models.embedding.embedding_settings import EmbeddingSettings
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.models.pointer.pointer_model import PointerSettings
from tempograph.models.recurrency import RecurrencySettings
from tempograph.models.registry import MODELS, ModelKind
from tempograph.models.ted import PAPER_SIGMAS, TED, TEDSettings
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.training.defaults import (
    Suggest,
    suggest_embedding,
    suggest_ensemble,
    suggest_pointer,
    suggest_temp,
)
from tempograph.training.ensemble_fit import fit_ensemble, hold_out
from tempograph.training.losses.embedding_loss import EmbeddingLoss
from tempograph.training.losses.pointer_loss import PointerLoss
from tempograph.training.losses.sharded_loss import ShardedLoss
from tempograph.training.losses.temp_loss import TeMPLoss
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.recurrency_fit import fit_recurrency
from tempograph.training.run_results import GateSummary
from tempograph.training.settings import (
    FactTrainSettings,
    PointerTrainSettings,
    SnapshotTrainSettings,
    TrainSettings,
)
from tempograph.typing import MetricsCallback, Progress, Protocol

Validate = Callable[[Model], dict[str, float]]
"""The metrics of a model on valid; raises DataError if valid has no facts."""


@dataclass(frozen=True)
class GradientTraining:
    """Gradient descent on a loss."""

    loss: Callable[[Any, Any], TrainingLoss]
    """Called with the model and the training settings."""
    settings: type[TrainSettings]
    suggest: Suggest
    """Defaults for a dataset and a device."""
    sharded_loss: Callable[[Any, Any], TrainingLoss] | None = None
    """The loss of a model whose tables are sharded over processes, if its kind can be."""


@dataclass(frozen=True)
class Recipe:
    """How a family of models is trained: by gradient, by choosing or by combining parts."""

    gradient: GradientTraining | None = None
    choose: Callable[[Any, Timeline, Validate, MetricsCallback], Any] | None = None
    """Choose settings on valid: settings as given -> settings as fitted.

    A model with nothing to train may return the settings it is given.
    """
    combine: (
        Callable[[Any, TemporalGraph, int, MetricsCallback, Progress | None], GateSummary | None]
        | None
    ) = None
    """Fit on valid what combines parts, or what weighs the facts of a baseline.

    Called with model, data, seed, report and progress; returns the summary of a gate, if any.
    """
    hold_out: Callable[[Any, TemporalGraph, int, Protocol], TemporalGraph | None] | None = None
    """The data that `combine` is called with: the facts in other splits.

    Called with settings, data, seed and protocol.

    Copies of the parts are trained on its train facts, for `combine` to combine instead of the
    parts. None for the data of the run and the parts themselves.
    """
    suggest: Suggest | None = None
    """Defaults for a dataset and a device, if it is not trained by gradient."""
    combine_needs_valid: Callable[[Any], str | None] | None = None
    """From settings to what `combine` needs valid facts for, in words; None for nothing."""

    def needs_valid(self, settings: object) -> str | None:
        """What training needs valid facts for, in words; None if it can do without.

        What chooses settings on valid says so itself when it has to.
        """
        if self.gradient is not None:
            return "to know when to stop"
        if self.combine_needs_valid is not None:
            return self.combine_needs_valid(settings)
        return None if self.combine is None else "to fit what it combines"

    @property
    def suggest_settings(self) -> Suggest | None:
        """Defaults for a dataset and a device; None if the same defaults are for all."""
        return self.suggest if self.gradient is None else self.gradient.suggest


def choose_sigma(
    settings: TEDSettings, timeline: Timeline, validate: Validate, report: MetricsCallback
) -> TEDSettings:
    """The settings with sigma as given; for `auto`, the paper's sigma with the best valid MRR."""
    if not isinstance(settings.sigma, str):
        return settings
    mrr: dict[float, float] = {}
    for sigma in PAPER_SIGMAS:
        metrics = validate(TED(timeline, sigma))
        mrr[sigma] = metrics["mrr"]
        report({"sigma": sigma} | {f"valid/{name}": value for name, value in metrics.items()})
    return TEDSettings(sigma=max(mrr, key=lambda sigma: mrr[sigma]))


def _recurrency_needs_valid(settings: RecurrencySettings) -> str | None:
    return "to choose a decay for each relation" if settings.fit else None


def _ensemble_needs_valid(settings: EnsembleSettings) -> str:
    return "to fit its gate" if settings.fit_on == "valid" else "to know when its parts should stop"


_RECIPES: Final[dict[type, Recipe]] = {
    TEDSettings: Recipe(choose=choose_sigma),
    RecurrencySettings: Recipe(combine=fit_recurrency, combine_needs_valid=_recurrency_needs_valid),
    EmbeddingSettings: Recipe(
        GradientTraining(EmbeddingLoss, FactTrainSettings, suggest_embedding, ShardedLoss)
    ),
    PointerSettings: Recipe(GradientTraining(PointerLoss, PointerTrainSettings, suggest_pointer)),
    TeMPSettings: Recipe(GradientTraining(TeMPLoss, SnapshotTrainSettings, suggest_temp)),
    EnsembleSettings: Recipe(
        combine=fit_ensemble,
        hold_out=hold_out,
        suggest=suggest_ensemble,
        combine_needs_valid=_ensemble_needs_valid,
    ),
}


def register_recipe(settings: type, recipe: Recipe) -> None:
    """Register how models with this settings class are trained; for models of other packages."""
    if settings in _RECIPES:
        raise ConfigError(f"models with {settings.__name__} have a training recipe already")
    _RECIPES[settings] = recipe


def recipe_for(kind: ModelKind) -> Recipe:
    """The training recipe of a kind of model."""
    if kind.settings not in _RECIPES:
        package = MODELS.package(kind.name)
        raise ConfigError(
            f"{f'{package}: ' if package else ''}model {kind.name} has no training recipe; "
            f"its module must call register_recipe({kind.settings.__name__}, ...); "
            "update or uninstall the package"
        )
    return _RECIPES[kind.settings]
