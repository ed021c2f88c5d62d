"""Tables of the documentation that the package does not need: models, presets, what was tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

from count_test_measurements import Measurement

from tempograph.experiments.configurations import configuration_key, configuration_of, uses_names
from tempograph.experiments.measured_rows import is_reproduction, remarks, with_sources
from tempograph.experiments.paper.required_runs import NAMED_MODELS
from tempograph.experiments.paper.table_rows import BOTH_COLUMNS, BOTH_NAMES, FIGURE_COLUMNS
from tempograph.experiments.published import published
from tempograph.experiments.results import (
    SPREAD,
    Metrics,
    figure_cells,
    mean,
    metrics_of,
    seeds_cells,
    without_copies,
)
from tempograph.models.registry import MODELS
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults
from tempograph.typing import HEAD_ASKED


def model_table() -> TextTable:
    """Return every model: its score, what depends on time, its reference."""
    rows = [
        [kind.name, kind.summary, f"`{kind.formula}`", kind.time_dependent, kind.reference]
        for kind in MODELS.values()
    ]
    columns = ("model", "what it does", "score", "depends on time", "reference")
    return TextTable("Models", columns, rows, 5)


def preset_table(results: Sequence[RunResults], dataset: str, models: Sequence[str]) -> TextTable:
    """Return the test figures of every preset that is measured on a dataset, without changes."""
    groups: dict[tuple[str, str, str, str], list[RunResults]] = {}
    for run in without_copies(results):
        if run.dataset == dataset and run.model in models and run.preset and not run.changed:
            key = (run.model, run.protocol, run.preset, configuration_key(run))
            groups.setdefault(key, []).append(run)
    rows = [
        [
            *(model, preset, protocol, remarks(runs), str(len(runs))),
            *seeds_cells(metrics_of(runs, "test")),
            *figure_cells(
                published(dataset, model, protocol, preset if is_reproduction(runs[0]) else None)
            ),
        ]
        for (model, protocol, preset, _), runs in sorted(groups.items())
    ]
    head = ("model", "preset", "protocol", "remarks", "seeds")
    columns, names = (*head, *BOTH_COLUMNS), (*head, *BOTH_NAMES)
    table = TextTable(f"Presets on {dataset}", columns, rows, 4, f"Test; {SPREAD}.", (), names, [5])
    measured = [[runs] for _, runs in sorted(groups.items())]
    return with_sources(table, measured, [f"{row[0]} ({row[2]}, {row[1]})" for row in rows])


QUESTION_MODELS = ("ted", "pointer", "temp-gru", "temp-pointer")
"""The models whose relation and time questions the docs show."""


def question_table(results: Sequence[RunResults]) -> TextTable:
    """Return how well relations and times are ranked on test, beside plain baselines."""
    groups: dict[tuple[str, str], list[RunResults]] = {}
    for run in without_copies(results):
        shown = run.model in QUESTION_MODELS and run.protocol == "strict" and not run.changed
        if shown and "test" in run.relation and "test" in run.time:
            groups.setdefault((run.dataset, run.model), []).append(run)
    rows, measured = [], []
    for (dataset, model), runs in sorted(groups.items()):
        cells = []
        for asked in HEAD_ASKED:
            figures = [run.questions(asked)["test"] for run in runs]
            errors = [one["calibration_error"] for one in figures if "calibration_error" in one]
            for name in ("metrics", "baseline"):
                cells += seeds_cells([one[name] for one in figures])[::3]
            cells.append(f"{mean(errors):.3f}" if errors else "-")
        rows.append([dataset, model, str(len(runs)), *cells])
        measured.append([runs])
    columns = [
        f"{asked}: {name}" if not index else name
        for asked in HEAD_ASKED
        for index, name in enumerate(("MRR", "Hits@10", "counts: MRR", "Hits@10", "ECE"))
    ]
    table = TextTable(
        "Relations and times", ("dataset", "model", "seeds", *columns), rows, 2, f"Test; {SPREAD}."
    )
    return with_sources(table, measured, [f"{row[1]} on {row[0]}" for row in rows])


HARD_KINDS = ("rare answer", "unseen answer", "new pair")


def names_table(results: Sequence[RunResults]) -> TextTable:
    """Return what names are worth on test: in all, and for questions that train says little of.

    Models that were measured both with names and without have rows.
    """
    groups: dict[tuple[str, str, bool], list[RunResults]] = {}
    for run in without_copies(results):
        shown = run.model in NAMED_MODELS and run.protocol == "strict" and run.preset == "tuned"
        measured_hard = run.test is not None and "hard" in run.test
        if shown and measured_hard and run.changed.keys() <= {"model.names"}:
            groups.setdefault((run.dataset, run.model, uses_names(run)), []).append(run)
    compared = sorted(key for key in groups if (*key[:2], not key[2]) in groups)
    rows = []
    for dataset, model, named in compared:
        runs = groups[dataset, model, named]
        tests = [run.test for run in runs if run.test is not None]
        hard = [
            mean(test["hard"][kind]["metrics"]["mrr"] for test in tests if kind in test["hard"])
            for kind in HARD_KINDS
        ]
        cells = ["-" if value is None else f"{value:.3f}" for value in hard]
        mrr = seeds_cells(metrics_of(runs, "test"))[0]
        rows.append([dataset, model, "yes" if named else "no", str(len(runs)), mrr, *cells])
    columns = ("dataset", "model", "names", "seeds", "MRR", *(f"{kind}s" for kind in HARD_KINDS))
    table = TextTable("Names", columns, rows, 3, f"Test; {SPREAD}.")
    measured = [[groups[key]] for key in compared]
    return with_sources(table, measured, [f"{row[1]} on {row[0]}, {row[2]}" for row in rows])


def measurement_table(measurements: Sequence[Measurement]) -> TextTable:
    """Return how often our models were measured on test, and the range of what was found."""
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    for one in measurements:
        groups.setdefault((one["model"], one["dataset"], one["protocol"]), []).append(one)
    rows = []
    for head, found in sorted(groups.items()):
        counts = (len({one[name] for one in found}) for name in ("settings", "commit"))
        mrr = [one["test_mrr"] for one in found]
        rows.append([*head, *map(str, (len(found), *counts)), f"{min(mrr):.3f}", f"{max(mrr):.3f}"])
    columns = (
        "model",
        "dataset",
        "protocol",
        "on test",
        "settings",
        "commits",
        "lowest",
        "highest",
    )
    return TextTable("Measurements on test", columns, rows, 3)


def lost_table(results: Sequence[RunResults], lost: Container[str]) -> TextTable:
    """Return which results name commits that the history no longer has."""
    groups: dict[tuple[str, str, str], set[str]] = {}
    for run in results:
        if run.commit in lost:
            variant = f"{run.model} ({run.protocol})"
            groups.setdefault((str(run.commit)[:7], run.dataset, variant), set()).add(str(run.seed))
    rows = [[*head, ", ".join(sorted(seeds))] for head, seeds in sorted(groups.items())]
    columns = ("commit", "dataset", "model (protocol)", "seeds")
    return TextTable("Results of lost commits", columns, rows, 4)


def tried_table(results: Sequence[RunResults], dataset: str, model: str) -> TextTable:
    """Return the valid figures of runs that searched for settings: what differs, best last."""
    runs = [run for run in results if (run.dataset, run.model) == (dataset, model)]
    settings = [
        {name: _text(value) for name, value in configuration_of(run).items()} for run in runs
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
    if isinstance(setting, list | tuple):
        return " + ".join(map(str, setting))
    return f"{setting:.10g}" if isinstance(setting, float) else str(setting)
