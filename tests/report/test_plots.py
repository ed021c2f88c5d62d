"""Figures of the smallest and the oddest data, in every format, with names as they are."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from tempograph.data.graph import TemporalGraph
from tempograph.data.statistics import statistics
from tempograph.evaluation.frequency_curves import Curve
from tempograph.evaluation.query_groups import GroupMetrics
from tempograph.prediction.answers import Answer, Completion, EvidenceFact
from tempograph.report import dataset_plots, drawing, model_plots, rank_plots
from tempograph.report.introspection import AttentionByDistance, Introspection

ODD = r"""<script> & $\frac{ 漢 $5 id="7.1234" #000000"""


def curve(*at: float) -> Curve:
    where = np.array(at)
    return Curve(
        where,
        np.full(len(at), 5.0),
        np.full(len(at), 0.5),
        np.full(len(at), 0.4),
        np.full(len(at), 0.7),
    )


def groups(*labels: str) -> GroupMetrics:
    ones = np.ones(len(labels))
    return GroupMetrics(
        labels,
        np.arange(len(labels)) + 1,
        0.5 * ones,
        0.4 * ones,
        0.6 * ones,
        0.5 * ones,
        0.7 * ones,
    )


def graph_named(name: str, steps: int = 3) -> TemporalGraph:
    none, facts = np.empty((0, 4), dtype=np.int64), np.array([(0, 0, 1, 0), (0, 0, 1, steps - 1)])
    return TemporalGraph(
        name, ("a", "b"), ("r",), tuple(f"step {step}" for step in range(steps)), facts, none, none
    )


FIGURES = {
    "effect": lambda name: rank_plots.effect_figure(
        "Effect", [rank_plots.Panel("both", "sro", {name: (curve(0), curve())})] * 3, 8, name
    ),
    "effect of seven runs": lambda name: rank_plots.effect_figure(
        "Effect",
        [
            rank_plots.Panel(
                "object", "s", {f"{name} {n}": (curve(0, 2, 300), curve(1, 300)) for n in range(7)}
            )
        ],
        8,
        "",
        "MRR",
    ),
    "groups": lambda name: rank_plots.groups_figure(
        {name: {"run": groups("a", "b")}, "other": {"run": groups("a")}}, name
    ),
    "relations": lambda name: rank_plots.relations_figure({name: groups(name, "r" * 90)}, name),
    "training": lambda name: model_plots.training_figure([{"epoch": 1, "loss": 2.0}], None, name),
    "introspection": lambda name: model_plots.introspection_figure(
        Introspection(
            {name: curve(0, 3)},
            {name: np.array([1.0, 0.5])},
            AttentionByDistance(np.arange(-1, 1), np.ones((2, 2)), np.ones(2, int)),
        ),
        name,
    ),
    "statistics": lambda name: dataset_plots.statistics_figure(
        statistics(graph_named(name)), graph_named(name)
    ),
    "decay alone": lambda name: model_plots.introspection_figure(
        Introspection({}, {name: np.array([1.0])}, None), name
    ),
}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_odd_names_are_drawn_unchanged_in_every_format(make: object, tmp_path: Path) -> None:
    figure = make(ODD)  # type: ignore[operator]
    assert isinstance(figure, Figure)
    element = drawing.svg(figure, "one")
    drawn = "".join(ElementTree.fromstring(element).itertext())
    assert ODD in drawn and "<script>" not in element
    assert (
        "stroke: #000000" not in element
        and "<metadata" not in element
        and element == drawing.svg(make(ODD), "one")
    )  # type: ignore[operator]
    for suffix in (".png", ".pdf", ".svg"):
        drawing.save(figure, tmp_path / f"figure{suffix}")
        assert (tmp_path / f"figure{suffix}").stat().st_size > 1000
    for name in ("one.svg", "two.svg"):
        drawing.save(make(ODD), tmp_path / name)  # type: ignore[operator]
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes(), (
        "equal pictures, equal files"
    )


def test_the_size_of_a_dot_is_the_effect_of_its_fact() -> None:
    facts = [EvidenceFact("a", "r", "b", "step 1", None, effect) for effect in (-5.0, -0.5, 0.0)]
    for more, largest in (([], 12), ([EvidenceFact("a", "r", "b", "step 2", None, 0.1)], 312)):
        answer = Answer(1, "b", 1.0, None, None, "why", (*facts, *more), 4)
        completion = Completion("a", "r", None, "step 1", "object", (answer,), ())
        figure = model_plots.completion_figure(
            completion, graph_named("n").times, "ted on n; protocol strict"
        )
        assert figure.get_supxlabel() == "ted on n; protocol strict"
        sizes = [float(size) for dots in figure.axes[0].collections for size in dots.get_sizes()]  # type: ignore[attr-defined]
        assert sizes[:3] == [12, 12, 12] and max(sizes) == largest


@pytest.mark.parametrize("steps", [1, 2, 200, 1000])
def test_many_steps_are_drawn_as_running_means(steps: int) -> None:
    graph = graph_named("many", steps)
    figure = dataset_plots.statistics_figure(statistics(graph), graph)
    figure.canvas.draw()
    over_time = next(axes for axes in figure.axes if axes.get_ylabel() == "entities")
    assert len(over_time.lines) == (4 if steps > 200 else 2)
    ticks = [label.get_text() for label in over_time.get_xticklabels()]
    assert ticks[0] == "step 0" and ticks[-1] == f"step {steps - 1}" and len(ticks) == min(steps, 7)


def test_the_legend_shows_line_and_dot_together() -> None:
    figure = rank_plots.effect_figure(
        "E", [rank_plots.Panel("both", "sro", {"run": (curve(0, 2), curve(1, 2))})], 8, ""
    )
    (handle,) = figure.legends[0].legend_handles
    assert handle is not None and handle.get_marker() == "o" and handle.get_linestyle() == "-"  # type: ignore[union-attr]


@pytest.mark.parametrize("history", [[{"epoch": 7, "loss": 2.0, "valid/mrr": 0.5}], None])
def test_epoch_ticks_are_integers(history: list[dict[str, float]] | None) -> None:
    lines = history or [{"epoch": 1, "loss": 3.0}, {"epoch": 2, "loss": 2.0, "valid/mrr": 0.5}]
    figure = model_plots.training_figure(lines, 2, "")
    figure.canvas.draw()
    for axes in figure.axes:
        assert all(tick == int(tick) for tick in axes.get_xticks())


def test_a_single_time_step_and_no_answers_are_drawn() -> None:
    answer = Answer(
        1, "b", 1.0, None, None, "why", (EvidenceFact("a", "r", "b", "step 0", None, 0.1),), 1
    )
    for answers in ((answer,), ()):
        completion = Completion("a", "r", None, "step 0", "object", answers, ())
        model_plots.completion_figure(completion, ("step 0",), "").canvas.draw()
