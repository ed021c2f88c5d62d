"""The picture of facts on a time axis."""

from __future__ import annotations

from xml.etree import ElementTree

import pyarrow as pa
import pytest

from tempograph.data.html_timeline import TimelineMark, TimelineRow, html_timeline, time_positions
from tempograph.data.result_table import ResultTable


def draw(rows: dict[str, dict[str, float]], asked: str | None = None) -> ElementTree.Element:
    """The SVG of marks by row and time."""
    html = html_timeline(
        "Evidence & <facts>",
        "what it means",
        [
            TimelineRow(name, [TimelineMark(*mark, f"fact of {mark[0]}") for mark in marks.items()])
            for name, marks in rows.items()
        ],
        asked,
    )
    svg, note = html.split("</svg>")
    assert note == '<p class="note">what it means</p>'
    return ElementTree.fromstring(svg + "</svg>")


def drawn_marks(svg: ElementTree.Element) -> list[tuple[str, float, float]]:
    """The text, the place on the axis and the height of each mark; upwards is positive."""
    marks = []
    for group in svg.findall("g"):
        text = group.findtext("title")
        if text is not None:
            path = group.findall("path")[0].get("d", "")
            (x, _), height = path[1:].split("v")[0].split(), path.split("v")[1]
            marks.append((text, float(x), -float(height)))
    return marks


def texts(svg: ElementTree.Element) -> list[str | None]:
    return [text.text for text in svg.findall("text")]


def test_a_mark_is_where_its_time_is_and_as_long_as_it_is_large() -> None:
    svg = draw({"first": {"2024-01-01": 4, "2024-01-02": 2, "2024-01-05": -1}, "second": {}})
    (start, x1, h1), (_, x2, h2), (_, x5, h5) = drawn_marks(svg)
    assert start == "fact of 2024-01-01"
    assert x2 - x1 == pytest.approx((x5 - x1) / 4, abs=0.1)
    assert h1 > h2 > 0 > h5 and h1 - 3 == pytest.approx(2 * (h2 - 3), abs=0.1)
    assert texts(svg) == ["first", "second", "2024-01-01", "2024-01-05"]


def test_it_has_a_title_and_a_description() -> None:
    svg = draw({"a": {"1": 1, "2": 1}})
    assert svg.get("role") == "img" and svg.get("aria-label") == "Evidence & <facts>"
    assert [svg.findtext("title"), svg.findtext("desc")] == ["Evidence & <facts>", "what it means"]


def test_the_time_asked_for_has_a_line_and_a_label() -> None:
    svg = draw({"a": {"2024-01-02": 1}}, asked="2024-01-03")
    assert texts(svg)[0] == "asked: 2024-01-03"
    line = svg.findall("g")[0].findall("path")[0]
    assert line.get("stroke-dasharray") and line.get("d", "").startswith("M610.0 ")
    # The label stays inside at either end.
    assert svg.findall("text")[0].get("text-anchor") == "end"
    early = draw({"a": {"2024-01-02": 1}}, asked="2024-01-01")
    assert early.findall("text")[0].get("text-anchor") == "start"


def test_known_facts_have_a_dot() -> None:
    marks = [TimelineMark("1", 1, "a", known=True), TimelineMark("2", 1, "b")]
    assert html_timeline("t", "d", [TimelineRow("", marks)]).count("<circle") == 1


def test_marks_without_a_size_are_drawn_alike() -> None:
    (_, _, first), (_, _, second) = drawn_marks(draw({"a": {"1": 0, "2": 0}}))
    assert first == second > 0


def test_nothing_is_drawn_without_two_times_that_can_be_placed() -> None:
    for rows in ([], [("1",)], [("1", "1")], [("spring", "autumn")], [("1", "2024-01-01")]):
        drawn = [TimelineRow("", [TimelineMark(time, 1, "") for time in row]) for row in rows]
        assert html_timeline("t", "d", drawn) == ""
    assert html_timeline("t", "d", [TimelineRow("", [])], asked="1") == ""


@pytest.mark.parametrize(
    ("labels", "distances"),
    [
        (["-3", "0", "12"], [3, 12]),
        (["2023", "2024", "2026"], [1, 2]),
        (["2024-01", "2024-02", "2024-03"], [31, 29]),
        (["2024-W01", "2024-W02", "2024-W05"], [7, 21]),
        (["2024-02-28", "2024-02-29", "2024-03-01"], [1, 1]),
        (["2024-01-01T06", "2024-01-01T12", "2024-01-02T00"], [0.25, 0.5]),
    ],
)
def test_labels_of_every_kind_are_placed(labels: list[str], distances: list[float]) -> None:
    positions = time_positions(labels)
    assert positions is not None
    first, second, third = (positions[label] for label in labels)
    assert [second - first, third - second] == distances


def test_long_names_are_shortened() -> None:
    first, second, *_ = texts(
        draw({"The League of the Lantern Coast": {"1": 1, "2": 1}, "世界" * 9: {}})
    )
    assert first == "The League of the Lantern…" and second == "世界世界世界世界世界世界…"


def test_facts_with_an_error_are_not_on_the_timeline() -> None:
    times = ["2024-01-01", "2024-01-02", None, "soon"]
    table = pa.table({"time": times, "error": [None, None, "no time", "no date"]})
    html = ResultTable(table)._repr_html_()
    assert "2024-01-02: 1 fact<" in html and "soon: 1" not in html and "no date" in html
    assert "<svg" not in ResultTable(table[2:])._repr_html_()
