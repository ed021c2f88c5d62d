"""A replay as a table, a picture, and a folder of files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tempograph.data.table_files import write_table
from tempograph.io import make_folder, write_json
from tempograph.prediction.backtest_result import Backtest
from tempograph.report.drawing import add_footer, clean_axes, save, styles
from tempograph.report.text_table import TextTable

_MAX_TICKS: Final = 12
"""Labels that fit below the steps."""


def write_backtest(backtest: Backtest, folder: Path) -> None:
    """Write steps.csv, steps.parquet, backtest.json and backtest.png into a folder."""
    make_folder(folder)
    table = backtest.to_arrow()
    for name in ("steps.csv", "steps.parquet"):
        write_table(table, folder / name)
    write_json(folder / "backtest.json", backtest.summary())
    save(backtest_figure(backtest), folder / "backtest.png")


def backtest_table(backtest: Backtest) -> TextTable:
    """The figures of each step, and those of the whole period in the caption."""
    rows = [
        [
            step.time,
            f"{step.facts:,}",
            "-" if step.mrr is None else f"{step.mrr:.3f}",
            *("-" if hits is None else f"{100 * hits:.1f}" for hits in (step.hits_1, step.hits_10)),
            "-" if step.expected is None else f"{step.expected:,.1f}",
            "-" if step.happened is None else f"{step.happened:,}",
            "-" if step.brier is None else f"{step.brier:.4f}",
        ]
        for step in backtest.steps
    ]
    caption = "Protocol forecast-single, filter time, Hits in percent."
    if (found := backtest.metrics) is not None:
        caption += (
            f" All steps: MRR {found['mrr']:.3f}, Hits@1 {100 * found['hits@1']:.1f}, Hits@10 "
            f"{100 * found['hits@10']:.1f}."
        )
    if backtest.calibration_error is not None:
        caption += (
            " Expected and happened: of the facts that were proposed for the step; their "
            f"probabilities have an expected calibration error of {backtest.calibration_error:.3f}."
        )
    columns = ("time", "facts", "MRR", "Hits@1", "Hits@10", "expected", "happened", "Brier")
    return TextTable(backtest.title, columns, rows, 1, caption)


def backtest_figure(backtest: Backtest) -> Figure:
    """Facts, ranks, and what was expected beside what happened, against time."""
    steps = backtest.steps
    panels = 2 if any(step.expected is not None for step in steps) else 1
    figure = Figure(figsize=(8, 1.6 + 2.2 * panels), layout="constrained")
    axes: list[Axes] = list(figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0])
    _draw(axes[0], backtest, {"hits_10": "Hits@10", "mrr": "MRR"})
    axes[0].set_ylim(0, 1)
    axes[0].set_title("Ranks of what happened", fontsize=10)
    if panels == 2:
        _draw(axes[1], backtest, {"happened": "proposals that happened", "expected": "expected"})
        axes[1].set_ylim(bottom=0)
        axes[1].set_title("Facts that were forecast", fontsize=10)
    for each in axes:
        clean_axes(each, grid=True)
        each.legend(frameon=False, fontsize=8, loc="upper right")
    every_nth = max(1, -(-len(steps) // _MAX_TICKS))
    ticks = range(0, len(steps), every_nth)
    axes[-1].set_xticks(ticks, [steps[tick].time for tick in ticks], fontsize=8, rotation=35)
    for label in axes[-1].get_xticklabels():
        label.set(ha="right", rotation_mode="anchor")
    add_footer(figure, backtest.about)
    return figure


def _draw(axes: Axes, backtest: Backtest, columns: Mapping[str, str]) -> None:
    """Draw columns of the steps as lines; there is a gap where a step has no value."""
    for style, (name, label) in zip(styles(), columns.items(), strict=False):
        values = [getattr(step, name) for step in backtest.steps]
        heights = np.array([math.nan if value is None else value for value in values])
        axes.plot(
            heights,
            marker=style.marker,
            linestyle=style.line,
            color=style.colour,
            markersize=3,
            label=label,
        )
