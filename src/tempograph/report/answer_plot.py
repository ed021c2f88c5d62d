"""Figure of the answers to one query: their evidence over time, and the facts in words."""

from __future__ import annotations

from itertools import accumulate, zip_longest
from operator import itemgetter
from typing import Any, Final

from matplotlib.figure import Figure, SubFigure

from tempograph.prediction.answer import Answer, EvidenceFact, evidence_headings, evidence_legend
from tempograph.prediction.answers import Completion
from tempograph.report.drawing import (
    BLUE,
    GREY,
    GRID,
    ORANGE,
    add_footer,
    clean_axes,
    escape_math,
    text_width,
)
from tempograph.report.folding import column_widths, fold

_WIDTH: Final = 9.0
_ROW: Final = 0.42
"""Height of an answer in inches, if its label fits in two lines."""
_LINE: Final = 0.17
_LABEL: Final = (3.2, 10)
_TITLE: Final = (8.6, 12)
"""Height of a line of a label or the title, and their widths in inches and sizes in points."""
_FONT: Final = 8
_FACT_LINE: Final = 0.155
_LETTER: Final = 0.602 * _FONT / 72
"""Size of a fact's letters in points, height of its lines and width of a letter in inches."""
_MARGIN: Final = 0.08
_GAP: Final = 2


def completion_figure(
    completion: Completion,
    times: tuple[str, ...],
    about: str,
    max_answers: int = 6,
    max_facts: int = 3,
) -> Figure:
    """Each of the best answers as a row over time; dots are its evidence, sized by effect.

    Below, the first `max_facts` facts of each answer are written out.
    """
    answers = completion.answers[:max_answers]
    title = _fold_to_fit(completion.question, *_TITLE)
    labels = [_fold_to_fit(_label(answer), *_LABEL) for answer in answers]
    heights = [max(_ROW, _LINE * len(label) + 0.1) for label in labels] or [_ROW]
    lines = _fact_lines(answers, max_facts)
    chart_height = 1.15 + _LINE * len(title) + sum(heights)
    text_height = _FACT_LINE * (len(lines) + 1) if lines else 0.0
    figure = Figure(figsize=(_WIDTH, chart_height + text_height + 0.3), layout="constrained")
    if lines:
        parts = figure.subfigures(2, 1, squeeze=False, height_ratios=[chart_height, text_height])
        chart, text = parts.flat
        _write_lines(text, lines, evidence_legend(_evidence(answers)))
    else:
        chart = figure.subfigures()
    _draw_dots(chart, completion, answers, labels, heights, times)
    chart.suptitle(escape_math("\n".join(title)))
    add_footer(figure, about)
    return figure


def _label(answer: Answer) -> str:
    return f"{answer.rank}. {answer.name}" + (f" (known: {answer.known})" if answer.known else "")


def _fold_to_fit(text: str, width: float, size: float) -> list[str]:
    """Text in lines of at most `width` inches, with letters of `size` points."""
    letters = int(width * 72 / size * 2)
    lines = fold(text, letters)
    while letters > 1 and max(text_width(line, size) for line in lines) > width:
        letters -= 1 + letters // 20
        lines = fold(text, letters)
    return lines


def _evidence(answers: tuple[Answer, ...]) -> list[EvidenceFact]:
    return [fact for answer in answers for fact in answer.evidence]


def _draw_dots(
    figure: SubFigure,
    completion: Completion,
    answers: tuple[Answer, ...],
    labels: list[list[str]],
    heights: list[float],
    times: tuple[str, ...],
) -> None:
    """A row of dots for each answer, as high as its label."""
    axes = figure.subplots()
    step = {label: number for number, label in enumerate(times)}
    largest = max(map(_weight, _evidence(answers)), default=0)
    bottoms = list(accumulate(heights))
    middles = [bottom - height / 2 for bottom, height in zip(bottoms, heights, strict=True)]
    for middle, answer in zip(middles, answers, strict=False):
        steps, weights = [], []
        for fact in answer.evidence:
            steps.append(step[fact.time])
            weights.append(12 + (300 * (_weight(fact) / largest) if _weight(fact) > 0 else 0))
        look: dict[str, Any] = {"color": BLUE, "alpha": 0.6, "linewidths": 0, "clip_on": False}
        axes.scatter(steps, [middle] * len(steps), s=weights, **look)
    if completion.time is not None:
        axes.axvline(step[completion.time], color=ORANGE, linewidth=2, zorder=0)
    axes.set_yticks(middles[: len(labels)], [escape_math("\n".join(label)) for label in labels])
    axes.set(ylim=(bottoms[-1], 0), xlim=(0, max(1, len(times) - 1)))
    ticks = sorted({round(index * (len(times) - 1) / 5) for index in range(6)})
    axes.set_xticks(ticks, [times[tick] for tick in ticks])
    _, measure, *_ = evidence_headings(_evidence(answers))
    marked = "" if completion.time is None else "; orange: time of the query"
    axes.set_xlabel(f"evidence for each answer; larger dots: larger {measure}{marked}")
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    clean_axes(axes)


def _fact_lines(answers: tuple[Answer, ...], max_facts: int) -> list[list[tuple[int, str]]]:
    """Lines of cells, each with its distance in letters from the left: headings, then facts."""
    facts = [
        ("" if index else f"{answer.rank}.", *fact.cells)
        for answer in answers
        for index, fact in enumerate(answer.evidence[:max_facts])
    ]
    if not facts:
        return []
    rows = [("", *evidence_headings(_evidence(answers))), *facts]
    widths = column_widths(rows, int((_WIDTH - 2 * _MARGIN) / _LETTER), _GAP)
    starts = list(accumulate((width + _GAP for width in widths[:-1]), initial=0))

    def line(cells: tuple[str, ...]) -> list[tuple[int, str]]:
        # Numbers are aligned at their right.
        indents = [widths[2] - len(cell) if column == 2 else 0 for column, cell in enumerate(cells)]
        return [(sum(pair), cell) for *pair, cell in zip(starts, indents, cells, strict=True)]

    return [
        line(cells) for row in rows for cells in zip_longest(*map(fold, row, widths), fillvalue="")
    ]


def _write_lines(figure: SubFigure, lines: list[list[tuple[int, str]]], legend: str) -> None:
    """Headings and legend in grey, the facts between them in black."""
    look: dict[str, Any] = {"fontsize": _FONT, "va": "top", "parse_math": False}
    for number, line in enumerate([*lines, [(0, legend)]]):
        colour = GREY if number in (0, len(lines)) else "black"
        y = 1 - number / (len(lines) + 1)
        for start, cell in filter(itemgetter(1), line):
            x = (_MARGIN + start * _LETTER) / _WIDTH
            figure.text(x, y, cell, color=colour, family="monospace", **look)


def _weight(fact: EvidenceFact) -> float:
    """The size of a fact's dot: its effect on the score, or else its share of the score."""
    return fact.effect if fact.effect is not None else fact.share or 0
