"""A run: a model with its data, settings, history and results, in memory and in a folder."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import safetensors.torch
import torch

from tempograph.data.folder import write_folder
from tempograph.data.graph import TemporalGraph, sort_by_time
from tempograph.data.html_table import html_block, html_note, html_properties, html_title
from tempograph.data.importers.options import ImportOptions
from tempograph.data.timeline import Timeline
from tempograph.device import environment
from tempograph.errors import QueryError
from tempograph.evaluation.evaluations import Evaluation, QuestionEvaluation
from tempograph.evaluation.metrics_html import html_metrics
from tempograph.evaluation.rank_table import add_ranks
from tempograph.evaluation.ranking import Metrics
from tempograph.io import atomic_folder, lock_folder, write_json, write_text
from tempograph.models.base import Model
from tempograph.models.ensemble.ensemble_settings import part_names
from tempograph.progress import format_duration
from tempograph.training.config import Config
from tempograph.training.fit_record import FitRecord, read_fit_record
from tempograph.training.question_models import Answering, QuestionModels
from tempograph.training.run_card import run_card
from tempograph.training.run_folder import (
    CHECKPOINT,
    CHECKPOINT_ALL_FACTS,
    CLASSIFIER,
    HEADS,
    IMPORT,
    PARTS,
    RANKS,
    REFITTED,
    RESULTS,
    RUN_MARKER,
    WEIGHTS,
    explain_damage,
    read_config,
    read_graph,
    read_history,
    read_import_options,
    read_results,
    read_weights,
    write_weights,
)
from tempograph.training.run_results import RunResults

_NOT_COPIED: Final = (
    *("dataset", "tensorboard", RANKS, HEADS),
    *(CHECKPOINT, CHECKPOINT_ALL_FACTS),
)
"""Files of a part that an ensemble does not need."""


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A trained model and everything that belongs to it. `path` is None until the run is saved.

    `parts` holds the runs of an ensemble's parts by name. `import_options` are those of the import
    that made the data, if it was one: columns, time format and so on. `fit` is what `fit` read and
    chose, if it made the run.
    """

    config: Config
    graph: TemporalGraph
    model: Model
    timeline: Timeline
    history: list[dict[str, float]]
    results: RunResults
    path: Path | None = None
    parts: Mapping[str, Run] = field(default_factory=dict)
    import_options: ImportOptions | None = None
    fit: FitRecord | None = None

    def __repr__(self) -> str:
        where = "" if self.path is None else f", in {self.path}"
        return f"Run({self.model.name} on {self.graph.describe_size()}{where})"

    def _repr_html_(self) -> str:
        """The model, its data, its training and its metrics."""
        config, results = self.config, self.results
        seconds = results.train_seconds
        epoch = f", best epoch {results.best_epoch}" if results.best_epoch else ""
        properties = {
            "data": self.graph.describe_size(),
            "settings": f"protocol {config.protocol}, seed {config.seed}"
            + (f", preset {config.preset}" if config.preset else ""),
            "parameters": f"{results.parameters:,}",
            "training": "" if seconds is None else f"{format_duration(seconds)}{epoch}",
            "parts": ", ".join(self.parts),
            "folder": "" if self.path is None else str(self.path),
        }
        ranked: dict[str, Metrics] = {
            split: each["metrics"] for split, each in results.evaluations.items()
        }
        return html_block(
            html_title(f"{self.model.name} on {self.graph.name}"),
            html_properties(properties),
            html_metrics("split", ranked) if ranked else "",
            "" if results.finished else html_note("training is not finished; resume continues it"),
        )

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
        return Run(
            config,
            graph,
            model,
            timeline,
            read_history(folder),
            results,
            folder,
            parts,
            read_import_options(folder),
            read_fit_record(folder),
        )

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
        if self.import_options is not None:
            write_json(folder / IMPORT, dataclasses.asdict(self.import_options))
        if self.fit is not None:
            self.fit.write(folder)
        if self.path is not None:
            for fitted in (REFITTED, HEADS, CLASSIFIER):
                if (self.path / fitted).is_file():
                    shutil.copyfile(self.path / fitted, folder / fitted)
        saved.write_history()
        saved.write_weights()
        seed_and_protocol = {"seed": self.config.seed, "protocol": self.config.protocol}
        write_json(folder / "environment.json", environment(self.model.device) | seed_and_protocol)
        saved.write_results()
        for name, part in self.parts.items():
            if part.path is None:
                part._write(folder / PARTS / name)
            else:
                skipped = shutil.ignore_patterns(*_NOT_COPIED)
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
            write_weights(self.model, self.path / WEIGHTS)

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

    def save_evaluation(self, evaluation: Evaluation | QuestionEvaluation) -> None:
        """Add ranks to ranks.parquet, and figures to results.json and the card."""
        if self.path is not None:
            with lock_folder(self.path), explain_damage(self.path):
                add_ranks(evaluation, self.path / RANKS)
        if isinstance(evaluation, QuestionEvaluation):
            asked = evaluation.asked
            figures = self.results.questions(asked) | {evaluation.split: evaluation.summary()}
            self.update_results(**{asked: figures})
            return
        changes = {evaluation.split: evaluation.summary()} if evaluation.filter == "time" else {}
        self.update_results(**changes)

    @cached_property
    def questions(self) -> QuestionModels:
        """What answers questions beside the model: heads, probabilities and a classifier."""
        return QuestionModels(
            self.model,
            self.graph,
            self.timeline,
            self.config.seed,
            self.results,
            self.path,
            self.update_results,
        )

    def answering(self) -> Answering:
        """What answers questions: the facts of all splits or of train, and the model over them."""
        if self.results.answers is None:
            return Answering(self.graph, self.timeline, self.model)
        graph = all_facts_in_train(self.graph)
        timeline = Timeline(graph, self.config.protocol, self.timeline.device)
        return Answering(graph, timeline, self._model_over(timeline))

    def _model_over(self, timeline: Timeline) -> Model:
        """The model over all facts, trained on them if it does not read facts when it answers."""
        refitted = None if self.path is None else self.path / REFITTED
        if self.parts:
            parts = [part._model_over(timeline) for part in self.parts.values()]
            model = self.config.kind.build(self.config.model, timeline, *parts)
            model.load_state_dict(self.model.state_dict())
        elif refitted is not None and refitted.is_file():
            with explain_damage(refitted.parent):
                model = self.config.kind.build(self.config.model, timeline)
                model.load_state_dict(safetensors.torch.load_file(refitted))
        else:
            try:
                model = self.model.with_timeline(timeline)
            except QueryError:
                return self.model
        return model.eval()


def all_facts_in_train(graph: TemporalGraph) -> TemporalGraph:
    """The graph with the facts of all splits in train."""
    none = graph.train[:0]
    return dataclasses.replace(graph, train=sort_by_time(graph.all_facts), valid=none, test=none)
