"""One visible training loop: batches -> loss -> step -> validate -> keep the best -> stop early; resumable."""

from __future__ import annotations

import copy
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from lightning.fabric import Fabric
from safetensors import safe_open
from torch import Tensor, nn

from tempograph.errors import RunError
from tempograph.files import atomic_file
from tempograph.models.contract import Model
from tempograph.objective import TrainSettings
from tempograph.timeline import Timeline

Line = dict[str, float]


@dataclass
class Progress:
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
    """What the loop tells and asks of the outside."""

    validate: Callable[[Model], Line]
    report: Callable[[Line, Progress], None]
    keep_best: Callable[[Model], None]
    checkpoint: Path | None = None
    max_seconds: float | None = None


def fit(
    model: Model, loss: nn.Module, timeline: Timeline, settings: TrainSettings, seed: int, hooks: Hooks
) -> Progress:
    """Train until the epochs, the patience or the time are used up; the model ends with its best weights.

    With a checkpoint file that exists already, training goes on from it as if it had never stopped.
    """
    if settings.precision == "tf32":
        torch.set_float32_matmul_precision("high")
    fabric = Fabric(
        accelerator=model.device.type,
        devices=1,
        precision="32-true" if settings.precision == "tf32" else settings.precision,
    )
    optimizer = torch.optim.Adam(
        loss.parameters(), settings.learning_rate, weight_decay=settings.weight_decay, fused=model.device.type == "cuda"
    )
    generator = torch.Generator(model.device).manual_seed(seed)
    average = copy.deepcopy(model.state_dict()) if settings.average else None
    best: dict[str, Tensor] = {}
    progress = Progress()
    if hooks.checkpoint is not None and hooks.checkpoint.exists():
        progress = _load(hooks.checkpoint, model, optimizer, generator, average, best)
    step, optimizer = fabric.setup(loss, optimizer)
    busy = torch.unique(timeline.facts[:, 3])
    session = time.perf_counter()
    while not progress.finished:
        begin = time.perf_counter()
        total = torch.zeros((), device=model.device)
        shuffled = busy[torch.randperm(len(busy), device=busy.device, generator=generator)]
        batches = torch.split(shuffled, settings.times_per_step)
        model.train()
        for times in batches:
            value = step(times, generator)
            fabric.backward(value)
            fabric.clip_gradients(step, optimizer, max_norm=settings.clip, error_if_nonfinite=False)
            optimizer.step()
            optimizer.zero_grad()
            total += value.detach()
            if average is not None:
                _follow(average, model, settings.average)
        progress.epoch += 1
        line = {"epoch": progress.epoch, "loss": float(total) / len(batches), "seconds": time.perf_counter() - begin}
        if progress.epoch % settings.validate_every == 0 or progress.epoch == settings.epochs:
            _validate(model, average, best, progress, line, hooks)
        progress.history.append(line)
        progress.seconds += time.perf_counter() - begin
        waited = (progress.epoch - progress.best_epoch) // settings.validate_every
        progress.finished = progress.epoch >= settings.epochs or waited >= settings.patience
        if hooks.checkpoint is not None:
            _save(hooks.checkpoint, model, optimizer, generator, average, best, progress)
        hooks.report(line, progress)
        if hooks.max_seconds is not None and time.perf_counter() - session > hooks.max_seconds:
            break
    if best:
        model.load_state_dict(best)
    model.eval()
    return progress


def _validate(
    model: Model,
    average: dict[str, Tensor] | None,
    best: dict[str, Tensor],
    progress: Progress,
    line: Line,
    hooks: Hooks,
) -> None:
    """Measure the model, or its average, on valid; remember its weights when they are the best so far."""
    model.eval()
    current = {name: value.clone() for name, value in model.state_dict().items()}
    if average is not None:
        model.load_state_dict(average)
    found = hooks.validate(model)
    line |= {f"valid/{name}": value for name, value in found.items()}
    if found["mrr"] > progress.best_mrr:
        progress.best_mrr, progress.best_epoch = found["mrr"], progress.epoch
        best.update({name: value.clone() for name, value in model.state_dict().items()})
        hooks.keep_best(model)
    model.load_state_dict(current)


@torch.no_grad()
def _follow(average: dict[str, Tensor], model: nn.Module, share: float) -> None:
    names = list(average)
    state = model.state_dict()
    torch._foreach_lerp_([average[name] for name in names], [state[name] for name in names], 1 - share)


def _save(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    average: dict[str, Tensor] | None,
    best: dict[str, Tensor],
    progress: Progress,
) -> None:
    """Everything in one file, so that no kill can leave halves of two states."""
    tensors: dict[str, Tensor] = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    tensors |= {f"average.{name}": value for name, value in (average or {}).items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": torch.as_tensor(value) for name, value in state.items()}
    tensors["chance"] = generator.get_state()
    packed = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    with atomic_file(path) as temporary:
        safetensors.torch.save_file(packed, temporary, {"progress": json.dumps(progress.__dict__)})


def _load(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    average: dict[str, Tensor] | None,
    best: dict[str, Tensor],
) -> Progress:
    try:
        with safe_open(path, "pt") as file:
            progress = Progress(**json.loads(file.metadata()["progress"]))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        parts: dict[str, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            head, _, rest = name.partition(".")
            parts.setdefault(head, {})[rest] = value
        model.load_state_dict(parts["model"])
        device = next(model.parameters()).device
        best.update({name: value.to(device) for name, value in parts.get("best", {}).items()})
        if average is not None:
            for name, value in average.items():
                value.copy_(parts["average"][name])
        moments: dict[int, dict[str, Any]] = {}
        for name, value in parts.get("optimizer", {}).items():
            number, _, kind = name.partition(".")
            moments.setdefault(int(number), {})[kind] = value
        optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
        generator.set_state(parts["chance"][""])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, safetensors.SafetensorError) as error:
        raise RunError(f"{path}: the checkpoint is damaged: {' '.join(str(error).split())}") from error
    return progress
