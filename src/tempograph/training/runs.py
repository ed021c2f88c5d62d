"""A run: a model with its data, settings, history and results, in memory and in a folder."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import safetensors.torch
import torch

from tempograph.data.folder import write_folder
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.device import environment
from tempograph.errors import StorageError
from tempograph.evaluation.calibration import calibrate
from tempograph.evaluation.evaluator import Evaluation
from tempograph.io import atomic_file, atomic_folder, lock_folder, write_json, write_text
from tempograph.models.base import Model
from tempograph.models.ensemble.ensemble_settings import part_names
from tempograph.training.config import Config
from tempograph.training.run_card import run_card
from tempograph.training.run_folder import (
    CHECKPOINT,
    FORMAT,
    PARTS,
    RANKS,
    RESULTS,
    RUN_MARKER,
    WEIGHTS,
    explain_damage,
    read_config,
    read_graph,
    read_history,
    read_results,
    read_weights,
)
from tempograph.training.run_results import RunResults
from tempograph.typing import Progress


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A trained model and everything that belongs to it. `path` is None until the run is saved.

    `parts` holds the runs of an ensemble's parts by name.
    """

    config: Config
    graph: TemporalGraph
    model: Model
    timeline: Timeline
    history: list[dict[str, float]]
    results: RunResults
    path: Path | None = None
    parts: Mapping[str, Run] = field(default_factory=dict)

    def __repr__(self) -> str:
        where = "" if self.path is None else f", in {self.path}"
        return f"Run({self.model.name} on {self.graph.describe_size()}{where})"

    @staticmethod
    def load(path: str | Path, device: torch.device | str = "cpu") -> Run:
        """Read a run folder."""
        folder = Path(path)
        with explain_damage(folder):
            config = read_config(folder)
            graph = read_graph(folder, config.dataset)
            return Run.load_with(folder, graph, Timeline(graph, config.protocol, device))

    @staticmethod
    def load_with(folder: Path, graph: TemporalGraph, timeline: Timeline) -> Run:
        """Read a run folder whose dataset is loaded already."""
        with explain_damage(folder):
            config, results = read_config(folder), read_results(folder)
            weights = read_weights(folder, config)
            names = part_names(config.model.parts) if config.kind.has_parts else ()
            parts = {name: Run.load_with(folder / PARTS / name, graph, timeline) for name in names}
            models = (part.model for part in parts.values())
            model = config.kind.build(config.model, timeline, *models)
            model.load_state_dict(weights)
            model.eval()
        return Run(config, graph, model, timeline, read_history(folder), results, folder, parts)

    @staticmethod
    def from_pretrained(path: str | Path, device: torch.device | str = "cpu") -> Run:
        """Read a folder that `save_pretrained` or `tempograph train` wrote on any machine."""
        return Run.load(path, device)

    def save_pretrained(self, path: str | Path, overwrite: bool = False) -> Run:
        """Write a folder that holds everything needed to use this run on another machine."""
        return self.save(Path(path), overwrite)

    def save(self, path: Path, overwrite: bool = False) -> Run:
        """Write the run folder, whole or not at all."""
        with atomic_folder(path, RUN_MARKER, overwrite) as folder:
            write_folder(self.graph, folder / "dataset")
            self._write(folder)
        return self._moved(path)

    def _write(self, folder: Path) -> None:
        """Write everything but the dataset."""
        saved = dataclasses.replace(self, path=folder)
        write_text(folder / RUN_MARKER, self.config.to_toml())
        saved.write_history()
        saved.write_weights()
        seed_and_protocol = {"seed": self.config.seed, "protocol": self.config.protocol}
        write_json(folder / "environment.json", environment(self.model.device) | seed_and_protocol)
        saved.write_results()
        for name, part in self.parts.items():
            if part.path is None:
                part._write(folder / PARTS / name)
            else:
                skipped = shutil.ignore_patterns("dataset", CHECKPOINT, RANKS, "tensorboard")
                shutil.copytree(part.path, folder / PARTS / name, ignore=skipped)

    def _moved(self, path: Path) -> Run:
        parts = {name: part._moved(path / PARTS / name) for name, part in self.parts.items()}
        return dataclasses.replace(self, path=path, parts=parts)

    @property
    def checkpoint(self) -> Path | None:
        """The file from which an interrupted training resumes."""
        return None if self.path is None else self.path / CHECKPOINT

    def write_history(self) -> None:
        """Write metrics.jsonl."""
        if self.path is not None:
            lines = "".join(json.dumps(line) + "\n" for line in self.history)
            write_text(self.path / "metrics.jsonl", lines)

    def write_weights(self) -> None:
        """Write model.safetensors."""
        if self.path is not None:
            state = self.model.state_dict().items()
            weights = {name: value.detach().cpu().contiguous() for name, value in state}
            with atomic_file(self.path / WEIGHTS) as temporary:
                safetensors.torch.save_file(weights, temporary, {"format": FORMAT})

    def write_results(self) -> None:
        """Write results.json and the card."""
        if self.path is not None:
            write_json(self.path / RESULTS, self.results.to_json())
            card = run_card(self.config, self.graph, self.results, list(self.parts))
            write_text(self.path / "README.md", card)

    def update_results(self, **changes: Any) -> None:
        """Set fields of the results and write them; changes other processes have written stay."""
        vars(self.results).update(changes)
        if self.path is not None:
            with lock_folder(self.path):
                vars(self.results).update(vars(read_results(self.path)) | changes)
                self.write_results()

    def discard_evaluations(self) -> None:
        """Drop figures, ranks and temperature: they were measured with weights that will change."""
        self.results.discard_evaluations()
        if self.path is not None:
            with lock_folder(self.path):
                self.write_results()
                (self.path / RANKS).unlink(missing_ok=True)

    def save_evaluation(self, evaluation: Evaluation) -> None:
        """Add ranks to ranks.parquet, and figures to results.json and the card."""
        if self.path is not None:
            with lock_folder(self.path), explain_damage(self.path):
                _add_ranks(evaluation, self.path / RANKS)
        changes = {evaluation.split: evaluation.summary()} if evaluation.filter == "time" else {}
        self.update_results(**changes)

    def fit_temperature(self, progress: Progress | None = None) -> float | None:
        """The temperature of the softmax, fitted on valid at the first call and kept.

        It is None if the scores are not log-probabilities, and 1 if there are no valid facts.
        """
        if not self.model.probabilistic:
            return None
        if self.results.calibration is None and len(self.graph.valid):
            # In a folder that may not be written the temperature is fitted by each process.
            with suppress(StorageError):
                self.update_results(calibration=calibrate(self.model, self.graph, progress))
        calibration = self.results.calibration
        return 1.0 if calibration is None else calibration["temperature"]


def _add_ranks(evaluation: Evaluation, file: Path) -> None:
    table = evaluation.table()
    if file.exists():
        old = pq.read_table(file, read_dictionary=["side", "split", "filter"])
        same = pc.and_(
            pc.equal(old["split"], evaluation.split), pc.equal(old["filter"], evaluation.filter)
        )
        others = old.filter(pc.invert(same))
        table = pa.concat_tables([others, table.cast(old.schema)]).unify_dictionaries()
    with atomic_file(file) as temporary:
        pq.write_table(table, temporary)
