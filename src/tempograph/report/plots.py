"""Pictures: each function takes measured things and returns a figure."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from tempograph.data.graph import TemporalGraph
from tempograph.data.statistics import Statistics
from tempograph.errors import ConfigError
from tempograph.evaluation.calibration import Calibration
from tempograph.evaluation.frequency_curves import rolling_mean, shares_with_at_least
from tempograph.evaluation.query_groups import facts_per_entity
from tempograph.io import atomic_file
from tempograph.prediction.answers import Completion, EvidenceFact

# The Okabe-Ito colours, told apart by every common kind of colour vision.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#767676"
RED, PURPLE, SKY = "#D55E00", "#CC79A7", "#56B4E9"
GRID: Final = "#dddddd"
_FORMATS: Final = (".png", ".svg", ".pdf")


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the suffix decides the format."""
    suffix = path.suffix.lower()
    if suffix not in _FORMATS:
        raise ConfigError(f"{path}: a picture ends in {', '.join(_FORMATS)}")
    undated = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[suffix]
    with atomic_file(path) as temporary, _drawing():
        figure.savefig(temporary, format=suffix[1:], dpi=150, metadata=undated)


def svg(figure: Figure, name: str) -> str:
    """A figure as an element of a page, without background; what it holds is named after it.

    Coordinates are rounded, and colours that could not be read on dark paper are the page's own.
    """
    drawn = io.StringIO()
    with _drawing():
        figure.savefig(drawn, format="svg", transparent=True)

    def fitted(tag: re.Match[str]) -> str:
        text = re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0])
        for colour, of_page in (
            ("#000000", "text"),
            (GRID, "grid"),
            (GREY, "quiet"),
            (BLUE, "blue"),
        ):
            text = text.replace(colour.lower(), f"var(--{of_page})")
        return re.sub(r'(id="|"#|url\(#)', rf"\g<1>{name}-", text)

    element = re.sub(r"<metadata>.*?</metadata>\s*", "", drawn.getvalue(), flags=re.DOTALL)
    return re.sub(r"<[^>]*>", fitted, element[element.index("<svg") :])


@contextmanager
def _drawing() -> Iterator[None]:
    """Text in vector formats stays text, files of equal pictures are equal, no word on letters that a font lacks."""
    with (
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tempograph"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def statistics_figure(statistics: Statistics, graph: TemporalGraph) -> Figure:
    """Active entities over time, how many facts the recent past holds for them, and how facts are spread over all."""
    figure = Figure(figsize=(10, 6.6), layout="constrained")
    panels = figure.subplot_mosaic([["time", "time"], ["recent", "entities"]])
    _draw_entities(panels["entities"], graph)
    _draw_activity(panels["time"], statistics, graph.times)
    panels["recent"].hist(statistics.facts_per_active, bins=40, color=GREEN)
    panels["recent"].set(xlabel=f"facts in the last {statistics.window} steps", ylabel="time steps")
    panels["recent"].set_title("recent facts: mean over active entities", fontsize=10)
    for axes in panels.values():
        tidy(axes)
    stand_beside(figure, f"protocol {statistics.protocol}")
    return figure


def _draw_activity(axes: Axes, statistics: Statistics, labels: Sequence[str]) -> None:
    """Two curves; where there are too many steps to tell them apart, means stand before each step's own value."""
    width = statistics.steps // 60 // 2 * 2 + 1 if statistics.steps > 200 else 1
    shown = {
        "active": (statistics.active, BLUE),
        f"of these, active in the last {statistics.window} steps": (
            statistics.active_recently,
            ORANGE,
        ),
    }
    for label, (values, colour) in shown.items():
        if width > 1:
            axes.plot(values, color=colour, linewidth=0.5, alpha=0.25)
        axes.plot(
            rolling_mean(values, width),
            color=colour,
            linewidth=1.6 if width > 1 else 1,
            label=label,
        )
    means = f"; lines: mean of {width} steps, faint: each step" if width > 1 else ""
    axes.set_title(
        f"{plain(statistics.name)}: entities active at a step, of {statistics.entities:,}{means}",
        fontsize=10,
    )
    axes.set(
        xlabel="time step",
        ylabel="entities",
        ylim=(0, None),
        xlim=(0, max(1, statistics.steps - 1)),
    )
    most = min(len(labels), 7) - 1
    places = sorted({round(place * (len(labels) - 1) / max(1, most)) for place in range(most + 1)})
    axes.set_xticks(places, [plain(labels[place]) for place in places])
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=9)


def _draw_entities(axes: Axes, graph: TemporalGraph) -> None:
    """The share of entities that at least so many facts name, on logarithmic axes."""
    counts = facts_per_entity(graph)
    least, share = shares_with_at_least(counts)
    axes.plot(least, share, ".-" if len(least) < 50 else "-", color=PURPLE, linewidth=1.6)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="train facts that name an entity",
        ylabel="entities with as many or more",
    )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    without = int((counts == 0).sum())
    axes.set_title(
        f"facts per entity{f'; {without:,} entities have none' if without else ''}", fontsize=10
    )
    axes.grid(color=GRID, linewidth=0.6)


def completion_figure(
    completion: Completion, times: tuple[str, ...], about: str, most: int = 6
) -> Figure:
    """Each of the best answers as a row over time: dots are the facts it rests on, as large as their effect."""
    answers = completion.answers[:most]
    figure = Figure(figsize=(9, 1.6 + 0.42 * max(1, len(answers))), layout="constrained")
    axes = figure.subplots()
    step = {label: number for number, label in enumerate(times)}
    largest = max((_weight(fact) for answer in answers for fact in answer.evidence), default=0)
    for row, answer in enumerate(answers):
        moments = [step[fact.time] for fact in answer.evidence]
        sizes = [
            12 + 300 * (weight / largest if weight > 0 else 0)
            for weight in map(_weight, answer.evidence)
        ]
        axes.scatter(
            moments,
            [row] * len(moments),
            s=sizes,
            color=BLUE,
            alpha=0.6,
            linewidths=0,
            clip_on=False,
        )
    if completion.time is not None:
        axes.axvline(step[completion.time], color=ORANGE, linewidth=2, zorder=0)
    axes.set_yticks(
        range(len(answers)),
        [
            f"{a.rank}. {plain(a.name)}" + (f" (known: {a.known})" if a.known else "")
            for a in answers
        ],
    )
    axes.set(ylim=(max(1, len(answers)) - 0.5, -0.5), xlim=(0, max(1, len(times) - 1)))
    ticks = sorted({round(index * (len(times) - 1) / 5) for index in range(6)})
    axes.set_xticks(ticks, [times[tick] for tick in ticks])
    axes.set_title(plain(completion.question))
    axes.set_xlabel(
        "train facts each answer rests on, larger for a larger effect; orange: the time asked about"
    )
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    tidy(axes)
    stand_beside(figure, about)
    return figure


def _weight(fact: EvidenceFact) -> float:
    """How large a fact is drawn: by its effect on the score, or the share that a model gives it."""
    return fact.effect if fact.effect is not None else fact.share or 0


def reliability_figure(calibration: Calibration, about: str) -> Figure:
    """How often the best answer is right by how sure it is; on the line sureness can be taken at its word."""
    rows = calibration["reliability"]
    figure = Figure(figsize=(5.2, 5.6), layout="constrained")
    curve, counts = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    curve.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    curve.plot(
        [row["confidence"] for row in rows],
        [row["right"] for row in rows],
        color=BLUE,
        marker="o",
        linewidth=1.5,
    )
    curve.set(xlim=(0, 1), ylim=(0, 1), ylabel="share of best answers that are right")
    error = calibration["calibration_error"]
    curve.set_title(
        f"how sure, and how often right; expected calibration error {error:.3f}", fontsize=10
    )
    middles, widths = zip(
        *(((row["from"] + row["to"]) / 2, row["to"] - row["from"]) for row in rows), strict=True
    )
    counts.bar(
        middles, [row["questions"] for row in rows], [0.9 * width for width in widths], color=ORANGE
    )
    counts.set(xlabel="probability of the best answer", ylabel="questions")
    for axes in (curve, counts):
        tidy(axes)
    stand_beside(figure, f"{about}, {calibration['split']}, filter time")
    return figure


def plain(text: str) -> str:
    """Text in which a dollar sign is a dollar sign, not the begin of a formula."""
    return text.replace("$", r"\$")


def stand_beside(figure: Figure, text: str) -> None:
    """What must stand beside a figure: dataset, split, filter, protocol."""
    figure.supxlabel(plain(text), fontsize=8, color=GREY, x=0.99, ha="right")


def tidy(axes: Axes, grid: bool = False) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if grid:
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
