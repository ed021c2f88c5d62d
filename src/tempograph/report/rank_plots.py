"""Figures of ranks: measures by pattern frequency, by group of queries and by relation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter, ScalarFormatter

from tempograph.evaluation.frequency_curves import Curve
from tempograph.evaluation.query_groups import GroupMetrics
from tempograph.evaluation.rank_table import Side
from tempograph.report.drawing import clean_axes, escape_math, styles

_PARTS: Final = {"s": "subject", "r": "relation", "o": "object"}
_SIDES: Final = {"subject": "subject queries", "object": "object queries", "both": "all queries"}


class Panel(NamedTuple):
    """The curves of runs against the frequency of a pattern, each in bins and smoothed."""

    side: Side
    pattern: str
    runs: Mapping[str, tuple[Curve, Curve]]


def effect_figure(
    title: str, panels: Sequence[Panel], window: int, about: str, measure: str = "Hits@10"
) -> Figure:
    """A measure against pattern frequencies: dots are bins, lines are smoothed, bands hold 95%."""
    figure, grid = _panels(len(panels), measure)
    for axes, panel in zip(grid, panels, strict=True):
        for style, (name, (bins, smooth)) in zip(styles(), panel.runs.items(), strict=False):
            colour = style.colour
            line: dict[str, Any] = {"linestyle": style.line, "linewidth": 1.6}
            axes.plot(smooth.at, smooth.mean, color=colour, **line)
            band: dict[str, Any] = {"color": colour, "alpha": 0.15, "linewidth": 0}
            axes.fill_between(smooth.at, smooth.low, smooth.high, **band)
            # Bounds of bins would hide the band. Only those at 0 are drawn: no curve reaches them.
            zero = bins.at == 0
            axes.vlines(bins.at[zero], bins.low[zero], bins.high[zero], color=colour, linewidth=1.2)
            dots: dict[str, Any] = {"color": colour, "markersize": 4, "markeredgewidth": 0}
            axes.plot(bins.at, bins.mean, style.marker, **dots)
            # An empty line for the legend, which shows line and dot together.
            axes.plot([], [], style.marker, label=escape_math(name), **line, **dots)
        set_frequency_axis(axes, [curve for curves in panel.runs.values() for curve in curves])
        axes.set_xlabel(f"train facts with the same {_words(panel.pattern)}", fontsize=9)
        axes.set_title(f"{_SIDES[panel.side]}, by f({', '.join(panel.pattern)})", fontsize=10)
        clean_axes(axes, grid=True)
    title = f"{title}: {measure} by frequency within {window} steps"
    _add_title_and_legend(figure, title, f"{about}; bands: 95%", grid[0])
    return figure


def groups_figure(panels: Mapping[str, Mapping[str, GroupMetrics]], about: str) -> Figure:
    """Hits@10 of groups of queries, a panel for each grouping: title -> run -> figures."""
    figure, grid = _panels(len(panels), "Hits@10")
    for axes, (title, runs) in zip(grid, panels.items(), strict=True):
        labels = next(iter(runs.values())).labels
        _draw_intervals(axes, runs, list(range(len(labels))), 0.5)
        axes.set_xticks(range(len(labels)), labels, fontsize=8)
        if sum(map(len, labels)) > 40:
            axes.tick_params("x", rotation=35)
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
        axes.set_title(escape_math(title), fontsize=10)
        axes.set_xlim(-0.6, len(labels) - 0.4)
        clean_axes(axes, grid=True)
    title = "Hits@10 by what train says about a query"
    _add_title_and_legend(figure, title, f"{about}; bars: 95%", grid[0])
    return figure


def relations_figure(
    runs: Mapping[str, GroupMetrics], about: str, max_relations: int = 20
) -> Figure:
    """Hits@10 of the relations with the most queries, the most frequent on top."""
    first = next(iter(runs.values()))
    chosen = first.questions.argsort(kind="stable")[::-1][:max_relations].tolist()
    figure = Figure(figsize=(9, 1.6 + 0.27 * len(chosen)), layout="constrained")
    axes = figure.subplots()
    _draw_intervals(axes, runs, chosen, 0.6, horizontal=True)
    labels = [
        f"{escape_math(_shorten(first.labels[row]))} ({first.questions[row]:,})" for row in chosen
    ]
    axes.set_yticks(range(len(chosen)), labels, fontsize=8)
    axes.set(ylim=(len(chosen) - 0.4, -0.6), xlabel="Hits@10")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    clean_axes(axes, grid=True)
    title = "Hits@10 by relation, with the number of queries"
    _add_title_and_legend(figure, title, f"{about}; bars: 95%", axes)
    return figure


def _draw_intervals(
    axes: Axes,
    runs: Mapping[str, GroupMetrics],
    groups: list[int],
    width: float,
    horizontal: bool = False,
) -> None:
    """Hits@10 of some groups as dots with 95% bars, those of one group side by side."""
    for number, (style, (name, run)) in enumerate(zip(styles(), runs.items(), strict=False)):
        shift = width * ((number + 0.5) / len(runs) - 0.5)
        at = [index + shift for index in range(len(groups))]
        mean, low, high = (values[groups] for values in (run.hits_10, run.low, run.high))
        bars = [mean - low, high - mean]
        look: dict[str, Any] = {"fmt": style.marker, "color": style.colour, "elinewidth": 1}
        look |= {"markersize": 4.5, "markeredgewidth": 0, "label": escape_math(name)}
        if horizontal:
            axes.errorbar(mean, at, xerr=bars, **look)
        else:
            axes.errorbar(at, mean, yerr=bars, **look)


def set_frequency_axis(axes: Axes, curves: Sequence[Curve]) -> None:
    """Make the x axis logarithmic, with room for 0."""
    largest = max(curve.at.max(initial=1) for curve in curves)
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    powers = [10**power for power in range(math.ceil(math.log10(largest)) + 1)]
    factors = (1,) if largest > 100 else (1, 2, 5)
    ticks = [0, *(factor * power for power in powers for factor in factors)]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(-0.25, largest * 1.25)


def _panels(number: int, measure: str) -> tuple[Figure, list[Axes]]:
    """A figure of panels in two columns that share the axis of a measure."""
    rows = math.ceil(number / 2)
    figure = Figure(figsize=(9, 0.9 + 2.75 * rows), layout="constrained")
    grid = figure.subplots(rows, 2, sharey=True, squeeze=False)
    for axes in grid[:, 0]:
        axes.set_ylabel(measure)
        percent = measure.startswith("Hits")
        axes.yaxis.set_major_formatter(PercentFormatter(1) if percent else ScalarFormatter())
    for axes in grid.flat[number:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:number])


def _add_title_and_legend(figure: Figure, title: str, about: str, axes: Axes) -> None:
    """Add a title with what readers must know, and one legend for all panels."""
    figure.suptitle(escape_math(f"{title}\n{about}"), fontsize=11)
    handles, labels = axes.get_legend_handles_labels()
    columns = max(1, min(len(labels), 100 // (6 + max(map(len, labels)))))
    look: dict[str, Any] = {"ncols": columns, "frameon": False, "fontsize": 9}
    figure.legend(handles, labels, loc="outside lower center", **look)


def _words(pattern: str) -> str:
    *first, last = (_PARTS[letter] for letter in pattern)
    return f"{', '.join(first)} and {last}" if first else last


def _shorten(name: str, length: int = 44) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}…"
