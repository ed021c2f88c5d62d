"""The figure of a dataset: activity over time, and how facts are spread over entities."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from tempograph.data.graph import TemporalGraph
from tempograph.data.statistics import Statistics
from tempograph.evaluation.frequency_curves import rolling_mean, shares_with_at_least
from tempograph.evaluation.hard_questions import facts_per_entity
from tempograph.report.drawing import (
    BLUE,
    GREEN,
    GRID,
    ORANGE,
    PURPLE,
    add_footer,
    clean_axes,
    escape_math,
)


def statistics_figure(statistics: Statistics, graph: TemporalGraph) -> Figure:
    """Active entities at each step, their recent facts, and the facts of each entity."""
    figure = Figure(figsize=(10, 6.6), layout="constrained")
    panels = figure.subplot_mosaic([["time", "time"], ["recent", "entities"]])
    _draw_entities(panels["entities"], graph)
    _draw_activity(panels["time"], statistics, graph.times)
    panels["recent"].hist(statistics.facts_per_active, bins=40, color=GREEN)
    panels["recent"].set(xlabel=f"facts in the last {statistics.window} steps", ylabel="time steps")
    panels["recent"].set_title("recent facts: mean over active entities", fontsize=10)
    for axes in panels.values():
        clean_axes(axes)
    add_footer(figure, f"protocol {statistics.protocol}")
    return figure


def _draw_activity(axes: Axes, statistics: Statistics, labels: Sequence[str]) -> None:
    """Two curves over time; with many steps, running means in front of faint values."""
    width = statistics.steps // 60 // 2 * 2 + 1 if statistics.steps > 200 else 1
    recently = f"of these, active in the last {statistics.window} steps"
    for label, values, colour in (
        ("active", statistics.active, BLUE),
        (recently, statistics.active_recently, ORANGE),
    ):
        if width > 1:
            axes.plot(values, color=colour, linewidth=0.5, alpha=0.25)
        mean, line = rolling_mean(values, width), 1.6 if width > 1 else 1
        axes.plot(mean, color=colour, linewidth=line, label=label)
    means = f"; lines: mean of {width} steps, faint: each step" if width > 1 else ""
    title = f"{escape_math(statistics.name)}: entities active at a step, of "
    axes.set_title(f"{title}{statistics.entities:,}{means}", fontsize=10)
    axes.set(xlabel="time step", ylabel="entities")
    axes.set(ylim=(0, None), xlim=(0, max(1, statistics.steps - 1)))
    parts = min(len(labels), 7) - 1
    ticks = sorted({round(n * (len(labels) - 1) / max(1, parts)) for n in range(parts + 1)})
    axes.set_xticks(ticks, [escape_math(labels[tick]) for tick in ticks])
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=9)


def _draw_entities(axes: Axes, graph: TemporalGraph) -> None:
    """The share of entities with at least n facts, on logarithmic axes."""
    counts = facts_per_entity(graph)
    least, share = shares_with_at_least(counts)
    axes.plot(least, share, ".-" if len(least) < 50 else "-", color=PURPLE, linewidth=1.6)
    axes.set(xlabel="train facts that name an entity", ylabel="entities with as many or more")
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    without = int((counts == 0).sum())
    title = f"facts per entity{f'; {without:,} entities have none' if without else ''}"
    axes.set_title(title, fontsize=10)
    axes.grid(color=GRID, linewidth=0.6)
