"""Fit a model to events in a file or table: import, choose a model, train, and test it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from tempograph.data.graph import TemporalGraph, rows_in
from tempograph.data.html_table import (
    Html,
    html_block,
    html_properties,
    html_row,
    html_table,
    html_text,
    html_title,
)
from tempograph.data.importers.any_source import FactSource, import_facts, refuse_empty_splits
from tempograph.data.importers.column_guessing import TableColumns
from tempograph.data.importers.importer import ImportResult
from tempograph.data.importers.options import ImportOptions
from tempograph.device import resolve_device
from tempograph.evaluation.evaluations import Evaluation
from tempograph.evaluation.query_groups import by_relation, group_metrics
from tempograph.evaluation.rank_table import RankTable
from tempograph.experiments.status import Notify
from tempograph.io import refuse_existing
from tempograph.models.registry import model_kind
from tempograph.progress import show_progress
from tempograph.training.run_folder import RUN_MARKER
from tempograph.training.runs import Run
from tempograph.training.trainer import evaluate, train
from tempograph.typing import MetricsCallback, Progress, ProgressOption

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

    def _repr_html_(self) -> str:
        """The data, the model and why it was chosen, and how it does on held-out facts."""
        skipped = sum(skip.rows for skip in self.imported.skipped)
        counts = {"repeated": self.imported.duplicates, "skipped": skipped}
        left_out = [f"{count:,} {what}" for what, count in counts.items() if count]
        properties = {
            "data": self.run.graph.describe_size(),
            "columns": ", ".join(f"{part}: {name}" for part, name in self.columns.items()),
            "rows": ", ".join([f"{self.imported.rows:,} read", *left_out]),
            "model": f"{self.choice.model}, because {self.choice.why}",
            "folder": str(self.run.path),
        }
        rows = [
            html_row([name, f"{queries:,}", f"{first:.0%}", f"{ten:.0%}"], (1, 2, 3), header=0)
            for name, queries, first, ten in self.relations()
        ]
        columns = ("relation", "queries", "first", "first ten")
        return html_block(
            html_title(f"{self.choice.model} on {self.run.graph.name}"),
            html_properties(properties),
            Html(f"<p>{html_text(self.describe())}</p>"),
            html_table(columns, rows, (1, 2, 3)) if rows else "",
        )

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
            "overlaps": imported.overlaps,
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
    progress: ProgressOption = True,
    note: Notify | None = None,
) -> FitResult:
    """Import events, choose a model for them, train it, and test it on held-out facts.

    `facts` are a file, several files, a DataFrame of pandas or polars, a pyarrow Table or anything
    else with `__arrow_c_stream__`, rows (tuples or dicts), or a graph. If they are split already,
    pass a dict with train, valid and test, a folder with such files, or options with a
    `split_column`. Columns that the options do not name are guessed from their names; it is an
    error if two fit. The run folder `out` holds everything, the data and how it was imported too.
    `note` is called before training with what was guessed and what was left out. A terminal or
    notebook shows bars; with `progress=False` there are none, and functions as `importing` and
    `progress` are called instead while files are read and facts are ranked.
    """
    refuse_existing(Path(out), RUN_MARKER, overwrite)
    resolved = resolve_device(device)
    if model is not None:
        model_kind(model)
    name = Path(out).resolve().name
    bar = progress if importing is None and isinstance(progress, bool) else importing
    with show_progress("importing", bar) as read:
        imported, table = import_facts(facts, options or ImportOptions(), name, read, note)
    graph = imported.graph
    refuse_empty_splits(facts, imported)
    choice = (
        choose_model(graph, resolved) if model is None else ModelChoice(model, "it was requested")
    )
    run = train(
        graph,
        choice.model,
        options=imported.options or options,
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
