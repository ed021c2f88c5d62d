"""What a search tried, as a table, a picture and a section of a report."""

from __future__ import annotations

from typing import Any, Final

from matplotlib.figure import Figure

from tempograph.progress import format_duration
from tempograph.report.document import Block, Heading, Paragraph, Picture
from tempograph.report.drawing import clean_axes, escape_math, styles
from tempograph.report.text_table import TextTable
from tempograph.training.search_record import SearchRecord, Trial

SEARCH_PICTURE: Final = "search.svg"
"""The file of a run folder with the picture of its search."""


def search_table(record: SearchRecord) -> TextTable:
    """A row for each trial, the best first: what is special, how long, how well, what became of it.

    Trials without a figure come last.
    """
    ranked = sorted(record.trials, key=lambda trial: -(trial.valid_mrr or 0.0))
    rows = [
        [
            trial.name,
            _describe_changes(trial) or "-",
            _outcome(record, trial),
            str(len(trial.rounds)),
            f"{trial.seconds:.0f}",
            "-" if trial.valid_mrr is None else f"{trial.valid_mrr:.3f}",
        ]
        for trial in ranked
    ]
    columns = ("trial", "settings beside the rules", "outcome", "rounds", "seconds", "valid MRR")
    narrow = [("trial", [0]), ("outcome", [2]), ("seconds", [4]), ("valid MRR", [5])]
    return TextTable("Trials", columns, rows, 3, describe_search(record), narrow)


def describe_search(record: SearchRecord) -> str:
    """How long a search took and what it chose, in a sentence or two."""
    budget = format_duration(60 * record.minutes)
    took = f"The search took {format_duration(record.seconds)} of {budget}"
    stopped = f", because {record.stopped}" if record.stopped and record.seconds_left else ""
    choice = f" It chose {record.leader}: {record.why}." if record.finished else " It goes on."
    return f"{took}{stopped}.{choice} It ranked valid facts as if there were no test facts."


def search_figure(record: SearchRecord) -> Figure:
    """The valid MRR of each trial against the seconds of the search; the choice is marked."""
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    for style, trial in zip(styles(), record.trials, strict=False):
        points = [(one.at, one.valid_mrr) for one in trial.rounds if one.valid_mrr is not None]
        if not points:
            continue
        chosen = trial.name == record.leader
        at, reached = zip(*points, strict=True)
        label = f"{trial.name} ({'chosen' if record.finished else 'best so far'})"
        look: dict[str, Any] = {"color": style.colour, "linestyle": style.line}
        look |= {"marker": style.marker, "markersize": 5, "linewidth": 2.4 if chosen else 1.2}
        axes.plot(at, reached, label=escape_math(label if chosen else trial.name), **look)
        if chosen:
            ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": style.colour}
            axes.plot(at[-1:], reached[-1:], "o", markersize=13, markeredgewidth=1.6, **ring)
    axes.set(xlabel="seconds since the search began", ylabel="valid MRR")
    clean_axes(axes, grid=True)
    budget = format_duration(60 * record.minutes)
    figure.suptitle(
        f"Valid MRR of each trial after each of its rounds; budget {budget}", fontsize=11
    )
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def search_blocks(record: SearchRecord) -> list[Block]:
    """The section of a report on a search."""
    alt = "Valid MRR of each trial against the seconds of the search"
    return [
        Heading("What was tried"),
        Paragraph(
            "Models and settings were compared by their MRR on the valid facts. The test facts had "
            "no part in the choice."
        ),
        search_table(record),
        Picture("search", search_figure(record), alt),
    ]


def _describe_changes(trial: Trial) -> str:
    """The overrides without their section, and parts by their names."""
    changes = []
    for override in trial.overrides:
        name, _, value = override.partition("=")
        short = name.partition(".")[2]
        if short == "parts":
            value = ", ".join(path.rpartition("/")[2] for path in value.strip('[]"').split('", "'))
        changes.append(f"{short} {value}")
    return ", ".join(changes)


def _outcome(record: SearchRecord, trial: Trial) -> str:
    if trial.name == record.leader:
        return "chosen" if record.finished else "best so far"
    return trial.dropped or "-"
