"""The state of a training run, and the checkpoint file that it resumes from."""

from __future__ import annotations

import copy
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from tempograph.errors import RunError
from tempograph.io import atomic_file
from tempograph.models.base import Model
from tempograph.nn.sharded_entities import sharded_weights
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.settings import TrainSettings
from tempograph.training.sharded_checkpoint import (
    read_checkpoint,
    remove_shards,
    save_sharded_checkpoint,
)
from tempograph.training.sparse_adagrad import SparseAdagrad

MetricsLine = dict[str, float]
"""One line of metrics.jsonl."""


@dataclass
class TrainProgress:
    """How far training has come."""

    epoch: int = 0
    best_epoch: int = 0
    best_mrr: float = -1.0
    seconds: float = 0.0
    finished: bool = False
    history: list[MetricsLine] = field(default_factory=list)

    @property
    def epoch_seconds(self) -> float | None:
        """The median time of a training epoch, validation not counted."""
        return statistics.median(line["seconds"] for line in self.history) if self.history else None


class TrainState:
    """Everything that changes in training: weights, their average, the best ones, the optimizer,
    the random generator and the progress.
    """

    def __init__(
        self, model: Model, loss: TrainingLoss, settings: TrainSettings, seed: int
    ) -> None:
        self.model = model
        self.decay = settings.average
        self.optimizer = _make_optimizer(loss, settings)
        self.generator = torch.Generator(model.device).manual_seed(seed)
        self.average = copy.deepcopy(model.state_dict()) if settings.average else {}
        self.best: dict[str, Tensor] = {}
        self.progress = TrainProgress()

    @torch.no_grad()
    def update_average(self) -> None:
        """Move the average of the weights towards the weights."""
        if self.average:
            weights = self.model.state_dict()
            torch._foreach_lerp_(
                list(self.average.values()),
                [weights[name] for name in self.average],
                1 - self.decay,
            )

    def save(self, path: Path) -> None:
        """Write everything into one file, so that a kill leaves the old state or the new one.

        Of sharded tables, each process writes its rows to a file of its own; all must call this.
        """
        tensors = {
            f"{part}.{name}": value
            for part, values in (
                ("model", self.model.state_dict()),
                ("best", self.best),
                ("average", self.average),
            )
            for name, value in values.items()
        }
        for number, moments in self.optimizer.state_dict()["state"].items():
            for name, value in moments.items():
                tensors[f"optimizer.{number}.{name}"] = torch.as_tensor(value)
        tensors["generator."] = self.generator.get_state()
        metadata = {"progress": json.dumps(vars(self.progress)), "device": self.model.device.type}
        packed = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        if self.model.shards is not None:
            save_sharded_checkpoint(
                path, packed, metadata, self._is_sharded, self.progress.epoch, self.model.shards
            )
            return
        with atomic_file(path) as temporary:
            safetensors.torch.save_file(packed, temporary, metadata)
        remove_shards(path)

    def _is_sharded(self, name: str) -> bool:
        """Whether a name in a checkpoint is a table with a row for each row of a sharded weight."""
        weights = sharded_weights(self.model)
        tables = {id(each.entity) for each in weights.values()}
        part, _, rest = name.partition(".")
        if part != "optimizer":
            return rest in weights
        number, _, kind = rest.partition(".")
        weight = self.optimizer.param_groups[0]["params"][int(number)]
        return id(weight) in tables and kind != "step"

    def load(self, path: Path) -> None:
        """Restore what `save` wrote."""
        errors = (OSError, ValueError, KeyError, TypeError, RuntimeError)
        try:
            self._load(path)
        except (*errors, safetensors.SafetensorError) as error:
            reason = " ".join(str(error).split())
            raise RunError(f"{path}: the checkpoint is damaged: {reason}") from error

    def _load(self, path: Path) -> None:
        parts: dict[str, dict[str, Tensor]] = {"best": {}, "average": {}, "optimizer": {}}
        metadata, tensors = read_checkpoint(path, self._is_sharded, self.model.shards)
        self.progress = TrainProgress(**json.loads(metadata["progress"]))
        for name, value in tensors.items():
            part, _, rest = name.partition(".")
            parts.setdefault(part, {})[rest] = value
        device, here = metadata.get("device"), self.generator.device.type
        if device not in (None, here):
            raise RunError(
                f"{path}: made on {device}, and random numbers differ on {here}; "
                f"use --device {device}"
            )
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
        # Checkpoints of earlier versions name the generator `chance`.
        generator = parts["generator"] if "generator" in parts else parts["chance"]
        self.generator.set_state(generator[""])


def _make_optimizer(loss: TrainingLoss, settings: TrainSettings) -> torch.optim.Optimizer:
    weights = list(loss.parameters())
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "adagrad":
        return SparseAdagrad(weights, rate, weight_decay=decay, foreach=weights[0].is_cuda)
    adam = torch.optim.Adam(weights, rate, weight_decay=decay, fused=True)
    # Fused steps do not count as changes of the weights, and models keep tables until one.
    adam.register_step_post_hook(lambda *_: torch.autograd.graph.increment_version(weights))
    return adam
