"""Fit a model to events in a file or table: import, choose a model, train, and test it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from tempograph.data.graph import TemporalGraph, rows_in
from tempograph.data.importers.any_source import FactSource, describe_source, import_facts
from tempograph.data.importers.column_guessing import TableColumns
from tempograph.data.importers.importer import ImportResult
from tempograph.data.importers.options import ImportOptions
from tempograph.device import resolve_device
from tempograph.errors import DataError
from tempograph.evaluation.evaluator import Evaluation
from tempograph.evaluation.query_groups import by_relation, group_metrics
from tempograph.evaluation.rank_table import RankTable
from tempograph.experiments.status import Notify
from tempograph.io import refuse_existing
from tempograph.models.registry import model_kind
from tempograph.training.run_folder import RUN_MARKER
from tempograph.training.runs import Run
from tempograph.training.trainer import evaluate, train
from tempograph.typing import MetricsCallback, Progress

_COPYING_SHARE: Final = 0.25
"""The share of held-out facts between pairs known from train above which copying works best."""
_MAX_RELATIONS: Final = 15


@dataclass(frozen=True)
class ModelChoice:
    """A model and why it was chosen."""

    model: str
    why: str


@dataclass(frozen=True, eq=False, repr=False)
class FitResult:
    """A trained run: its data, why it is this model, and how it does on held-out facts."""

    run: Run
    imported: ImportResult
    table: TableColumns
    """The columns of a table; none for coded events."""
    choice: ModelChoice
    evaluation: Evaluation | None
    """On the test split; None if training was stopped before its end."""

    def __repr__(self) -> str:
        return f"FitResult({self.choice.model} on {self.run.graph.describe_size()})"

    @property
    def columns(self) -> dict[str, str]:
        """The column of each part of a fact."""
        return self.table.columns

    def relations(self) -> list[tuple[str, int, float, float]]:
        """Return the queries, Hits@1 and Hits@10 of the most frequent relations on test."""
        if self.evaluation is None:
            return []
        ranks = RankTable.from_evaluation(self.evaluation)
        groups = group_metrics(ranks, by_relation(ranks, self.run.graph))
        order = np.argsort(-groups.questions, kind="stable")[:_MAX_RELATIONS]
        figures = (groups.questions, groups.hits_1, groups.hits_10)
        columns = [column[order].tolist() for column in figures]
        return list(zip([groups.labels[index] for index in order], *columns, strict=True))

    def summary(self) -> dict[str, Any]:
        """Return what `fit --json` prints."""
        graph, imported = self.run.graph, self.imported
        return {
            "run": str(self.run.path),
            "format": imported.format,
            "columns": self.columns,
            "unused_columns": list(self.table.unused),
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
            "relations_held_out": [
                dict(zip(("relation", "questions", "hits@1", "hits@10"), row, strict=True))
                for row in self.relations()
            ],
        }

    def describe(self) -> str:
        """Return what the test figures mean, in a sentence."""
        if self.evaluation is None:
            return "Training is not finished, so nothing is tested."
        metrics = self.evaluation.summary()["metrics"]
        return (
            f"On {len(self.evaluation.facts):,} held-out facts, queried once for the object and "
            "once for the subject, the right answer among "
            f"{len(self.run.graph.entities):,} entities is first in "
            f"{metrics['hits@1']:.0%} of the queries, and among the first ten in "
            f"{metrics['hits@10']:.0%}."
        )


def fit(
    facts: FactSource,
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
    note: Notify | None = None,
) -> FitResult:
    """Import events, choose a model for them, train it, and test it on held-out facts.

    `facts` are a file, several files, a DataFrame of pandas or polars, a pyarrow Table or anything
    else with `__arrow_c_stream__`, rows (tuples or dicts), or a graph. Columns that the options do
    not name are guessed from their names; it is an error if two fit. The run folder `out` holds
    everything, the data too. `note` is called before training with what was guessed and what was
    left out.
    """
    refuse_existing(Path(out), RUN_MARKER, overwrite)
    resolved = resolve_device(device)
    if model is not None:
        model_kind(model)
    name = Path(out).resolve().name
    imported, table = import_facts(facts, options or ImportOptions(), name, importing, note)
    graph = imported.graph
    if not len(graph.valid) or not len(graph.test):
        raise DataError(
            f"{describe_source(facts)}: too few facts, {len(graph.all_facts):,}, to hold some "
            "out for validation and test; add more, or hold out more with --valid and --test"
        )
    choice = (
        choose_model(graph, resolved) if model is None else ModelChoice(model, "it was requested")
    )
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
    return FitResult(run, imported, table, choice, evaluation)


def choose_model(graph: TemporalGraph, device: torch.device) -> ModelChoice:
    """Choose by the share of held-out facts whose pair is known from train, and by the device."""
    share = known_pair_share(graph)
    known = f"{share:.0%} of held-out facts connect two entities that also occur together in train"
    if share < _COPYING_SHARE:
        return ModelChoice("tntcomplex", f"{known}: embeddings generalize to new pairs")
    if device.type == "cuda":
        why = "copying known facts works well, and the GPU can train more models to combine with it"
        return ModelChoice("temp-pointer", f"{known}: {why}")
    why = "copying known facts works well, and shows which facts are copied"
    return ModelChoice("pointer", f"{known}: {why}")


def known_pair_share(graph: TemporalGraph) -> float:
    """Return the share of valid facts whose entities share a train fact, in either direction."""
    valid, train = (np.sort(facts[:, [0, 2]], axis=1) for facts in (graph.valid, graph.train))
    return float(rows_in(valid, train).mean()) if len(valid) else 0.0
