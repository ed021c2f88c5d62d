"""Copies of the parts of an ensemble, trained without the facts that its gate is fitted on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.models.base import Model
from tempograph.training.callbacks import Callbacks
from tempograph.training.loop import LoopHooks, train_model
from tempograph.training.run_folder import HOLDOUT
from tempograph.training.runs import Run
from tempograph.training.setup import build_model
from tempograph.training.train_state import MetricsLine, TrainProgress


class Copies(NamedTuple):
    """An ensemble of copies, and how long their training took."""

    model: Model
    seconds: float


def train_copies(run: Run, graph: TemporalGraph, callbacks: Callbacks) -> Copies | None:
    """An ensemble of copies of a run's parts, trained on other facts; None if the time is up.

    A copy has the settings and the seed of its part, and stops at the epoch that was best for the
    part. So it needs no valid facts, and takes less time than the part.

    A folder in the run folder holds a checkpoint of each copy, from which an interrupted run
    resumes; a copy that was finished is loaded from it.
    """
    timeline = Timeline(graph, run.config.protocol, run.timeline.device)
    models, seconds = [], 0.0
    for name, part in run.parts.items():
        model = build_model(part.config, timeline, {})
        if part.config.recipe.gradient is not None:
            checkpoint = None if run.path is None else run.path / HOLDOUT / f"{name}.safetensors"
            of_copy = callbacks.for_part(f"{name} without the holdout")
            progress = train_copy(model, part, checkpoint, of_copy)
            if not progress.finished:
                return None
            seconds += progress.seconds
        model.eval()
        models.append(model)
    return Copies(run.config.kind.build(run.config.model, timeline, *models), seconds)


def train_copy(
    model: Model, part: Run, checkpoint: Path | None, callbacks: Callbacks
) -> TrainProgress:
    """Train a copy of a run that is trained by gradient, for the epochs that were best for it."""
    gradient, settings = part.config.recipe.gradient, part.config.train
    assert gradient is not None and settings is not None
    last_epoch = part.results.best_epoch or settings.epochs

    def on_epoch(line: MetricsLine, progress: TrainProgress) -> None:
        left = (last_epoch - progress.epoch) * progress.seconds / progress.epoch
        callbacks.report(line | {"left": left})

    hooks = LoopHooks(
        validate=None,
        on_epoch=on_epoch,
        save_weights=lambda: None,
        checkpoint=checkpoint,
        max_seconds=callbacks.seconds_left,
        last_epoch=last_epoch,
    )
    return train_model(model, gradient.loss(model, settings), settings, part.config.seed, hooks)
