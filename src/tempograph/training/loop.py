"""The training loop: batches -> loss -> step -> validate -> keep the best -> stop early."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from tempograph.device import explain_out_of_memory
from tempograph.errors import RunError
from tempograph.models.base import Model
from tempograph.training.distributed import Processes, launch_fabric
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.lost_processes import watch_processes
from tempograph.training.lr_schedule import learning_rate
from tempograph.training.settings import TrainSettings
from tempograph.training.train_state import MetricsLine, TrainProgress, TrainState

if TYPE_CHECKING:
    from lightning.fabric import Fabric


_SLOW_SAVING: Final = 0.1
"""Seconds that saving a checkpoint may take after every epoch."""
_MAX_SAVING: Final = 0.1
"""The share of the time that saving may take if it is slower."""


@dataclass(frozen=True)
class LoopHooks:
    """What the loop calls, and the limits it keeps."""

    validate: Callable[[Model], MetricsLine] | None
    """None to keep the weights of `last_epoch`, whatever they do on valid."""
    on_epoch: Callable[[MetricsLine, TrainProgress], None]
    save_weights: Callable[[], None]
    checkpoint: Path | None = None
    max_seconds: float | None = None
    last_epoch: int | None = None
    """The epoch to stop after; by default the last of the settings."""


def train_model(
    model: Model, loss: TrainingLoss, settings: TrainSettings, seed: int, hooks: LoopHooks
) -> TrainProgress:
    """Train until the epochs, the patience or the time are used up; then load the best weights.

    If the checkpoint file exists, training resumes from it as if it had never stopped.
    """
    smaller = " or ".join(
        f"train.{name} below {getattr(settings, name)}"
        for name in ("facts_per_step", "times_per_step")
        if hasattr(settings, name)
    )
    way_out = f"take smaller steps, with {smaller}, or a smaller model"
    processes = Processes.from_environment()
    folder = None if hooks.checkpoint is None else hooks.checkpoint.parent
    with _matmul_precision(settings), explain_out_of_memory("training", way_out):
        fabric = launch_fabric(model.device, settings, processes, sharded=loss.shares_batches)
        with watch_processes(processes, folder):
            return _train(model, loss, settings, seed, hooks, fabric)


def _train(
    model: Model,
    loss: TrainingLoss,
    settings: TrainSettings,
    seed: int,
    hooks: LoopHooks,
    fabric: Fabric,
) -> TrainProgress:
    processes, together = Processes.from_environment(), loss.shares_batches
    state = TrainState(model, loss, settings, seed)
    if hooks.checkpoint is not None and hooks.checkpoint.exists():
        state.load(hooks.checkpoint)
    progress = state.progress
    step, optimizer = fabric.setup(loss, state.optimizer)
    started = next_checkpoint = time.perf_counter()
    last_epoch = settings.epochs if hooks.last_epoch is None else hooks.last_epoch
    while not progress.finished:
        epoch_start = time.perf_counter()
        total = torch.zeros((), device=model.device)
        # Processes draw differently within an epoch, and start the next one in the same state.
        state.generator.set_state(fabric.broadcast(state.generator.get_state()))
        batches = loss.batches(state.generator)
        if not together:
            batches = processes.shard(batches)
        for group in state.optimizer.param_groups:
            group["lr"] = learning_rate(settings, progress.epoch)
        model.train()
        for batch in batches:
            value = step(batch, state.generator)
            fabric.backward(value)
            if settings.clip:
                fabric.clip_gradients(
                    step, optimizer, max_norm=settings.clip, error_if_nonfinite=False
                )
            optimizer.step()
            optimizer.zero_grad()
            total += value.detach()
            state.update_average()
        progress.epoch += 1
        if together:
            fabric.all_reduce(total, reduce_op="sum")
        line = {
            "epoch": progress.epoch,
            "loss": float(total) / len(batches),
            "seconds": time.perf_counter() - epoch_start,
        }
        if math.isnan(line["loss"]):
            raise RunError(
                f"epoch {progress.epoch}: the loss became NaN; lower "
                f"train.learning_rate from {settings.learning_rate:g}, or clip gradients with "
                "train.clip"
            )
        if hooks.validate is not None and (
            progress.epoch % settings.validate_every == 0 or progress.epoch == last_epoch
        ):
            _validate(state, line, hooks.validate, hooks.save_weights, fabric, together)
        if not progress.best_epoch:
            # A run that is used before its first validation answers with the weights so far.
            hooks.save_weights()
        progress.history.append(line)
        progress.seconds += time.perf_counter() - epoch_start
        waited = (progress.epoch - progress.best_epoch) // settings.validate_every
        impatient = hooks.validate is not None and waited >= settings.patience
        progress.finished = progress.epoch >= last_epoch or impatient
        passed = time.perf_counter() - started
        late = fabric.broadcast(hooks.max_seconds is not None and passed > hooks.max_seconds)
        due = progress.finished or late or time.perf_counter() >= next_checkpoint
        if together:
            due = fabric.broadcast(due)
        if hooks.checkpoint is not None and (processes.is_main or together) and due:
            next_checkpoint = _save_checkpoint(state, hooks.checkpoint)
        hooks.on_epoch(line, progress)
        if late:
            break
    weights = state.average if hooks.validate is None else state.best
    if weights:
        model.load_state_dict(weights)
    model.eval()
    return progress


def _save_checkpoint(state: TrainState, path: Path) -> float:
    """Save a checkpoint; return when the next one is due, by time.perf_counter.

    Large weights take longer to save than an epoch takes, so they are not saved after each.
    """
    started = time.perf_counter()
    state.save(path)
    ended = time.perf_counter()
    took = ended - started
    return ended + (took / _MAX_SAVING if took > _SLOW_SAVING else 0.0)


def _validate(
    state: TrainState,
    line: MetricsLine,
    validate: Callable[[Model], MetricsLine],
    save_weights: Callable[[], None],
    fabric: Fabric,
    together: bool,
) -> None:
    """Rank valid with the weights, or their average, and keep them if they are the best so far.

    The main process ranks, or all of them `together`.
    """
    model, progress = state.model, state.progress
    model.eval()
    weights = _copied(model.state_dict()) if state.average else None
    if weights:
        model.load_state_dict(state.average)
    ranks_here = together or fabric.is_global_zero
    metrics: MetricsLine = fabric.broadcast(validate(model) if ranks_here else {})
    line |= {f"valid/{name}": value for name, value in metrics.items()}
    if metrics["mrr"] > progress.best_mrr:
        progress.best_mrr, progress.best_epoch = metrics["mrr"], progress.epoch
        state.best = _copied(model.state_dict())
        save_weights()
    if weights:
        model.load_state_dict(weights)


def _copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in state.items()}


@contextmanager
def _matmul_precision(settings: TrainSettings) -> Iterator[None]:
    """Set the precision of matrix products during training."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if settings.precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
