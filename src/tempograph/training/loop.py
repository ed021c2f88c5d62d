"""One visible training loop: batches -> loss -> step -> validate -> keep the best -> stop early; resumable."""

from __future__ import annotations

import atexit
import copy
import json
import logging
import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor

from tempograph.device import explain_out_of_memory
from tempograph.errors import RunError
from tempograph.io import atomic_file
from tempograph.models.base import Model
from tempograph.training.distributed import Processes
from tempograph.training.objective import Objective
from tempograph.training.settings import TrainSettings

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Line = dict[str, float]


@dataclass
class Training:
    """How far training is: everything that a resumed run must know besides weights, optimiser and chance."""

    epoch: int = 0
    best_epoch: int = 0
    best_mrr: float = -1.0
    seconds: float = 0.0
    finished: bool = False
    history: list[Line] = field(default_factory=list)

    @property
    def epoch_seconds(self) -> float | None:
        """The median time of a training epoch, validation not counted."""
        return statistics.median(line["seconds"] for line in self.history) if self.history else None


@dataclass(frozen=True)
class Hooks:
    """What the loop tells and asks of the caller."""

    validate: Callable[[Model], Line]
    report: Callable[[Line, Training], None]
    keep_weights: Callable[[Model], None]
    checkpoint: Path | None = None
    max_seconds: float | None = None


def fit(
    model: Model, loss: Objective, settings: TrainSettings, seed: int, hooks: Hooks
) -> Training:
    """Train until the epochs, the patience or the time are used up; the model ends with its best weights.

    With a checkpoint file that exists already, training goes on from it as if it had never stopped.
    """
    sizes = ("facts_per_step", "times_per_step")
    at_once = " or ".join(
        f"train.{name} below {getattr(settings, name)}" for name in sizes if hasattr(settings, name)
    )
    with (
        _matmuls(settings),
        explain_out_of_memory(
            "training", f"take fewer at once, with {at_once}, or a smaller model"
        ),
    ):
        return _fit(model, loss, settings, seed, hooks)


def _fit(
    model: Model, loss: Objective, settings: TrainSettings, seed: int, hooks: Hooks
) -> Training:
    processes = Processes.here()
    fabric = _fabric(model.device, settings, processes)
    state = _State(model, loss, settings, seed)
    if hooks.checkpoint is not None and hooks.checkpoint.exists():
        state.load(hooks.checkpoint)
    progress = state.progress
    step, optimizer = fabric.setup(loss, state.optimizer)
    started = time.perf_counter()
    while not progress.finished:
        begin = time.perf_counter()
        total = torch.zeros((), device=model.device)
        # Each process draws in its own way within an epoch, and all begin the next one alike.
        state.generator.set_state(fabric.broadcast(state.generator.get_state()))
        batches = processes.share(loss.batches(state.generator))
        for group in state.optimizer.param_groups:
            group["lr"] = settings.rate_at(progress.epoch)
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
            state.follow()
        progress.epoch += 1
        line = {
            "epoch": progress.epoch,
            "loss": float(total) / len(batches),
            "seconds": time.perf_counter() - begin,
        }
        if math.isnan(line["loss"]):
            raise RunError(
                f"epoch {progress.epoch}: the loss is not a number any more; train with train.learning_rate below "
                f"{settings.learning_rate:g}, or with gradients shortened by train.clip"
            )
        if progress.epoch % settings.validate_every == 0 or progress.epoch == settings.epochs:
            state.validate(line, hooks, fabric)
        if not progress.best_epoch:
            # Asked before it was ever validated, a run answers from what it has learned so far.
            hooks.keep_weights(model)
        progress.history.append(line)
        progress.seconds += time.perf_counter() - begin
        waited = (progress.epoch - progress.best_epoch) // settings.validate_every
        progress.finished = progress.epoch >= settings.epochs or waited >= settings.patience
        if hooks.checkpoint is not None and processes.leads:
            state.save(hooks.checkpoint)
        hooks.report(line, progress)
        late = hooks.max_seconds is not None and time.perf_counter() - started > hooks.max_seconds
        if fabric.broadcast(late):
            break
    if state.best:
        model.load_state_dict(state.best)
    model.eval()
    return progress


class _State:
    """All that changes in training: weights, their average, the best ones, the optimiser, chance and progress."""

    def __init__(self, model: Model, loss: Objective, settings: TrainSettings, seed: int) -> None:
        self.model = model
        self.share = settings.average
        self.optimizer = _optimizer(loss, settings)
        self.generator = torch.Generator(model.device).manual_seed(seed)
        self.average = copy.deepcopy(model.state_dict()) if settings.average else {}
        self.best: dict[str, Tensor] = {}
        self.progress = Training()

    @torch.no_grad()
    def follow(self) -> None:
        """Let the average follow the weights."""
        if self.average:
            weights = self.model.state_dict()
            torch._foreach_lerp_(
                list(self.average.values()),
                [weights[name] for name in self.average],
                1 - self.share,
            )

    def validate(self, line: Line, hooks: Hooks, fabric: Fabric) -> None:
        """Measure the model, or its average, on valid; remember its weights when they are the best so far."""
        self.model.eval()
        current = _copied(self.model.state_dict())
        if self.average:
            self.model.load_state_dict(self.average)
        found: Line = fabric.broadcast(hooks.validate(self.model) if fabric.is_global_zero else {})
        line |= {f"valid/{name}": value for name, value in found.items()}
        if found["mrr"] > self.progress.best_mrr:
            self.progress.best_mrr, self.progress.best_epoch = found["mrr"], self.progress.epoch
            self.best = _copied(self.model.state_dict())
            hooks.keep_weights(self.model)
        self.model.load_state_dict(current)

    def save(self, path: Path) -> None:
        """Write everything into one file, so that no kill can leave halves of two states."""
        parts = {"model": self.model.state_dict(), "best": self.best, "average": self.average}
        tensors = {
            f"{part}.{name}": value
            for part, values in parts.items()
            for name, value in values.items()
        }
        for number, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {
                f"optimizer.{number}.{name}": torch.as_tensor(value)
                for name, value in moments.items()
            }
        tensors["chance."] = self.generator.get_state()
        about = {
            "progress": json.dumps(self.progress.__dict__),
            "device": self.generator.device.type,
        }
        packed = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        with atomic_file(path) as temporary:
            safetensors.torch.save_file(packed, temporary, about)

    def load(self, path: Path) -> None:
        """Take up where a file left off."""
        try:
            with safe_open(path, "pt") as file:
                about = file.metadata()
                self.progress = Training(**json.loads(about["progress"]))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            made_on, here = about.get("device"), self.generator.device.type
            if made_on not in (None, here):
                raise RunError(
                    f"{path}: made on {made_on}, and chance goes on differently on {here}; use --device {made_on}"
                )
            parts: dict[str, dict[str, Tensor]] = {"best": {}, "average": {}, "optimizer": {}}
            for name, value in tensors.items():
                part, _, rest = name.partition(".")
                parts.setdefault(part, {})[rest] = value
            self.model.load_state_dict(parts["model"])
            self.best = {name: value.to(self.model.device) for name, value in parts["best"].items()}
            for name, value in self.average.items():
                value.copy_(parts["average"][name])
            moments: dict[int, dict[str, Any]] = {}
            for name, value in parts["optimizer"].items():
                number, _, kind = name.partition(".")
                moments.setdefault(int(number), {})[kind] = value
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
            self.generator.set_state(parts["chance"][""])
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            RuntimeError,
            safetensors.SafetensorError,
        ) as error:
            raise RunError(
                f"{path}: the checkpoint is damaged: {' '.join(str(error).split())}"
            ) from error


@contextmanager
def _matmuls(settings: TrainSettings) -> Iterator[None]:
    """Matrix products as exact as the settings say, and after training as they were."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if settings.precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _fabric(device: torch.device, settings: TrainSettings, processes: Processes) -> Fabric:
    # Imported here, for ranking and fitting without a gradient need not wait for it.
    from lightning.fabric import Fabric

    # It would repeat the precision that the settings say, or advise another.
    for name in ("lightning.fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    fabric = Fabric(
        accelerator=device.type,
        devices=processes.local_size,
        num_nodes=processes.size // processes.local_size,
        # A step whose snapshots have no target facts leaves some weights without a gradient.
        strategy="ddp_find_unused_parameters_true" if processes.size > 1 else "auto",
        precision="32-true" if settings.precision == "tf32" else settings.precision,
    )
    fabric.launch()
    if processes.size > 1:
        # Lightning does so for GPUs alone, and a process that ends with its connections open now and then aborts.
        atexit.register(_disconnect)
    return fabric


def _disconnect() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _optimizer(loss: Objective, settings: TrainSettings) -> torch.optim.Optimizer:
    weights = list(loss.parameters())
    on_gpu = weights[0].device.type == "cuda"
    if settings.optimizer == "adagrad":
        return torch.optim.Adagrad(
            weights, settings.learning_rate, weight_decay=settings.weight_decay, foreach=on_gpu
        )
    return torch.optim.Adam(
        weights, settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )


def _copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in state.items()}
