"""The learning rate schedule: constant, then a linear fall to a tenth over the last epochs."""

from __future__ import annotations

from tempograph.training.settings import TrainSettings


def learning_rate(settings: TrainSettings, epoch: int) -> float:
    """The learning rate of an epoch, counted from 0; it falls during the `cooldown`."""
    start = settings.epochs * (1 - settings.cooldown)
    cooled = max(0.0, (epoch + 1 - start) / max(1.0, settings.epochs - start))
    return settings.learning_rate * (1 - 0.9 * cooled)
