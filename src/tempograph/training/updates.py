"""The updates of a run: what they added to its data, and weights that were trained on it.

A run folder keeps them in `updates/N/`, where results.json says how many updates, N, there were.
The folder of an update is whole before results.json names it, so a run has either this update or
the one before.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import safetensors.torch
from safetensors import safe_open
from torch import Tensor

from tempograph.data.additions import ADDED_FACTS, Additions, AdditionSizes
from tempograph.data.graph import TemporalGraph
from tempograph.errors import DataError
from tempograph.io import atomic_folder
from tempograph.training.run_folder import FORMAT, UPDATES
from tempograph.training.run_results import UpdateSummary

_WEIGHTS: Final = "weights"


@dataclass(frozen=True, eq=False)
class TrainedWeights:
    """Weights of a training after an update, by the name of the model or of a part."""

    base: AdditionSizes
    """What had been added when they were trained."""
    epochs: int
    """Epochs of all trainings since the run was measured."""
    states: Mapping[str, Mapping[str, Tensor]]


@dataclass(frozen=True, eq=False)
class Updates:
    """What all updates of a run together added."""

    number: int
    additions: Additions
    trained: TrainedWeights | None = None

    def summary(self, graph: TemporalGraph) -> UpdateSummary:
        """What results.json says about the updates of a run on this graph."""
        entities, relations, steps, facts = self.additions.sizes
        return {
            "number": self.number,
            "facts": facts,
            "entities": entities,
            "relations": relations,
            "steps": steps,
            "last": (*graph.times, *self.additions.times)[-1],
            "epochs": 0 if self.trained is None else self.trained.epochs,
        }

    def write(self, run_folder: Path) -> None:
        """Write the folder of the last update, whole or not at all; nothing names it yet."""
        path = run_folder / UPDATES / str(self.number)
        with atomic_folder(path, ADDED_FACTS, overwrite=True) as folder:
            self.additions.write(folder)
            if self.trained is not None:
                (folder / _WEIGHTS).mkdir()
                for name, state in self.trained.states.items():
                    metadata = {
                        "format": FORMAT,
                        "epochs": str(self.trained.epochs),
                        **{key: str(size) for key, size in self.trained.base._asdict().items()},
                    }
                    weights = {key: each.detach().cpu().contiguous() for key, each in state.items()}
                    file = folder / _WEIGHTS / f"{name}.safetensors"
                    safetensors.torch.save_file(weights, file, metadata)

    @staticmethod
    def read(run_folder: Path, number: int, graph: TemporalGraph) -> Updates:
        """The updates of a run folder, of which there were `number`."""
        folder = run_folder / UPDATES / str(number)
        if not folder.is_dir():
            raise DataError(f"{folder}: the folder of the last update is missing")
        return Updates(number, Additions.read(folder, graph), _read_trained(folder / _WEIGHTS))

    def discard_earlier(self, run_folder: Path) -> None:
        """Remove what no process still reads: all but the last two updates, and unfinished ones."""
        for folder in (run_folder / UPDATES).iterdir():
            earlier = folder.name.isdigit() and int(folder.name) < self.number - 1
            if earlier or folder.name.startswith("."):
                shutil.rmtree(folder, ignore_errors=True)


def _read_trained(folder: Path) -> TrainedWeights | None:
    states: dict[str, dict[str, Tensor]] = {}
    metadata: dict[str, str] = {}
    for file in sorted(folder.glob("*.safetensors")):
        states[file.stem] = safetensors.torch.load_file(file)
        with safe_open(file, "pt") as opened:
            metadata = opened.metadata()
    if not states:
        return None
    base = AdditionSizes(*(int(metadata.get(name, "")) for name in AdditionSizes._fields))
    return TrainedWeights(base, int(metadata.get("epochs", "")), states)
