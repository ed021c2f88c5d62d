"""Times of a batch are found however they are written."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from typing import Any

import numpy as np
import pytest

from graphs import make_graph
from messages import message
from tempograph import ImportOptions, TemporalGraph
from tempograph.data.importers.option_words import PYTHON
from tempograph.data.importers.time_grid import step_labels
from tempograph.data.row_errors import RowError
from tempograph.data.time_lookup import TimeLookup
from tempograph.typing import Granularity


def on_grid(first: int, last: int, granularity: Granularity | None) -> TemporalGraph:
    return replace(make_graph([(0, 0, 1, 0)]), times=step_labels(first, last, granularity))


DAYS = on_grid(19723, 19753, "day")
GRID = {"graph": "small", "count": 31, "first": "2024-01-01", "last": "2024-01-31"}


def find(graph: TemporalGraph, *times: Any, **options: Any) -> list[int | str]:
    """The id of each time, or the text of its error."""
    results = TimeLookup(graph, ImportOptions(**options))(times)
    return [result.text if isinstance(result, RowError) else result for result in results]


def test_every_common_format_is_read() -> None:
    written = (
        *("2024-01-05", " 2024-01-05 ", "2024/1/5", "5 January 2024", "Jan 5, 2024", "2024.01.05"),
        *("2024-01-05T23:59", "2024-01-06T00:30+01:00", date(2024, 1, 5), datetime(2024, 1, 5, 7)),
        4,
    )
    assert find(DAYS, *written) == [4] * len(written)
    assert find(DAYS, "13/01/2024", "02/01/2024") == [12, 1], "13/01 tells the order"
    assert find(DAYS, "02/01/2024", day_first=True) == [1]
    assert find(DAYS, "01/02/2024", day_first=False) == [1]
    unclear = message("date_formats.unclear", value="02/01/2024")
    assert find(DAYS, "02/01/2024", 7) == [unclear, 7]


def test_a_time_format_is_obeyed_and_labels_are_understood_all_the_same() -> None:
    wrong = message("time_grid.no_match", value="2024-01-05T10:00", time_format="%d.%m.%Y")
    assert find(DAYS, "05.01.2024", "2024-01-05", "2024-01-05T10:00", time_format="%d.%m.%Y") == [
        *(4, 4, wrong)
    ]
    assert find(DAYS, "1704412800", time_format="%s") == [4]
    (far,) = find(DAYS, "999999999999", time_format="%s")
    assert far == message("graph.not_on_grid", time="999999999999", **GRID)


@pytest.mark.parametrize(("granularity", "first"), [("year", -2014), ("month", -24_168)])
def test_dates_are_found_on_an_axis_that_begins_before_christ(
    granularity: Granularity, first: int
) -> None:
    graph = on_grid(first, 0, granularity)
    assert graph.times[0].startswith("-0044")
    last = len(graph.times) - 1
    written = ("1970-01-05", "5 January 1970", date(1970, 1, 5))
    assert find(graph, *written) == [last] * 3
    assert graph.time_id("1970-01-05") == last


@pytest.mark.parametrize(
    ("granularity", "first", "last", "label"),
    [("week", 2815, 2820, "2024-W01"), ("month", 648, 655, "2024-01"), ("year", 50, 55, "2024")],
)
def test_dates_are_found_on_every_grid(
    granularity: Granularity, first: int, last: int, label: str
) -> None:
    graph = on_grid(first, last, granularity)
    step = graph.times.index(label)
    assert find(graph, label, "2024-01-03", "3 January 2024", date(2024, 1, 3)) == [step] * 4


def test_integers_may_have_leading_zeros() -> None:
    graph = on_grid(-2, 12, None)
    assert find(graph, "007", "-2", " 12 ", 0, np.int64(1)) == [9, 0, 14, 0, 1]
    late, word = find(graph, "13", "soon")
    grid = {"graph": "small", "count": 15, "first": "-2", "last": "12"}
    assert late == message("graph.not_on_grid", time="13", **grid)
    assert word == message("graph.not_on_grid", time="soon", **grid)
    refused = message("graph.date_for_label", date="2024-01-03", label="-2")
    assert find(graph, date(2024, 1, 3)) == [refused]


def test_a_year_may_lack_zeros() -> None:
    graph = on_grid(-1970 - 44, -1970 + 400, "year")
    assert graph.times[0] == "-0044" and graph.times[404] == "0360"
    assert find(graph, "360", "-44", " 7 ", "0360", "0360-05-04") == [404, 0, 51, 404, 404]
    assert graph.time_id("360") == 404
    (late,) = find(graph, "960")
    grid = {"graph": "small", "count": 445, "first": "-0044", "last": "0400"}
    assert late == message("graph.not_on_grid", time="960", **grid)
    assert find(on_grid(1, 400, None), "7", "007") == [6, 6]
    days = on_grid(0, 40, "day")
    assert isinstance(find(days, "20")[0], str)


def test_kinds_of_errors() -> None:
    kinds = [each.kind for each in TimeLookup(DAYS)(["02/01/2024", "2025-01-01", 99])]  # type: ignore[union-attr]
    unclear = "a date that may have the day or the month first"
    assert kinds == [unclear, *["a time that is not on the grid"] * 2]


def test_later_steps_are_added_if_they_may_be() -> None:
    lookup = TimeLookup(DAYS, extend=True)
    times = ["2024-02-02", "1 February 2024", date(2024, 1, 31), "2023-12-31", "2124-02-02", 33]
    found = lookup(times)
    assert found[:3] == [32, 31, 30]
    assert lookup.graph.times[-2:] == ("2024-02-01", "2024-02-02") and DAYS.times[-1] < "2024-02"
    assert [each.text for each in found[3:]] == [  # type: ignore[union-attr]
        message("graph.not_on_grid", time="2023-12-31", **GRID),
        message("time_grid.far", time="2124-02-02", steps="36,526", last="2024-01-31"),
        "there is no time step 33; ids run from 0 to 32",
    ]


def test_a_later_month_is_a_label_and_not_a_date_without_a_day() -> None:
    lookup = TimeLookup(on_grid(648, 655, "month"), extend=True)
    assert lookup(["2024-10"]) == [9] and lookup.graph.times[-1] == "2024-10"


def test_errors_name_the_options_of_a_file_or_of_python() -> None:
    (found,) = TimeLookup(DAYS, words=PYTHON)(["02/01/2024"])
    unclear = message("date_formats.table_unclear", row=1, value="02/01/2024")
    assert isinstance(found, RowError) and unclear == f"the table: row 1: {found.text}"
