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

import torch

from tempograph.data.additions import AdditionSizes
from tempograph.data.folder import store_folder
from tempograph.data.graph import TemporalGraph
from tempograph.data.html_table import html_block, html_note, html_properties, html_title
from tempograph.data.importers.options import ImportOptions
from tempograph.data.stored_files import checksums
from tempograph.data.timeline import Timeline
from tempograph.device import environment
from tempograph.evaluation.evaluations import Evaluation, QuestionEvaluation
from tempograph.evaluation.interval_evaluation import IntervalEvaluation
from tempograph.evaluation.metrics_html import html_metrics
from tempograph.evaluation.rank_table import add_ranks
from tempograph.evaluation.ranking import Metrics
from tempograph.io import atomic_folder, lock_folder, write_json, write_text
from tempograph.models.base import Model
from tempograph.models.ensemble.ensemble_settings import part_names
from tempograph.progress import format_duration
from tempograph.training.answering import answering
from tempograph.training.config import Config
from tempograph.training.fit_record import FitRecord, read_fit_record
from tempograph.training.question_models import Answering, QuestionModels
from tempograph.training.run_card import write_results
from tempograph.training.run_folder import (
    CHECKPOINT,
    CHECKPOINT_ALL_FACTS,
    CHECKSUMS,
    CLASSIFIER,
    HEADS,
    IMPORT,
    OCCURRENCE,
    PARTS,
    RANKS,
    REFITTED,
    RUN_MARKER,
    UPDATES,
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
from tempograph.training.sharded_files import load_sharded_weights, write_sharded_weights
from tempograph.training.sharding import build_sharded_or_whole, row_shards
from tempograph.training.updates import Updates

_NOT_COPIED: Final = (
    *("dataset", "tensorboard", RANKS, HEADS, UPDATES),
    *(CHECKPOINT, CHECKPOINT_ALL_FACTS),
)
"""Files of a part that an ensemble does not need."""


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A trained model and everything that belongs to it. `path` is None until the run is saved.

    `parts` holds the runs of an ensemble's parts by name. `import_options` are those of the import
    that made the data, if it was one: columns, time format and so on. `fit` is what `fit` read and
    chose, if it made the run. `updates` is what was added since; `graph`, `model` and the results
    are those from before.
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
    updates: Updates | None = None

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
            names = part_names(config.model.parts) if config.kind.has_parts else ()
            parts = {name: Run.load_with(folder / PARTS / name, graph, timeline) for name in names}
            models = (part.model for part in parts.values())
            # Weights are read first: they tell whether a size of the model is absurd.
            weights = read_weights(folder, config) if row_shards(config) is None else None
            model = build_sharded_or_whole(config, timeline, *models)
            if weights is not None:
                model.load_state_dict(weights)
            elif results.finished or (folder / WEIGHTS).is_file():
                load_sharded_weights(model, folder / WEIGHTS)
            model.eval()
            updates = None
            if results.updates is not None:
                updates = Updates.read(folder, results.updates["number"], graph)
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
            updates,
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
            store_folder(self.graph, folder / "dataset")
            write_json(folder / CHECKSUMS, checksums(folder / "dataset"))
            self._write(folder)
        return self.moved(path)

    def _write(self, folder: Path) -> None:
        """Write everything but the dataset."""
        saved = dataclasses.replace(self, path=folder)
        write_text(folder / RUN_MARKER, self.config.to_toml())
        if self.import_options is not None:
            write_json(folder / IMPORT, dataclasses.asdict(self.import_options))
        if self.fit is not None:
            self.fit.write(folder)
        if self.path is not None:
            for fitted in (REFITTED, HEADS, CLASSIFIER, OCCURRENCE):
                if (self.path / fitted).is_file():
                    shutil.copyfile(self.path / fitted, folder / fitted)
        if self.updates is not None:
            self.updates.write(folder)
        saved.write_history()
        if self.model.shards is None:
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

    def moved(self, path: Path) -> Run:
        """The run with another folder, which holds a copy of it."""
        parts = {name: part.moved(path / PARTS / name) for name, part in self.parts.items()}
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
        """Write model.safetensors; if tables are sharded, all processes must call this."""
        file = None if self.path is None else self.path / WEIGHTS
        if self.model.shards is not None:
            write_sharded_weights(self.model, self.model.shards, file)
        elif file is not None:
            write_weights(self.model, file)

    def write_results(self) -> None:
        """Write results.json and the card."""
        if self.path is not None:
            write_results(self.path, self.config, self.graph, self.results, list(self.parts))

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

    def save_evaluation(
        self, evaluation: Evaluation | QuestionEvaluation | IntervalEvaluation
    ) -> None:
        """Add ranks to ranks.parquet, and figures to results.json and the card.

        Of an evaluation by the rules of another package, or under a protocol that is not the run's
        own, only the figures are kept.
        """
        if isinstance(evaluation, IntervalEvaluation):
            intervals = self.results.intervals | {evaluation.split: evaluation.summary()}
            self.update_results(intervals=intervals)
            return
        if isinstance(evaluation, Evaluation) and evaluation.rules is not None:
            self.update_results(tgb=self.results.tgb | {evaluation.split: evaluation.summary()})
            return
        if isinstance(evaluation, Evaluation) and evaluation.protocol != self.config.protocol:
            name = "paper" if evaluation.protocol == "paper" else "multi_step"
            figures = getattr(self.results, name) | {evaluation.split: evaluation.summary()}
            if evaluation.filter == "time":
                self.update_results(**{name: figures})
            return
        if self.path is not None:
            with lock_folder(self.path), explain_damage(self.path):
                add_ranks(evaluation, self.path / RANKS)
        if isinstance(evaluation, QuestionEvaluation):
            asked = evaluation.asked
            answered = self.results.questions(asked) | {evaluation.split: evaluation.summary()}
            self.update_results(**{asked: answered})
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
        """What answers questions: the facts that answers rest on, and the model over them.

        These are the facts of train or of all splits, and those that updates added.
        """
        return answering(self)

    @property
    def single_models(self) -> Mapping[str, Run]:
        """The run itself, or the parts of an ensemble, by name."""
        return self.parts or {self.config.name: self}

    @property
    def known_graph(self) -> TemporalGraph:
        """The data with what updates added to train; `graph` is what the run was measured on.

        Facts that are held out in `graph` stay held out: another model can be trained on this one.
        """
        if self.updates is None:
            return self.graph
        all_splits = self.results.answers is not None or self.timeline.past_only
        return self.updates.additions.beside_held_out(self.graph, close=all_splits)

    @property
    def num_trained_entities(self) -> int:
        """How many entities, the first ones, the model that answers was trained on."""
        return len(self.graph.entities) + self._trained_on.entities

    @property
    def num_trained_steps(self) -> int:
        """How many time steps, the first ones, the model that answers was trained on."""
        return len(self.graph.times) + self._trained_on.times

    @property
    def _trained_on(self) -> AdditionSizes:
        """What updates had added when the model was last trained."""
        trained = None if self.updates is None else self.updates.trained
        return AdditionSizes() if trained is None else trained.base

    def with_updates(self, updates: Updates) -> Run:
        """The run with other updates, in memory; heads and the classifier are shared."""
        results = dataclasses.replace(self.results, updates=updates.summary(self.graph))
        run = dataclasses.replace(self, updates=updates, results=results)
        if "questions" in self.__dict__:
            run.__dict__["questions"] = dataclasses.replace(
                self.questions, results=results, update_results=run.update_results
            )
        return run
