"""One path from files of events to a model that can be asked, and what can be trusted of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from tempograph.data.graph import TemporalGraph, rows_in
from tempograph.data.importers.column_guessing import describe_columns, resolve_columns
from tempograph.data.importers.importer import ImportResult, import_files
from tempograph.data.importers.options import ImportOptions
from tempograph.device import resolve_device
from tempograph.errors import DataError
from tempograph.evaluation.evaluator import Evaluation
from tempograph.evaluation.query_groups import by_relation, group_metrics
from tempograph.evaluation.rank_table import RankTable
from tempograph.experiments.batch import Note
from tempograph.io import refuse_existing
from tempograph.models.registry import model_kind
from tempograph.training.run_folder import RUN_MARKER
from tempograph.training.runs import Run
from tempograph.training.trainer import evaluate, train
from tempograph.typing import MetricsCallback, Progress

_MEETING: Final = 0.25
"""The share of held-out facts between two that meet in train from which on copying is worth most."""


@dataclass(frozen=True)
class Choice:
    """A model and why it was chosen."""

    model: str
    why: str


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained run, what its data came from, why it is this model, and how it does on facts that it never saw."""

    run: Run
    imported: ImportResult
    columns: dict[str, str]
    choice: Choice
    evaluation: Evaluation | None

    def summary(self) -> dict[str, Any]:
        """What `fit --json` prints."""
        graph, imported = self.run.graph, self.imported
        return {
            "run": str(self.run.path),
            "format": imported.format,
            "columns": self.columns,
            "rows": imported.rows,
            "duplicates": imported.duplicates,
            "skipped": [{"reason": str(skip), "rows": skip.rows} for skip in imported.skipped],
            "entities": len(graph.entities),
            "relations": len(graph.relations),
            "steps": len(graph.times),
            "facts": len(graph.all_facts),
            "model": self.choice.model,
            "why": self.choice.why,
            "finished": self.run.results.finished,
            "held_out": None if self.evaluation is None else self.evaluation.summary(),
            "calibration": self.run.results.calibration,
            "relations_held_out": []
            if self.evaluation is None
            else relation_rows(self.evaluation, graph),
        }


def fit(
    patterns: Sequence[str | Path],
    *,
    out: str | Path,
    options: ImportOptions | None = None,
    model: str | None = None,
    overrides: Sequence[str] = (),
    seed: int = 0,
    device: str = "auto",
    overwrite: bool = False,
    max_seconds: float | None = None,
    importing: Progress | None = None,
    report: MetricsCallback | None = None,
    progress: Progress | None = None,
    note: Note | None = None,
) -> Fitted:
    """Import files of events, choose a model for them, train it, and try it on facts that were held out.

    Columns of a table that the options do not name are guessed by what they are called, and refused where two would
    do. The run folder holds everything, also the data. `note` hears what was guessed before training begins.
    """
    refuse_existing(Path(out), RUN_MARKER, overwrite)
    place = resolve_device(device)
    if model is not None:
        model_kind(model)
    paths = [Path(pattern) for pattern in patterns]
    options, columns = resolve_columns(paths, options or ImportOptions())
    if note and columns:
        note(describe_columns(columns))
    imported = import_files(paths, options, Path(out).resolve().name, importing)
    if note:
        for line in imported.notes(guessed=options.format is None):
            note(f"note: {line}")
    graph = imported.graph
    if not len(graph.valid) or not len(graph.test):
        raise DataError(
            f"{', '.join(map(str, paths))}: too few facts, {len(graph.all_facts):,}, to hold some out to choose and to "
            "test on; bring more, or hold out a larger share with --valid and --test"
        )
    choice = choose_model(graph, place) if model is None else Choice(model, "it was asked for")
    run = train(
        graph,
        choice.model,
        out=out,
        seed=seed,
        overrides=overrides,
        device=device,
        overwrite=overwrite,
        max_seconds=max_seconds,
        report=report,
        progress=progress,
    )
    evaluation = evaluate(run, "test", progress=progress) if run.results.finished else None
    return Fitted(run, imported, columns, choice, evaluation)


def choose_model(graph: TemporalGraph, device: torch.device) -> Choice:
    """By how much of what is held out happens between two that meet in train as well, and by the machine."""
    share = meeting_share(graph)
    said = f"{share:.0%} of held-out facts are between two that meet in train as well"
    if share < _MEETING:
        return Choice(
            "tntcomplex", f"{said}: little to copy, so vectors that generalise to new pairs"
        )
    if device.type == "cuda":
        return Choice(
            "temp-pointer",
            f"{said}: copying what happened goes far, and a GPU affords models beside it",
        )
    return Choice(
        "pointer", f"{said}: copying what happened goes far, and tells which facts it copies"
    )


def meeting_share(graph: TemporalGraph) -> float:
    """The share of valid facts whose subject and object stand together in some train fact, either way round."""
    held_out, train = (np.sort(facts[:, [0, 2]], axis=1) for facts in (graph.valid, graph.train))
    return float(rows_in(held_out, train).mean()) if len(held_out) else 0.0


def in_words(evaluation: Evaluation, candidates: int) -> str:
    """What the figures mean."""
    figures = evaluation.summary()["metrics"]
    return (
        f"Asked about {len(evaluation.facts):,} facts that it never saw, once for the object and once for the subject, "
        f"it put the right one of {candidates:,} first in {figures['hits@1']:.0%} of the questions, "
        f"and among the first ten in {figures['hits@10']:.0%}."
    )


def relation_rows(
    evaluation: Evaluation, graph: TemporalGraph, most: int = 15
) -> list[dict[str, Any]]:
    """Each of the most frequent relations: its questions, and how often the right answer is first or in ten."""
    ranked = RankTable.from_evaluation(evaluation)
    found = group_metrics(ranked, by_relation(ranked, graph))
    order = np.argsort(-found.questions, kind="stable")[:most]
    return [
        {
            "relation": found.labels[place],
            "questions": int(found.questions[place]),
            "hits@1": float(found.hits_1[place]),
            "hits@10": float(found.hits_10[place]),
        }
        for place in order
    ]
