"""The table of facts that hold for a while: what others published, and what we measured."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

from tempograph.experiments.configurations import uses_names
from tempograph.experiments.measured_rows import with_sources
from tempograph.experiments.results import SPREAD, best_settings, half_range, mean
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults

INTERVAL_DATASETS: Final = {"yago11k": "YAGO11k"}
"""Folders of the datasets of facts that hold for a while, and what papers call them."""
INTERVAL_MODELS: Final = ("ted", "tntcomplex", "temp-gru", "pointer", "temp-pointer")
"""Our rows, in order."""
_FILE: Final = resources.files("tempograph") / "experiments" / "published_intervals.toml"
_RANKING: Final = ("mrr", "hits@1", "hits@10")
_INTERVALS: Final = ("aeiou@1", "giou@1", "tac")


@dataclass(frozen=True)
class PublishedIntervals:
    """A row of others, in percent."""

    dataset: str
    model: str
    source: str
    filter: str
    """The filter its authors used, as far as it is known."""
    ranking: tuple[float, float, float]
    """MRR, Hits@1 and Hits@10."""
    aeiou: float | None = None
    """aeIOU@1 of predicted intervals, if it was published."""


def published_intervals(dataset: str) -> list[PublishedIntervals]:
    """Return what others published on a dataset."""
    rows = tomllib.loads(_FILE.read_text(encoding="utf-8"))["row"]
    return [PublishedIntervals(**row) for row in rows if row["dataset"] == dataset]


def interval_table(results: Sequence[RunResults], dataset: str) -> TextTable:
    """Return the published rows of a dataset, then ours, on test, in percent.

    Ours have the figures of protocol paper, those of every step, and those of intervals.
    """
    rows: list[list[str]] = []
    measured: list[list[list[RunResults]]] = []
    for theirs in published_intervals(dataset):
        figures = [f"{figure:.1f}" for figure in theirs.ranking]
        aeiou = "-" if theirs.aeiou is None else f"{theirs.aeiou:.1f}"
        head = [theirs.model, theirs.source, theirs.filter, "-"]
        rows.append([*head, *figures, "-", "-", "-", aeiou, "-", "-"])
        measured.append([])
    for label, runs in _our_rows(results, dataset):
        ends = [run.paper["test"]["metrics"] for run in runs if "test" in run.paper]
        every = [run.test["metrics"] for run in runs if run.test is not None]
        intervals = [run.intervals["test"]["metrics"] for run in runs if "test" in run.intervals]
        cells = [_cell([each[name] for each in ends]) for name in _RANKING]
        cells += [_cell([each[name] for each in every]) for name in _RANKING]
        cells += [_cell([each[name] for each in intervals]) for name in _INTERVALS]
        rows.append([label, "ours", "equal start and end", str(len(runs)), *cells])
        measured.append([runs])
    hits = ("Hits@1", "Hits@10")
    columns = ("model", "source", "filter", "seeds", "paper: MRR", *hits, "every step: MRR", *hits)
    table = TextTable(
        f"Facts that hold for a while: {INTERVAL_DATASETS[dataset]}",
        (*columns, "aeIOU@1", "gIOU@1", "TAC"),
        rows,
        4,
        f"Test, in percent; {SPREAD}.",
    )
    return with_sources(table, measured, [row[0] for row in rows])


def _our_rows(results: Sequence[RunResults], dataset: str) -> list[tuple[str, list[RunResults]]]:
    """Return our runs by label: the best settings on valid, with names and without."""
    own = [
        run
        for run in results
        if (run.dataset, run.protocol) == (dataset, "strict")
        and run.model in INTERVAL_MODELS
        and run.test is not None
    ]

    def row(run: RunResults) -> tuple[int, bool]:
        return INTERVAL_MODELS.index(run.model), uses_names(run)

    return [
        (f"{INTERVAL_MODELS[number]} with names" if names else INTERVAL_MODELS[number], runs)
        for (number, names), runs in sorted(best_settings(own, row).items())
    ]


def _cell(values: Sequence[float]) -> str:
    """Return the mean of several seeds in percent, with half their range."""
    average = mean(values)
    if average is None:
        return "-"
    spread = f" ± {100 * half_range(values):.1f}" if len(values) > 1 else ""
    return f"{100 * average:.1f}{spread}"
