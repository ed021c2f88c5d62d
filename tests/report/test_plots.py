"""Figures of the smallest and the oddest data, in every format, with names as they are."""

from __future__ import annotations

import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from tempograph.data.graph import TemporalGraph
from tempograph.data.statistics import statistics
from tempograph.evaluation.frequency_curves import Curve
from tempograph.evaluation.query_groups import GroupMetrics
from tempograph.prediction.answer import Answer, EvidenceFact, evidence_headings, evidence_legend
from tempograph.prediction.answers import Completion
from tempograph.report import answer_plot, dataset_plots, drawing, model_plots, rank_plots
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
        figure = answer_plot.completion_figure(
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
        answer_plot.completion_figure(completion, ("step 0",), "").canvas.draw()


@pytest.mark.parametrize("name", ["Ann", ODD, "W" * 900, "Ministry of " * 75, "漢字" * 100])
def test_the_facts_behind_an_answer_are_written_out_below_it(name: str, tmp_path: Path) -> None:
    facts = tuple(EvidenceFact(name, name, "b", f"step {n}", None, -10.5 + n) for n in range(3))
    answers = tuple(Answer(rank, name, 1.0, None, "train", "why", facts, 3) for rank in (1, 2))
    completion = Completion(name, "r", None, "step 1", "object", answers, ())
    figure = answer_plot.completion_figure(completion, graph_named("n").times, "", max_facts=2)
    drawing.save(figure, tmp_path / "figure.png")
    chart, below = figure.subfigs
    assert below.texts[-1].get_text() == evidence_legend(facts)
    cells = below.texts[:-1]
    shown = [text.get_text() for text in cells]
    assert tuple(shown[:5]) == evidence_headings(facts)
    for wanted in (["1.", "2."], ["step 0", "step 1"] * 2, ["-10.50", "-9.50"] * 2, ["b"] * 4):
        assert [text for text in shown if text in wanted] == wanted
    starts = {text.get_text(): text.get_position()[0] for text in cells[:5]}
    whole = "".join(name.split())
    for part in ("subject", "relation"):
        column = [text.get_text() for text in cells if text.get_position()[0] == starts[part]]
        assert "".join("".join(column).split()) == part + 4 * whole
    (label, _) = (tick.get_text() for tick in chart.axes[0].get_yticklabels())
    assert "".join(label.replace(r"\$", "$").split()) == f"1.{whole}(known:train)"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        FigureCanvasAgg(figure).draw()
        for text in figure.findobj(lambda each: isinstance(each, Text) and each.get_text() != ""):
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, text.get_text()
    bare = answer_plot.completion_figure(completion, graph_named("n").times, "", max_facts=0)
    assert len(bare.subfigs) == 1, "dots only"
