"""Rows of measured results: what their settings are, and at which commit they were measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from tempograph.experiments.configurations import (
    changes_of,
    configuration_of,
    has_settings_of,
    uses_names,
)
from tempograph.experiments.published import PROTOCOL_DEPENDENT
from tempograph.models.registry import MODELS
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults

Runs = Sequence[RunResults]
"""The seeds of one row."""

RowKind = Literal["paper's settings", "usual", "with names", "fitted on valid"]
"""Runs of different kinds are never candidates for the same row."""

_CHANGED: Final = " with changes"
_OTHER_COMMIT: Final = "†"
_OTHER_CODE: Final = "‡"
_MARKS: Final = {
    _OTHER_COMMIT: "Measured at other commits",
    _OTHER_CODE: "Mean of runs whose code differs, or is not known to be the same",
}
_DEFINING: Final = ("entities", "relations", "decoder", "temporal")
"""Settings that make a published method what it is."""
_PAPER_PARTS: Final = {"gru": ("gate", "imputation"), "attention": ("gate",)}
"""Parts of TeMP that settings may switch off, by temporal encoder; attention itself imputes."""


def is_reproduction(result: RunResults) -> bool:
    """Return whether a result has the settings of the paper under its protocol, unchanged.

    Only such a row may stand beside published figures that depend on the protocol.
    """
    return (
        result.model in PROTOCOL_DEPENDENT
        and result.protocol == "paper"
        and has_settings_of(result, "paper")
    )


def row_kind(result: RunResults) -> RowKind:
    """Return the kind of row that a result is a candidate for.

    The valid MRR of an ensemble whose gate learned from valid facts cannot be compared with others.
    A model that reads names knows more than the facts, which others do not.
    """
    if is_reproduction(result):
        return "paper's settings"
    if configuration_of(result).get("model.fit_on") == "valid":
        return "fitted on valid"
    return "with names" if uses_names(result) else "usual"


def preset_cell(runs: Runs) -> str:
    """Return the preset of a row; a dash if it has none."""
    return next((run.preset for run in runs if run.preset), "-")


def settings_cell(runs: Runs) -> str:
    """Return the preset and the remarks of a row in one cell; a dash if nothing is measured."""
    if not runs:
        return "-"
    notes = remarks(runs)
    return preset_cell(runs) if notes == "-" else f"{preset_cell(runs)} ({notes})"


def is_shipped(runs: Runs) -> bool:
    """Return whether a row has the settings of its preset as it is shipped, unchanged."""
    return any(has_settings_of(run, run.preset) for run in runs)


def remarks(runs: Runs) -> str:
    """Return what a reader must know about the settings of a row, beside its preset."""
    run = next((run for run in runs if run.preset), runs[0])
    settings, changes = configuration_of(run), changes_of(run)
    notes = [
        _phrase(name.partition(".")[2], value)
        for name, value in changes.items()
        if name != "model.fit_on"
    ]
    kind = MODELS.get(run.model)
    # What makes a model this one may have changed since it was measured.
    earlier = [
        f"{name} {settings.get(f'model.{name}')}"
        for name, value in (kind.defaults if kind else {}).items()
        if name in _DEFINING and settings.get(f"model.{name}") != value
    ]
    if earlier:
        notes.append(f"earlier model with {', '.join(earlier)}")
    elif run.preset and not has_settings_of(run, run.preset, changes):
        notes.append("earlier settings of this preset")
    if not is_reproduction(run):
        parts = _PAPER_PARTS.get(str(settings.get("model.temporal")), ())
        off = [part for part in parts if settings[f"model.{part}"] is False]
        notes += [_phrase(part, False) for part in off]
    if row_kind(run) == "fitted on valid":
        notes.append("gate fitted on valid")
    return ", ".join(dict.fromkeys(notes)) or "-"


def _phrase(setting: str, value: object) -> str:
    name = setting.replace("_", " ")
    if isinstance(value, bool):
        return f"{'with' if value else 'no'} {name}"
    return f"{name} = {value}"


def with_sources(
    table: TextTable, rows: Sequence[Sequence[Runs]], names: Sequence[str]
) -> TextTable:
    """Return a table that says where its rows were measured.

    The note below the table names the hardware and the commit of the rows without a mark, which is
    that of most such rows. A row that was measured at other commits is marked. So is the mean of
    runs whose code differs, or may differ because results of earlier versions do not say what their
    code was.

    Args:
        table: The table.
        rows: For each row, the runs behind each mean it shows.
        names: What the notes call each row.
    """
    measured = [[run for runs in row for run in runs] for row in rows]
    everything = [run for runs in measured for run in runs]
    if not everything:
        return table
    commits = [list(dict.fromkeys(map(commit_label, runs))) for runs in measured]
    single = Counter(labels[0] for labels in commits if len(labels) == 1)
    known = {commit_label(run) for run in everything if run.code is not None}
    usual = max(
        single,
        key=lambda label: (not label.endswith(_CHANGED), single[label], label in known),
        default="",
    )
    marks = []
    for row, labels in zip(rows, commits, strict=True):
        mark = "" if labels in ([], [usual]) else _OTHER_COMMIT
        marks.append(mark if all(map(same_code, row)) else _OTHER_CODE)
    hardware = " and ".join(dict.fromkeys(run.hardware for run in everything))
    unless = " unless marked" if any(marks) else ""
    at = f" at commit {usual}{unless}" if "" in marks else ""
    notes = [f"Measured on {hardware}{at}."]
    for mark, text in _MARKS.items():
        groups: dict[str, list[str]] = {}
        for name, labels, own in zip(names, commits, marks, strict=True):
            if own == mark:
                groups.setdefault(", ".join(labels), []).append(name)
        listed = "; ".join(f"{at}: {', '.join(rows_at)}" for at, rows_at in groups.items())
        notes += [f"{mark} {text} ({listed})."] if listed else []
    data = {"commit": [" ".join(labels) or "-" for labels in commits]}
    return replace(table, marks=marks, notes=notes, data_columns=data)


def same_code(runs: Runs) -> bool:
    """Return whether all runs had the same code, as far as their results can tell."""
    codes = {run.code for run in runs}
    if None not in codes:
        return len(codes) <= 1
    return codes == {None} and len(set(map(commit_label, runs))) == 1


def commit_label(run: RunResults) -> str:
    """Return the first digits of the commit of a run, and whether the source had changed."""
    commit = (run.commit or "").removesuffix("-dirty")
    changed = run.dirty or (run.commit or "").endswith("-dirty")
    return f"{commit[:7] or 'unknown'}{_CHANGED if changed else ''}"
