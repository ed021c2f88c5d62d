"""Rows of measured results: what their settings are, and at which commit they were measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from tempograph.experiments.configurations import changes_of, configuration_of, has_settings_of
from tempograph.experiments.published import PROTOCOL_DEPENDENT
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults

Runs = Sequence[RunResults]
"""The seeds of one row."""

RowKind = Literal["paper's settings", "usual", "fitted on valid"]
"""Runs of different kinds are never candidates for the same row."""

_OTHER_COMMIT: Final = "†"
_OTHER_CODE: Final = "‡"
_MARKS: Final = {
    _OTHER_COMMIT: "Measured at another commit",
    _OTHER_CODE: "Mean of runs whose code differs, or is not known to be the same",
}
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
    """
    if is_reproduction(result):
        return "paper's settings"
    on_valid = configuration_of(result).get("model.fit_on") == "valid"
    return "fitted on valid" if on_valid else "usual"


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
    if run.preset and not has_settings_of(run, run.preset, changes):
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

    The note below the table names the commit of most runs and the hardware. A row that was measured
    at another commit is marked. So is the mean of runs whose code differs, or may differ because
    results of earlier versions do not say what their code was.

    Args:
        table: The table.
        rows: For each row, the runs behind each mean it shows.
        names: What the notes call each row.
    """
    measured = [[run for runs in row for run in runs] for row in rows]
    everything = [run for runs in measured for run in runs]
    if not everything:
        return table
    usual = Counter(map(commit_label, everything)).most_common(1)[0][0]
    commits = [list(dict.fromkeys(map(commit_label, runs))) for runs in measured]
    marks = []
    for row, labels in zip(rows, commits, strict=True):
        mark = "" if labels in ([], [usual]) else _OTHER_COMMIT
        marks.append(mark if all(map(same_code, row)) else _OTHER_CODE)
    hardware = " and ".join(dict.fromkeys(run.hardware for run in everything))
    notes = [f"Measured at commit {usual} on {hardware}."]
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
    return f"{commit[:7] or 'unknown'}{' with changes' if changed else ''}"
