"""Figures of one model: its training, its calibration and its inner weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tempograph.evaluation.calibration import Calibration
from tempograph.report.drawing import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    add_footer,
    clean_axes,
    escape_math,
    styles,
)
from tempograph.report.introspection import AttentionByDistance, Introspection
from tempograph.report.rank_plots import set_frequency_axis


def training_figure(
    history: Sequence[Mapping[str, float]], best_epoch: int | None, about: str
) -> Figure:
    """Loss and validation MRR of each epoch; the epoch whose weights were kept is marked."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    panels = (
        ("loss", "training loss", BLUE, "Loss"),
        ("valid/mrr", "MRR on valid", GREEN, "MRR on valid"),
    )
    grid = figure.subplots(1, 2, sharex=True)
    for axes, (name, label, colour, title) in zip(grid, panels, strict=True):
        lines = [line for line in history if name in line]
        epochs, values = [line["epoch"] for line in lines], [line[name] for line in lines]
        axes.plot(epochs, values, "o-", color=colour, markersize=3, linewidth=1.6)
        if best_epoch:
            axes.axvline(best_epoch, color=ORANGE, linewidth=1.6, linestyle="--")
            title += f"; weights of epoch {best_epoch} kept"
        axes.set(xlabel="epoch", ylabel=label)
        axes.set_title(title, fontsize=10)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        clean_axes(axes, grid=True)
    add_footer(figure, about)
    return figure


def reliability_figure(calibration: Calibration, about: str) -> Figure:
    """How often the best answer is right by its probability; on the diagonal both are equal."""
    rows = calibration["reliability"]
    figure = Figure(figsize=(5.2, 5.6), layout="constrained")
    curve, counts = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    curve.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    confidence, right = [row["confidence"] for row in rows], [row["right"] for row in rows]
    curve.plot(confidence, right, color=BLUE, marker="o", linewidth=1.5)
    curve.set(xlim=(0, 1), ylim=(0, 1), ylabel="fraction of best answers that are right")
    error = calibration["calibration_error"]
    curve.set_title(f"confidence and accuracy; expected calibration error {error:.3f}", fontsize=10)
    counts.bar(
        [(row["from"] + row["to"]) / 2 for row in rows],
        [row["questions"] for row in rows],
        [0.9 * (row["to"] - row["from"]) for row in rows],
        color=ORANGE,
    )
    counts.set(xlabel="probability of the best answer", ylabel="queries")
    for axes in (curve, counts):
        clean_axes(axes)
    add_footer(figure, f"{about}, {calibration['split']}, filter time")
    return figure


def introspection_figure(parts: Introspection, about: str) -> Figure:
    """Gate weights, decay and attention, a panel for each that the model has."""
    count = sum(bool(part) for part in parts)
    figure = Figure(figsize=(9 if count > 1 else 5.5, 3.4), layout="constrained")
    panels = iter(figure.subplots(1, count, squeeze=False).flat)
    if parts.gate:
        axes = next(panels)
        _draw_curves(axes, {name: (curve.at, curve.mean) for name, curve in parts.gate.items()})
        for style, curve in zip(styles(), parts.gate.values(), strict=False):
            band: dict[str, Any] = {"color": style.colour, "alpha": 0.12, "linewidth": 0}
            axes.fill_between(curve.at, curve.low, curve.high, **band)
        set_frequency_axis(axes, list(parts.gate.values()))
        axes.set(xlabel="facts of entity and relation in window", ylabel="weight of the snapshot")
        axes.set(ylim=(0, 1), title="gate; bands: 80% of queries")
    if parts.decay:
        axes = next(panels)
        _draw_curves(axes, {name: (range(len(left)), left) for name, left in parts.decay.items()})
        axes.set(xlabel="gap in steps", ylabel="weight left", ylim=(0, 1.05), title="decay")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if parts.attention:
        _draw_attention(next(panels), parts.attention)
    for axes in figure.axes:
        axes.title.set_fontsize(10)
        axes.legend(frameon=False, fontsize=8)
        clean_axes(axes, grid=True)
    add_footer(figure, about)
    return figure


def _draw_curves(axes: Axes, curves: Mapping[str, tuple[Any, Any]]) -> None:
    for style, (name, (x, y)) in zip(styles(), curves.items(), strict=False):
        label = escape_math(name)
        axes.plot(x, y, marker=style.marker, color=style.colour, markersize=4, label=label)


def _draw_attention(axes: Axes, attention: AttentionByDistance) -> None:
    distance, shares = attention.distance, attention.shares
    for index, head in enumerate(shares):
        label = None if index else "single head"
        axes.plot(distance, head, color=GREY, alpha=0.5, linewidth=0.8, label=label)
    mean = shares.mean(0)
    axes.plot(distance, mean, color=BLUE, marker="o", markersize=4, label="mean of heads")
    axes.set(xlabel="steps from the query", ylabel="mean weight of an active step")
    axes.set(ylim=(0, None), title="attention")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
