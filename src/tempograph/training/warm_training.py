"""Train a run further on what updates added: a few epochs from the weights that it has."""

from __future__ import annotations

import dataclasses
from typing import Final

from tempograph.data.timeline import Timeline
from tempograph.errors import QueryError, RunError
from tempograph.models.growth import grow_weights
from tempograph.training.answering import answering_graph, base_models
from tempograph.training.callbacks import Callbacks
from tempograph.training.loop import LoopHooks, train_model
from tempograph.training.runs import Run
from tempograph.training.settings import TrainSettings
from tempograph.training.train_state import MetricsLine, TrainProgress
from tempograph.training.updates import TrainedWeights

_SLOWER: Final = 0.1
"""The share of the learning rate: where the schedule of a training ends."""


def train_further(run: Run, epochs: int, callbacks: Callbacks) -> tuple[Run, tuple[str, ...]]:
    """The run with weights that were trained on all facts that answers rest on, and the models.

    Every model that is trained by gradient, or part that is, sees all facts once in an epoch, the
    old and the new ones; the gate of an ensemble stays as it is. New steps get weights of their
    own, which start as those of the last step. The learning rate is a tenth of the run's.
    """
    updates = run.updates
    assert updates is not None
    graph = answering_graph(run)
    timeline = Timeline(graph, run.config.protocol, run.timeline.device)
    bases, states = base_models(run, timeline), {}
    for name, each in run.single_models.items():
        gradient, settings = each.config.recipe.gradient, each.config.train
        if gradient is None or settings is None:
            continue
        model = each.config.kind.build(each.config.model, timeline)
        try:
            grow_weights(bases[name], model, bases[name].timeline, timeline)
        except QueryError as error:
            raise RunError(f"{name} cannot be trained further: {error}; train it again") from error
        loss = gradient.loss(model, _settings(settings, epochs))
        hooks = _hooks(epochs, callbacks.for_part(name) if run.parts else callbacks)
        train_model(model, loss, _settings(settings, epochs), run.config.seed, hooks)
        states[name] = model.state_dict()
    if not states:
        return run, ()
    before = 0 if updates.trained is None else updates.trained.epochs
    trained = TrainedWeights(updates.additions.sizes, before + epochs, states)
    trained_run = run.with_updates(dataclasses.replace(updates, trained=trained))
    return trained_run, tuple(states)


def _settings(settings: TrainSettings, epochs: int) -> TrainSettings:
    rate = _SLOWER * settings.learning_rate
    return dataclasses.replace(settings, epochs=epochs, learning_rate=rate, cooldown=0.0)


def _hooks(epochs: int, callbacks: Callbacks) -> LoopHooks:
    def on_epoch(line: MetricsLine, progress: TrainProgress) -> None:
        left = (epochs - progress.epoch) * progress.seconds / progress.epoch
        callbacks.report(line | {"left": left})

    return LoopHooks(validate=None, on_epoch=on_epoch, save_weights=lambda: None, last_epoch=epochs)
