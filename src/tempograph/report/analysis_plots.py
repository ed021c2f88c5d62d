"""Pictures of the analyses: each function takes what was found and returns a figure; nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter, ScalarFormatter

from tempograph.evaluation.frequency_curves import Curve
from tempograph.evaluation.query_groups import GroupMetrics
from tempograph.evaluation.rank_table import Side
from tempograph.report.introspection import Introspection
from tempograph.report.plots import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    plain,
    stand_beside,
    tidy,
)

_COLOURS: Final = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
_MARKERS: Final = "os^DvP"
_LINES: Final = ("-", "--", ":", "-.")
_PARTS: Final = {"s": "subject", "r": "relation", "o": "object"}
_ASKED: Final = {"subject": "subjects asked", "object": "objects asked", "both": "both sides"}


class Panel(NamedTuple):
    """What is asked, a pattern, and for each run its figures against the pattern's frequency: in bins, smoothed."""

    side: Side
    pattern: str
    runs: Mapping[str, tuple[Curve, Curve]]


def effect_figure(
    title: str, panels: Sequence[Panel], window: int, about: str, measure: str = "Hits@10"
) -> Figure:
    """A measure against pattern frequencies: dots are bins of questions, lines are smoothed, bands hold 95%."""
    figure, grid = _panels(len(panels), measure)
    for axes, panel in zip(grid, panels, strict=True):
        for style, (name, (bins, smooth)) in zip(_styles(), panel.runs.items(), strict=False):
            axes.plot(
                smooth.at, smooth.mean, color=style.colour, linestyle=style.line, linewidth=1.6
            )
            axes.fill_between(
                smooth.at, smooth.low, smooth.high, color=style.colour, alpha=0.15, linewidth=0
            )
            # The bounds of bins would hide the band; those of value 0, which no curve reaches, are drawn.
            zero = bins.at == 0
            axes.vlines(
                bins.at[zero], bins.low[zero], bins.high[zero], color=style.colour, linewidth=1.2
            )
            look: dict[str, Any] = {"color": style.colour, "markersize": 4, "markeredgewidth": 0}
            axes.plot(bins.at, bins.mean, style.marker, **look)
            # Of nothing but for the legend, which shows line and dot together.
            axes.plot(
                [], [], style.marker, linestyle=style.line, linewidth=1.6, label=plain(name), **look
            )
        _frequency_axis(axes, [curve for curves in panel.runs.values() for curve in curves])
        axes.set_xlabel(f"train facts with the same {_words(panel.pattern)}", fontsize=9)
        axes.set_title(f"{_ASKED[panel.side]}, by f({', '.join(panel.pattern)})", fontsize=10)
        tidy(axes, grid=True)
    _headed(
        figure,
        f"{title}: {measure} by frequency within {window} steps",
        f"{about}; bands: 95%",
        grid[0],
    )
    return figure


def groups_figure(panels: Mapping[str, Mapping[str, GroupMetrics]], about: str) -> Figure:
    """Hits@10 in groups of questions, a panel for each way to group them: title -> run -> figures."""
    figure, grid = _panels(len(panels), "Hits@10")
    for axes, (title, runs) in zip(grid, panels.items(), strict=True):
        for place, (style, (name, found)) in enumerate(zip(_styles(), runs.items(), strict=False)):
            shift = 0.5 * ((place + 0.5) / len(runs) - 0.5)
            at = [position + shift for position in range(len(found.labels))]
            ends = [found.hits_10 - found.low, found.high - found.hits_10]
            _dots(
                axes.errorbar(at, found.hits_10, ends, fmt=style.marker, label=plain(name)), style
            )
        labels = next(iter(runs.values())).labels
        axes.set_xticks(range(len(labels)), labels, fontsize=8)
        if sum(map(len, labels)) > 40:
            axes.tick_params("x", rotation=35)
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
        axes.set_title(plain(title), fontsize=10)
        axes.set_xlim(-0.6, len(labels) - 0.4)
        tidy(axes, grid=True)
    _headed(figure, "Hits@10 by what train holds about a question", f"{about}; bars: 95%", grid[0])
    return figure


def relations_figure(runs: Mapping[str, GroupMetrics], about: str, most: int = 20) -> Figure:
    """Hits@10 of the relations that are asked most often, the commonest on top."""
    questions = next(iter(runs.values())).questions
    chosen = questions.argsort(kind="stable")[::-1][:most]
    figure = Figure(figsize=(9, 1.6 + 0.27 * len(chosen)), layout="constrained")
    axes = figure.subplots()
    for place, (style, (name, found)) in enumerate(zip(_styles(), runs.items(), strict=False)):
        shift = 0.6 * ((place + 0.5) / len(runs) - 0.5)
        at = [row + shift for row in range(len(chosen))]
        mean, low, high = (column[chosen] for column in (found.hits_10, found.low, found.high))
        ends = [mean - low, high - mean]
        _dots(axes.errorbar(mean, at, xerr=ends, fmt=style.marker, label=plain(name)), style)
    labels = next(iter(runs.values())).labels
    axes.set_yticks(
        range(len(chosen)),
        [f"{plain(_clipped(labels[row]))} ({questions[row]:,})" for row in chosen],
        fontsize=8,
    )
    axes.set(ylim=(len(chosen) - 0.4, -0.6), xlabel="Hits@10")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    tidy(axes, grid=True)
    _headed(
        figure, "Hits@10 by relation, with the number of questions", f"{about}; bars: 95%", axes
    )
    return figure


def training_figure(
    history: Sequence[Mapping[str, Any]], best_epoch: int | None, about: str
) -> Figure:
    """Loss and MRR on valid, epoch by epoch; the epoch whose weights were kept is marked."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    shown = {
        "loss": ("training loss", BLUE, "Loss"),
        "valid/mrr": ("MRR on valid", GREEN, "MRR on valid"),
    }
    both = figure.subplots(1, 2, sharex=True)
    for axes, (name, (label, colour, title)) in zip(both, shown.items(), strict=True):
        told = [line for line in history if name in line]
        epochs, values = [line["epoch"] for line in told], [line[name] for line in told]
        axes.plot(epochs, values, "o-", color=colour, markersize=3, linewidth=1.6)
        if best_epoch:
            axes.axvline(best_epoch, color=ORANGE, linewidth=1.6, linestyle="--")
            title += f"; weights of epoch {best_epoch} kept"
        axes.set(xlabel="epoch", ylabel=label)
        axes.set_title(title, fontsize=10)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        tidy(axes, grid=True)
    stand_beside(figure, about)
    return figure


def learned_figure(learned: Introspection, about: str) -> Figure:
    """A panel for each part that the model has."""
    drawn = [part for part in ("gate", "decay", "attention") if getattr(learned, part)]
    figure = Figure(figsize=(9 if len(drawn) > 1 else 5.5, 3.4), layout="constrained")
    for axes, part in zip(figure.subplots(1, len(drawn), squeeze=False).flat, drawn, strict=True):
        {"gate": _draw_gate, "decay": _draw_decay, "attention": _draw_attention}[part](
            axes, learned
        )
        tidy(axes, grid=True)
    stand_beside(figure, about)
    return figure


def _draw_gate(axes: Axes, learned: Introspection) -> None:
    for style, (name, curve) in zip(_styles(), learned.gate.items(), strict=False):
        axes.plot(
            curve.at,
            curve.mean,
            marker=style.marker,
            color=style.colour,
            markersize=4,
            label=plain(name),
        )
        axes.fill_between(
            curve.at, curve.low, curve.high, color=style.colour, alpha=0.12, linewidth=0
        )
    _frequency_axis(axes, list(learned.gate.values()))
    axes.set(
        ylim=(0, 1), xlabel="facts of entity and relation in window", ylabel="share of the snapshot"
    )
    axes.set_title("gate; bands hold 8 in 10", fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def _draw_decay(axes: Axes, learned: Introspection) -> None:
    for style, (name, left) in zip(_styles(), learned.decay.items(), strict=False):
        axes.plot(
            range(len(left)),
            left,
            marker=style.marker,
            color=style.colour,
            markersize=4,
            label=plain(name),
        )
    axes.set(ylim=(0, 1.05), xlabel="steps between", ylabel="share that is left")
    axes.set_title("decay", fontsize=10)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=8)


def _draw_attention(axes: Axes, learned: Introspection) -> None:
    found = learned.attention
    assert found is not None
    for place, head in enumerate(found.shares):
        axes.plot(
            found.distance,
            head,
            color=GREY,
            alpha=0.5,
            linewidth=0.8,
            label="a head" if not place else None,
        )
    axes.plot(
        found.distance,
        found.shares.mean(0),
        color=BLUE,
        marker="o",
        markersize=4,
        label="mean of heads",
    )
    axes.set(
        ylim=(0, None), xlabel="steps from the question", ylabel="mean share of an active step"
    )
    axes.set_title("attention", fontsize=10)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=8)


def _panels(number: int, measure: str) -> tuple[Figure, list[Axes]]:
    """A figure of panels in two columns that share the axis of a measure."""
    rows = math.ceil(number / 2)
    figure = Figure(figsize=(9, 0.9 + 2.75 * rows), layout="constrained")
    grid = figure.subplots(rows, 2, sharey=True, squeeze=False)
    for axes in grid[:, 0]:
        axes.set_ylabel(measure)
        axes.yaxis.set_major_formatter(
            PercentFormatter(1) if measure.startswith("Hits") else ScalarFormatter()
        )
    for axes in grid.flat[number:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:number])


class _Style(NamedTuple):
    colour: str
    marker: str
    line: str


def _styles() -> Iterator[_Style]:
    """Looks that differ in colour, and in shape for print without colour."""
    for number in count():
        lap, place = divmod(number, len(_COLOURS))
        yield _Style(
            _COLOURS[place], _MARKERS[(place + lap) % len(_MARKERS)], _LINES[lap % len(_LINES)]
        )


def _dots(drawn: ErrorbarContainer, style: _Style) -> None:
    """Dots with bars of one look."""
    line, _, bars = drawn.lines
    line.set(color=style.colour, markersize=4.5, markeredgewidth=0)
    for bar in bars:
        bar.set(color=style.colour, linewidth=1)


def _frequency_axis(axes: Axes, curves: Sequence[Curve]) -> None:
    """A logarithmic axis that has a place for 0."""
    largest = max(curve.at.max(initial=1) for curve in curves)
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    powers = [10**power for power in range(math.ceil(math.log10(largest)) + 1)]
    ticks = [
        0,
        *(
            tick
            for power in powers
            for tick in ([power] if largest > 100 else [power, 2 * power, 5 * power])
        ),
    ]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(-0.25, largest * 1.25)


def _words(pattern: str) -> str:
    *first, last = (_PARTS[letter] for letter in pattern)
    return f"{', '.join(first)} and {last}" if first else last


def _clipped(name: str, most: int = 44) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _headed(figure: Figure, title: str, about: str, axes: Axes) -> None:
    """A title, what must stand beside the figures, and one legend for all panels."""
    figure.suptitle(plain(f"{title}\n{about}"), fontsize=11)
    handles, labels = axes.get_legend_handles_labels()
    columns = max(1, min(len(labels), 100 // (6 + max(map(len, labels)))))
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9
    )
