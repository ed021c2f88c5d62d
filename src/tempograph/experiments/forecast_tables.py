"""Tables of forecasts: what others published, and what we measured, under both protocols."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Final

from tempograph.experiments.configurations import uses_names
from tempograph.experiments.measured_rows import with_sources
from tempograph.experiments.results import SPREAD, Metrics, best_settings, metrics_of, seeds_cells
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults

FORECAST_DATASETS: Final = {
    "icews14-forecast": "ICEWS14",
    "icews05-15-forecast": "ICEWS05-15",
    "yago-forecast": "YAGO",
}
"""Folders of the datasets that are split by time, and what papers call them."""
_FILE: Final = resources.files("tempograph") / "experiments" / "published_forecasts.toml"
_ORDER: Final = (
    *("edgebank", "history-frequency", "recurrency", "ted"),
    *("tntcomplex", "temp-gru", "temp-sa", "pointer", "temp-pointer"),
)
"""Our rows, in order; other models come after these, by name."""
_SUMMARY: Final = ("recurrency", "pointer", "temp-pointer")
"""Our rows in the short table."""
_SUMMARY_PUBLISHED: Final = ("RE-GCN", "HiSMatch", "TPAR")
Pair = tuple[float | str, float | str]
"""MRR and Hits@10 in percent, "-" for what is not printed."""


@dataclass(frozen=True)
class PublishedForecast:
    """A row of others: figures by dataset, single-step and multi-step."""

    model: str
    source: str
    doubt: str = ""
    single: dict[str, Pair] = field(default_factory=dict)
    multi: dict[str, Pair] = field(default_factory=dict)


def published_forecasts() -> list[PublishedForecast]:
    """Return what others published."""
    rows = tomllib.loads(_FILE.read_text(encoding="utf-8"))["row"]
    return [PublishedForecast(**row) for row in rows]


def _cell(figure: float | str) -> str:
    return figure if isinstance(figure, str) else f"{figure:.1f}"


def _cells(pair: Pair | None) -> list[str]:
    return ["-", "-"] if pair is None else [_cell(figure) for figure in pair]


def _our_rows(results: Sequence[RunResults], dataset: str) -> list[tuple[str, list[RunResults]]]:
    """Return our runs by label: the best settings on valid, with names and without."""
    own = [run for run in results if run.dataset == dataset and run.test is not None]
    own = [run for run in own if run.protocol == "forecast-single"]

    def row(run: RunResults) -> tuple[int, str, bool]:
        known = run.model in _ORDER
        return _ORDER.index(run.model) if known else len(_ORDER), run.model, uses_names(run)

    return [
        (f"{model} with names" if names else model, runs)
        for (_, model, names), runs in sorted(best_settings(own, row).items())
    ]


def forecast_table(results: Sequence[RunResults], dataset: str) -> TextTable:
    """Return the published rows of a dataset, then ours, single-step and multi-step on test."""
    rows: list[list[str]] = []
    measured: list[list[list[RunResults]]] = []
    notes: list[str] = []
    for theirs in published_forecasts():
        single, multi = theirs.single.get(dataset), theirs.multi.get(dataset)
        if single is None and multi is None:
            continue
        mark = "*" if theirs.doubt else ""
        mrr, hits = _cells(single)
        figures = [mrr, "-", "-", hits, *_cells(multi)]
        rows.append([f"{theirs.model}{mark}", theirs.source, "-", *figures])
        measured.append([])
        if theirs.doubt:
            notes.append(f"* Doubtful: {theirs.doubt}.")
    for label, runs in _our_rows(results, dataset):
        single_cells = _percent(metrics_of(runs, "test"))
        steps = [run.multi_step["test"]["metrics"] for run in runs if "test" in run.multi_step]
        multi_cells = _percent(steps)[::3] if steps else ["-", "-"]
        rows.append([label, "ours", str(len(runs)), *single_cells, *multi_cells])
        measured.append([runs])
    columns = ("model", "source", "seeds", "single-step: MRR", "Hits@1", "Hits@3", "Hits@10")
    table = TextTable(
        f"Forecasts on {FORECAST_DATASETS[dataset]}",
        (*columns, "multi-step: MRR", "Hits@10"),
        rows,
        3,
        f"Test, filter time, mean ties, in percent; {SPREAD}.",
    )
    sourced = with_sources(table, measured, [row[0] for row in rows])
    return replace(sourced, notes=[*sourced.notes, *notes])


def _percent(runs: Sequence[Metrics]) -> list[str]:
    """Return MRR, with its spread, and Hits in percent."""
    scaled = [{**metrics, "mrr": 100 * metrics["mrr"]} for metrics in runs]
    return seeds_cells(scaled, 1)


def forecast_summary(results: Sequence[RunResults]) -> TextTable:
    """Return MRR and Hits@10, single-step, of a few published rows and of ours."""
    rows: list[list[str]] = []
    measured: list[list[list[RunResults]]] = []
    for theirs in published_forecasts():
        if theirs.model in _SUMMARY_PUBLISHED:
            cells = [cell for name in FORECAST_DATASETS for cell in _cells(theirs.single.get(name))]
            rows.append([theirs.model, "published", *cells])
            measured.append([])
    ours = {name: dict(_our_rows(results, name)) for name in FORECAST_DATASETS}
    for label in (each for model in _SUMMARY for each in (model, f"{model} with names")):
        runs = [ours[name].get(label, []) for name in FORECAST_DATASETS]
        if any(runs):
            cells = [
                cell
                for own in runs
                for cell in (_percent(metrics_of(own, "test"))[::3] if own else ("-", "-"))
            ]
            rows.append([label, "ours", *cells])
            measured.append(runs)
    figures = [
        heading for name in FORECAST_DATASETS.values() for heading in (f"{name}: MRR", "Hits@10")
    ]
    table = TextTable("Forecasts", ("model", "source", *figures), rows, 2)
    return with_sources(table, measured, [row[0] for row in rows])
