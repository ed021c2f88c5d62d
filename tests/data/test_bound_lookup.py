"""Starts and ends of a batch on the grid of a graph equal those of an import."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intervals import interval_graph
from messages import message
from tempograph import ImportOptions, TemporalGraph
from tempograph.data.bound_lookup import BoundLookup
from tempograph.data.catalog import load_with_options
from tempograph.data.fact_ids import read_facts
from tempograph.data.id_lookup import encode_column
from tempograph.data.importers.bad_rows import NO_END, NO_START, NOTHING_KNOWN, START_AFTER_END
from tempograph.data.spans import Bounds
from tempograph.data.time_lookup import UNKNOWN_TIME

YEARS = interval_graph([(0, 0, 1, 0, 4, 0)], steps=10, first=1920)
STARTS = ("1921", "1923-05", "1924-02-29", "+1922-00-00T00:00:00Z", "..", "####", "", "05/1926")
ENDS = ("1929", "1927-##-##", "3 May 1928", "1929-12-31", "..", "unknown", "present", "")


def find(graph: TemporalGraph, start: Any, end: Any, **options: Any) -> list[int] | tuple[str, str]:
    """The start, end and bounds of one fact, or what is wrong with it."""
    extend = options.pop("extend", False)
    lookup = BoundLookup(graph, ImportOptions(**options), extend)
    spans, errors = lookup(encode_column([start]), encode_column([end]))
    if errors.mask[0]:
        assert spans.tolist() == [[-2, -2, 0]]
        return str(errors.kinds[0]), str(errors.texts[0])
    return list(map(int, spans[0]))


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.sampled_from(STARTS), st.sampled_from(ENDS)), min_size=1, max_size=9),
    st.sampled_from(["year", "month", "day"]),
)
def test_a_batch_is_read_as_the_import(rows: list[tuple[str, str]], granularity: Any) -> None:
    known = {"1921", "1923-05", "1924-02-29", "+1922-00-00T00:00:00Z", "05/1926"}
    rows = [
        (start, end)
        for start, end in rows
        if start in known or end in ENDS[:4] or (start, end) in (("..", ".."), ("..", "present"))
    ]
    # The first two facts make the axis.
    rows = [("1920", "1922"), ("1928", "1930"), *rows]
    table = [
        {"subject": f"s{number}", "relation": "r", "object": "o", "start": start, "end": end}
        for number, (start, end) in enumerate(rows)
    ]
    options = ImportOptions(granularity=granularity, valid_share=0, test_share=0)
    graph, found = load_with_options(table, options)
    batch = read_facts(graph, table, {}, found)
    assert batch.valid.all()
    assert {*map(tuple, batch.ids.tolist())} == {*map(tuple, graph.train.tolist())}
    assert batch.names()["start"].to_pylist()[:2] == [
        graph.times[0],
        batch.names()["time"][1].as_py(),
    ]


def test_bounds_are_labels_ids_and_dates() -> None:
    assert find(YEARS, "1921", 3) == [1, 3, 0]
    assert find(YEARS, date(1921, 5, 1), datetime(1925, 1, 1, 5)) == [1, 5, 0]
    assert find(YEARS, "1921", "..") == [1, 9, Bounds.OPEN_END]
    assert find(YEARS, "..", "1921") == [0, 1, Bounds.OPEN_START]
    assert find(YEARS, "", "1921") == [1, 1, Bounds.UNKNOWN_START]
    assert find(YEARS, "1921", None, empty_end="unknown") == [1, 1, Bounds.UNKNOWN_END]
    assert find(YEARS, "1921", float("nan")) == [1, 9, Bounds.OPEN_END]
    numbers = replace(YEARS, times=tuple(map(str, range(5, 15))))
    assert find(numbers, "5", "7") == [0, 2, 0]
    assert find(numbers, "5", "2024-05-01")[0] == UNKNOWN_TIME
    bins = replace(YEARS, times=tuple(f"{year}/{year + 4}" for year in range(1900, 1950, 5)))
    assert find(bins, "1907-05", "1910/1914") == [1, 2, 0]
    weeks = replace(YEARS, times=tuple(f"2024-W{week:02d}" for week in range(1, 11)))
    assert find(weeks, "2024-W02", "2024-01-24") == [1, 3, 0]
    early = replace(YEARS, times=tuple(f"{year:04d}" for year in range(355, 365)))
    assert find(early, "360", "0362-05") == [5, 7, 0]
    hours = replace(YEARS, times=tuple(f"2024-01-01T{hour:02d}" for hour in range(10)))
    assert find(hours, "2024-01-01T03", "2024-01-01 05:30") == [3, 5, 0]
    assert find(hours, datetime(2024, 1, 1, 3), "2024-01-01T04") == [3, 4, 0]


def test_wrong_bounds_say_why() -> None:
    about = {"graph": "small", "first": "1920", "last": "1929", "steps": 10}
    before = message("bound_lookup.before", part="start", text="1890", **about)
    assert find(YEARS, "1890", "1921") == (UNKNOWN_TIME, before)
    assert find(YEARS, "1890", "1921", extend=True) == (UNKNOWN_TIME, before)
    off = message("bound_lookup.off_grid", part="end", text="1935", **about)
    after = message("bound_lookup.still_holds", problem=off)
    assert find(YEARS, "1921", "1935") == (UNKNOWN_TIME, after)
    off = message("bound_lookup.off_grid", part="start", text="1935", **about)
    assert find(YEARS, "1935", "..") == (UNKNOWN_TIME, off)
    kinds = {
        ("soon", "1921"): NO_START,
        ("1921", "soon"): NO_END,
        ("", "####"): NOTHING_KNOWN,
        ("1923", "1922"): START_AFTER_END,
        ("1923-05", "1923-03"): START_AFTER_END,
        (5, 3): START_AFTER_END,
        (77, 3): UNKNOWN_TIME,
        (True, 3): "a value that is neither a name nor an id",
        ("01/02/1923", ".."): "a date that may have the day or the month first",
    }
    for (start, end), kind in kinds.items():
        assert find(YEARS, start, end)[0] == kind
    # The order that a later end shows holds for the starts as well.
    lookup = BoundLookup(YEARS)
    columns = ["01/02/1923", "1921"], ["1925", "13/02/1926"]
    spans, errors = lookup(*map(encode_column, columns))
    assert not errors.mask.any() and spans[:, :2].tolist() == [[3, 5], [1, 6]]


def test_later_bounds_extend_the_grid() -> None:
    lookup = BoundLookup(YEARS, extend=True)
    columns = ["1921", "1931", "1925"], ["1932-05", "..", "9000"]
    spans, errors = lookup(*map(encode_column, columns))
    assert lookup.graph.times[-1] == "9000" and not errors.mask.any()
    assert spans.tolist()[0] == [1, 12, 0]
    assert spans.tolist()[1] == [11, len(lookup.graph.times) - 1, Bounds.OPEN_END]
    far = message("time_grid.far", time="99999", steps="98,070", last="1929")
    assert find(YEARS, "1921", "99999", extend=True) == (UNKNOWN_TIME, far)
    bins = replace(YEARS, times=tuple(f"{year}/{year + 4}" for year in range(1900, 1950, 5)))
    assert find(bins, "1907", "1951", extend=True)[0] == UNKNOWN_TIME


def test_ids_have_six_columns() -> None:
    rows = np.array([[0, 0, 1, 2, 9, Bounds.OPEN_END], [0, 0, 1, 3, 3, 0]])
    assert np.array_equal(read_facts(YEARS, rows, {}).ids, rows)
    assert read_facts(YEARS, rows[:, :4], {}).ids.tolist() == rows[:, :4].tolist()


@pytest.mark.parametrize("width", [3, 7])
def test_other_rows_are_refused(width: int) -> None:
    with pytest.raises(Exception, match="fact 0 must be a subject, a relation, an object"):
        read_facts(YEARS, [("e0",) * width], {})
