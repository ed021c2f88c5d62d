"""Tables of the documentation that the package does not need: models, presets, what was tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields

from tempograph.experiments.paper.paper_tables import BOTH_COLUMNS, BOTH_NAMES, FIGURE_COLUMNS
from tempograph.experiments.published import published
from tempograph.experiments.results import (
    SPREAD,
    Metrics,
    changes_of,
    figure_cells,
    metrics_of,
    seeds_cells,
    settings_of,
    without_copies,
)
from tempograph.models.registry import MODELS, model_kind
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults


def model_table() -> TextTable:
    """Return every model: its score, what depends on time, its reference."""
    rows = [
        [kind.name, kind.summary, f"`{kind.formula}`", kind.time_dependent, kind.reference]
        for kind in MODELS.values()
    ]
    columns = ("model", "what it does", "score", "depends on time", "reference")
    return TextTable("Models", columns, rows, 5)


def preset_table(results: Sequence[RunResults], dataset: str, models: Sequence[str]) -> TextTable:
    """Return the test figures of every unchanged preset that is measured on a dataset."""
    groups: dict[tuple[str, str, str], list[RunResults]] = {}
    for run in without_copies(results):
        if run.dataset == dataset and run.model in models and run.preset and not changes_of(run):
            groups.setdefault((run.model, run.preset, run.protocol), []).append(run)
    rows = [
        [
            *(model, preset, protocol, str(len(runs))),
            *seeds_cells(metrics_of(runs, "test")),
            *figure_cells(published(dataset, model, protocol)),
        ]
        for (model, preset, protocol), runs in sorted(groups.items())
    ]
    head, caption = ("model", "preset", "protocol", "seeds"), f"Test; {SPREAD}."
    columns, names = (*head, *BOTH_COLUMNS), (*head, *BOTH_NAMES)
    return TextTable(
        f"Presets on {dataset}", columns, rows, 3, caption, keys=names, spread_columns=[4]
    )


def tried_table(results: Sequence[RunResults], dataset: str, model: str) -> TextTable:
    """Return the valid figures of runs that searched for settings: what differs, best last."""
    runs = [run for run in results if (run.dataset, run.model) == (dataset, model)]
    # A setting that did not exist yet had its default.
    defaults = {
        f"model.{field.name}": field.default for field in fields(model_kind(model).settings)
    }
    settings = [
        {name: _text(value) for name, value in (defaults | settings_of(run)).items()}
        for run in runs
    ]
    names = dict.fromkeys(name for one in settings for name in one)
    usual = {
        name: Counter(one[name] for one in settings if name in one).most_common(1)[0][0]
        for name in names
        if len({one.get(name, "None") for one in settings}) > 1
    }
    tried: dict[str, list[Metrics]] = {}
    for run, one in zip(runs, settings, strict=True):
        own = [
            f"{name} = {one[name]}" for name in usual if one.get(name, usual[name]) != usual[name]
        ]
        label = ", ".join(own) or "defaults above"
        label += "" if run.finished else ", stopped by a time limit"
        tried.setdefault(label, []).extend(metrics_of([run], "valid"))
    # What was tried differs by less than the digits that other tables show.
    rows = [
        [label, str(len(metrics)), *seeds_cells(metrics, digits=4)]
        for label, metrics in tried.items()
    ]
    rows.sort(key=lambda row: float(row[2].partition(" ")[0]))
    shared = ", ".join(f"{name} = {value}" for name, value in usual.items())
    caption = (
        f"{dataset}, valid, protocol {runs[0].protocol}; unless stated otherwise: {shared}."
        if runs
        else ""
    )
    title, columns = f"{model} on {dataset}: what was tried", ("settings", "seeds", *FIGURE_COLUMNS)
    return TextTable(title, columns, rows, 1, caption, spread_columns=[2])


def _text(setting: object) -> str:
    return " + ".join(map(str, setting)) if isinstance(setting, list | tuple) else str(setting)
