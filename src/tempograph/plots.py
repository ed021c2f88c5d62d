"""Pictures: each function takes measured things and returns a figure; nothing is computed here."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from tempograph.analysis import Curve, Floats, GroupFigures, Side
from tempograph.data.statistics import Statistics
from tempograph.errors import ConfigError
from tempograph.files import atomic_file
from tempograph.learned import AttentionByDistance
from tempograph.predict import Completion

# The Okabe-Ito colours, told apart by every common kind of colour vision.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#767676"
RED, PURPLE, SKY = "#D55E00", "#CC79A7", "#56B4E9"
GRID: Final = "#dddddd"
_COLOURS: Final = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
_MARKERS: Final = "os^DvP"
_LINES: Final = ("-", "--", ":", "-.")
_PARTS: Final = {"s": "subject", "r": "relation", "o": "object"}
_ASKED: Final = {"subject": "subjects asked", "object": "objects asked", "both": "both sides"}
_FORMATS: Final = (".png", ".svg", ".pdf")


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the suffix decides the format."""
    if path.suffix not in _FORMATS:
        raise ConfigError(f"{path}: a picture ends in {', '.join(_FORMATS)}")
    with atomic_file(path) as temporary, _drawing():
        figure.savefig(temporary, format=path.suffix[1:], dpi=150)


def svg(figure: Figure) -> str:
    """A figure as an element of a page, without background: colours that fit paper only are the page's own."""
    drawn = io.StringIO()
    with _drawing():
        figure.savefig(drawn, format="svg", transparent=True)
    element = re.sub(r"<metadata>.*?</metadata>\s*", "", drawn.getvalue(), flags=re.DOTALL)
    element = re.sub(r"(\d\.\d\d)\d+", r"\1", element[element.index("<svg") :])
    # On dark paper these could not be read.
    for colour, name in (("#000000", "text"), (GRID, "grid"), (GREY, "quiet"), (BLUE, "blue")):
        element = element.replace(colour.lower(), f"var(--{name})")
    return element


@contextmanager
def _drawing() -> Iterator[None]:
    """Text in vector formats stays text, files of equal pictures are equal, no word on letters that a font lacks."""
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tempograph"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def statistics_figure(statistics: Statistics) -> Figure:
    """Active entities over time, and how many facts the recent past holds for them."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    over_time, spread = figure.subplots(1, 2, width_ratios=[2, 1])
    steps = range(statistics.steps)
    over_time.plot(steps, statistics.active, color=BLUE, linewidth=1, label="active")
    label = f"of these, active in the last {statistics.window} steps"
    over_time.plot(steps, statistics.active_recently, color=ORANGE, linewidth=1, label=label)
    over_time.set(
        xlabel=f"time step ({statistics.first_step} to {statistics.last_step})", ylabel="entities", ylim=(0, None)
    )
    over_time.set_title(f"{_plain(statistics.name)}: entities active at each step, of {statistics.entities:,}")
    over_time.legend(frameon=False, loc="lower right")
    spread.hist(statistics.facts_per_active, bins=40, color=GREEN)
    spread.set(xlabel=f"facts in the last {statistics.window} steps", ylabel="time steps")
    spread.set_title("mean over active entities")
    for axes in (over_time, spread):
        _tidy(axes)
    _about(figure, f"protocol: {statistics.protocol}")
    return figure


def completion_figure(completion: Completion, times: tuple[str, ...], most: int = 6) -> Figure:
    """Each of the best answers as a row over time: dots are the facts it rests on, as large as their share."""
    answers = completion.answers[:most]
    figure = Figure(figsize=(9, 1.6 + 0.42 * max(1, len(answers))), layout="constrained")
    axes = figure.subplots()
    step = {label: number for number, label in enumerate(times)}
    for row, answer in enumerate(answers):
        moments = [step[fact.time] for fact in answer.evidence]
        sizes = [12 + 300 * max(0, fact.share or 0) for fact in answer.evidence]
        axes.scatter(moments, [row] * len(moments), s=sizes, color=BLUE, alpha=0.6, linewidths=0)
    axes.axvline(step[completion.time], color=ORANGE, linewidth=2)
    axes.set_yticks(
        range(len(answers)),
        [f"{a.rank}. {_plain(a.name)}" + (f" (known: {a.known})" if a.known else "") for a in answers],
    )
    axes.set(ylim=(len(answers) - 0.5, -0.5), xlim=(0, len(times) - 1))
    ticks = sorted({round(index * (len(times) - 1) / 5) for index in range(6)})
    axes.set_xticks(ticks, [times[tick] for tick in ticks])
    axes.set_title(_plain(completion.question))
    axes.set_xlabel("train facts each answer rests on, larger for a larger share; orange: the time asked about")
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    _tidy(axes)
    return figure


class Panel(NamedTuple):
    """What is asked, a pattern, and for each run its figures against the pattern's frequency: in bins, smoothed."""

    side: Side
    pattern: str
    runs: Mapping[str, tuple[Curve, Curve]]


def effect_figure(title: str, panels: Sequence[Panel], window: int, about: str, measure: str = "Hits@10") -> Figure:
    """A measure against pattern frequencies: dots are bins of questions, lines are smoothed, bands hold 95%."""
    rows = math.ceil(len(panels) / 2)
    figure = Figure(figsize=(9, 0.9 + 2.75 * rows), layout="constrained")
    grid = figure.subplots(rows, 2, sharey=True, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        for style, (name, (bins, smooth)) in zip(_styles(), panel.runs.items(), strict=False):
            axes.plot(smooth.at, smooth.mean, color=style.colour, linestyle=style.line, linewidth=1.6)
            axes.fill_between(smooth.at, smooth.low, smooth.high, color=style.colour, alpha=0.15, linewidth=0)
            ends = [bins.mean - bins.low, bins.high - bins.mean]
            # The bounds of bins would hide the band; those of value 0, which no curve reaches, are drawn.
            zero = bins.at == 0
            axes.errorbar(
                bins.at[zero], bins.mean[zero], [end[zero] for end in ends], color=style.colour, linewidth=1.2
            )
            axes.plot(
                bins.at,
                bins.mean,
                style.marker,
                color=style.colour,
                markersize=4,
                label=_plain(name),
                markeredgewidth=0,
            )
        _frequency_axis(
            axes, max(curve.at.max() for curves in panel.runs.values() for curve in curves if len(curve.at))
        )
        axes.set_xlabel(f"train facts with the same {_words(panel.pattern)}", fontsize=9)
        axes.set_title(f"{_ASKED[panel.side]}, by f({', '.join(panel.pattern)})", fontsize=10)
        _tidy(axes, grid=True)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel(measure)
        axes.yaxis.set_major_formatter(PercentFormatter(1) if measure.startswith("Hits") else FuncFormatter(_short))
    _headed(figure, f"{title}: {measure} by frequency within {window} steps", f"{about}; bands: 95%", grid.flat[0])
    return figure


def groups_figure(panels: Mapping[str, Mapping[str, GroupFigures]], about: str) -> Figure:
    """Hits@10 in groups of questions, a panel for each way to group them: title -> run -> figures."""
    rows = math.ceil(len(panels) / 2)
    figure = Figure(figsize=(9, 0.9 + 2.75 * rows), layout="constrained")
    grid = figure.subplots(rows, 2, sharey=True, squeeze=False)
    for axes, (title, runs) in zip(grid.flat, panels.items(), strict=False):
        for place, (style, (name, found)) in enumerate(zip(_styles(), runs.items(), strict=False)):
            shift = 0.5 * ((place + 0.5) / len(runs) - 0.5)
            at = [position + shift for position in range(len(found.labels))]
            ends = [found.hits_10 - found.low, found.high - found.hits_10]
            _dots(axes.errorbar(at, found.hits_10, ends, fmt=style.marker, label=_plain(name)), style)
        labels = next(iter(runs.values())).labels
        slanted = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if sum(map(len, labels)) > 40 else {}
        axes.set_xticks(range(len(labels)), labels, fontsize=8, **slanted)
        axes.set_title(_plain(title), fontsize=10)
        axes.set_xlim(-0.6, len(labels) - 0.4)
        _tidy(axes, grid=True)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("Hits@10")
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    _headed(figure, "Hits@10 by what train holds about a question", f"{about}; bars: 95%", grid.flat[0])
    return figure


def relations_figure(runs: Mapping[str, GroupFigures], about: str, most: int = 20) -> Figure:
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
        _dots(axes.errorbar(mean, at, xerr=ends, fmt=style.marker, label=_plain(name)), style)
    labels = next(iter(runs.values())).labels
    axes.set_yticks(
        range(len(chosen)), [f"{_plain(_clipped(labels[row]))} ({questions[row]:,})" for row in chosen], fontsize=8
    )
    axes.set(ylim=(len(chosen) - 0.4, -0.6), xlabel="Hits@10")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    _tidy(axes, grid=True)
    _headed(figure, "Hits@10 by relation, with the number of questions", f"{about}; bars: 95%", axes)
    return figure


def training_figure(history: Sequence[Mapping[str, Any]], best_epoch: int | None, about: str) -> Figure:
    """Loss and MRR on valid, epoch by epoch; the epoch whose weights were kept is marked."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    shown = {"loss": ("training loss", BLUE, "Loss"), "valid/mrr": ("MRR on valid", GREEN, "MRR on valid")}
    for axes, (name, (label, colour, title)) in zip(figure.subplots(1, 2), shown.items(), strict=True):
        points = [(line["epoch"], line[name]) for line in history if name in line]
        axes.plot(
            [epoch for epoch, _ in points],
            [value for _, value in points],
            "o-",
            color=colour,
            markersize=3,
            linewidth=1.6,
        )
        if best_epoch:
            axes.axvline(best_epoch, color=ORANGE, linewidth=1.6, linestyle="--")
            title += f"; weights of epoch {best_epoch} kept"
        axes.set(xlabel="epoch", ylabel=label)
        axes.set_title(title, fontsize=10)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        _tidy(axes, grid=True)
    _about(figure, about)
    return figure


class Learned(NamedTuple):
    """What was read off one TeMP: gate weights by role, what decays are left by gap, attention by distance."""

    gate: Mapping[str, Curve]
    decay: Mapping[str, Sequence[float] | Floats]
    attention: AttentionByDistance | None


def learned_figure(learned: Learned, about: str) -> Figure:
    """A panel for each part that the model has."""
    drawn = [part for part in ("gate", "decay", "attention") if getattr(learned, part)]
    figure = Figure(figsize=(9 if len(drawn) > 1 else 5.5, 3.4), layout="constrained")
    for axes, part in zip(figure.subplots(1, len(drawn), squeeze=False).flat, drawn, strict=True):
        {"gate": _draw_gate, "decay": _draw_decay, "attention": _draw_attention}[part](axes, learned)
        _tidy(axes, grid=True)
    _about(figure, about)
    return figure


def _draw_gate(axes: Axes, learned: Learned) -> None:
    for style, (name, curve) in zip(_styles(), learned.gate.items(), strict=False):
        axes.plot(curve.at, curve.mean, marker=style.marker, color=style.colour, markersize=4, label=_plain(name))
        axes.fill_between(curve.at, curve.low, curve.high, color=style.colour, alpha=0.12, linewidth=0)
    _frequency_axis(axes, max(curve.at.max() for curve in learned.gate.values()))
    axes.set(ylim=(0, 1), xlabel="facts of entity and relation in window", ylabel="share of the snapshot")
    axes.set_title("gate; bands hold 8 in 10", fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def _draw_decay(axes: Axes, learned: Learned) -> None:
    for style, (name, left) in zip(_styles(), learned.decay.items(), strict=False):
        axes.plot(range(len(left)), left, marker=style.marker, color=style.colour, markersize=4, label=_plain(name))
    axes.set(ylim=(0, 1.05), xlabel="steps between", ylabel="share that is left")
    axes.set_title("decay", fontsize=10)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=8)


def _draw_attention(axes: Axes, learned: Learned) -> None:
    found = learned.attention
    assert found is not None
    for place, head in enumerate(found.shares):
        axes.plot(found.distance, head, color=GREY, alpha=0.5, linewidth=0.8, label="a head" if not place else None)
    axes.plot(found.distance, found.shares.mean(0), color=BLUE, marker="o", markersize=4, label="mean of heads")
    axes.set(ylim=(0, None), xlabel="steps from the question", ylabel="mean share of an active step")
    axes.set_title("attention", fontsize=10)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=8)


class _Style(NamedTuple):
    colour: str
    marker: str
    line: str


def _styles() -> Iterator[_Style]:
    """Looks that differ in colour, and in shape for print without colour."""
    number = 0
    while True:
        lap, place = divmod(number, len(_COLOURS))
        yield _Style(_COLOURS[place], _MARKERS[(place + lap) % len(_MARKERS)], _LINES[lap % len(_LINES)])
        number += 1


def _dots(drawn: ErrorbarContainer, style: _Style) -> None:
    """Dots with bars of one look."""
    line, _, bars = drawn.lines
    line.set(color=style.colour, markersize=4.5, markeredgewidth=0)
    for bar in bars:
        bar.set(color=style.colour, linewidth=1)


def _frequency_axis(axes: Axes, largest: float) -> None:
    """A logarithmic axis that has a place for 0."""
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    powers = [10**power for power in range(math.ceil(math.log10(max(largest, 2))) + 1)]
    ticks = [0, *(tick for power in powers for tick in ([power] if largest > 100 else [power, 2 * power, 5 * power]))]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(-0.25, max(largest, 1) * 1.25)


def _words(pattern: str) -> str:
    *first, last = (_PARTS[letter] for letter in pattern)
    return f"{', '.join(first)} and {last}" if first else last


def _clipped(name: str, most: int = 44) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _plain(text: str) -> str:
    """Text in which a dollar sign is a dollar sign, not the begin of a formula."""
    return text.replace("$", r"\$")


def _short(value: float, _: int) -> str:
    return f"{value:g}"


def _headed(figure: Figure, title: str, about: str, axes: Axes) -> None:
    """A title, what must stand beside the figures, and one legend for all panels."""
    figure.suptitle(_plain(f"{title}\n{about}"), fontsize=11)
    handles, labels = axes.get_legend_handles_labels()
    columns = max(1, min(len(labels), 100 // (6 + max(map(len, labels)))))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


def _about(figure: Figure, text: str) -> None:
    """What must stand beside a figure: dataset, split, filter, protocol."""
    figure.supxlabel(_plain(text), fontsize=8, color=GREY, x=0.99, ha="right")


def _tidy(axes: Axes, grid: bool = False) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if grid:
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
