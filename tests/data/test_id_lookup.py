"""Columns of names become ids: the fast look-up equals one value at a time."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import make_graph
from messages import message
from tempograph import ImportOptions, QueryError
from tempograph.data import id_lookup
from tempograph.data.graph import COLUMNS
from tempograph.data.id_lookup import EncodedColumn, encode_column, look_up
from tempograph.data.row_errors import RowErrors
from tempograph.data.time_lookup import TimeLookup

NFD = unicodedata.normalize("NFD", "José")
GRAPH = replace(make_graph([(0, 0, 1, 0)]), entities=("José", "Jose", "Ann", "b b"))
VALUES = (
    *("José", "Jose", "Ann", "ANN", " Ann ", NFD, f"  {NFD}", "Anne", "", " ", None, "b  b"),
    *(0, 3, 4, -1, 1.0, 0.5, float("nan"), True, [1], np.int64(2), "r0", "R1", "day 3", " day 0"),
)


def slow_look_up(part: str, value: Any) -> int | str:
    """The id of one value, -1 if it is missing, or what is wrong with it."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return -1
    if isinstance(value, bool | float | list):
        return message("id_lookup.not_a_name", column=part, value=value)
    find: Any = {"relation": GRAPH.relation_id, "time": GRAPH.time_id}.get(part, GRAPH.entity_id)
    if isinstance(value, str):
        value = value.strip() if part == "time" else unicodedata.normalize("NFC", value).strip()
    try:
        return int(find(value))
    except QueryError as error:
        return str(error)


def found(columns: list[list[Any]], **options: Any) -> tuple[np.ndarray, RowErrors]:
    chosen = ImportOptions(**options)
    encoded = [encode_column(column) for column in columns]
    return look_up(GRAPH, encoded, chosen, TimeLookup(GRAPH, chosen))


@settings(max_examples=25)
@given(st.lists(st.tuples(*[st.sampled_from(VALUES)] * 4), max_size=12))
def test_the_look_up_equals_one_value_at_a_time(rows: list[tuple[Any, ...]]) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    ids, errors = found(columns)
    assert ids.shape == (len(rows), 4)
    for number, row in enumerate(rows):
        slow = [slow_look_up(*pair) for pair in zip(COLUMNS, row, strict=True)]
        expected = [part if isinstance(part, int) else -2 for part in slow]
        assert ids[number].tolist() == expected
        problems = [part for part in slow if isinstance(part, str)]
        assert errors.texts[number].as_py() == (problems[0] if problems else None)
        assert errors.mask[number] == bool(problems)


def test_names_are_cleaned_as_in_an_import_unless_they_are_kept() -> None:
    column = [f" {NFD} ", "Jose"]
    others = [["r0"] * 2, ["Ann"] * 2, ["day 0"] * 2]
    ids, errors = found([column, *others])
    assert ids[:, 0].tolist() == [0, 1] and not errors.mask.any()
    ids, errors = found([column, *others], keep_names=True)
    assert ids[:, 0].tolist() == [-2, 1] and errors.mask.tolist() == [True, False]


def test_similar_names_are_looked_for_a_limited_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(id_lookup, "_MAX_SUGGESTIONS", 2)
    others = [["r0"] * 4, ["Ann"] * 4, ["day 0"] * 4]
    _, errors = found([["Anna", "Anne", "Annn", "Ann"], *others])
    texts = errors.texts.to_pylist()
    assert ["did you mean" in text for text in texts[:3]] == [True, True, False]
    assert texts[2:] == [message("suggestions.unknown", kind="entity", value="Annn"), None]


def test_only_distinct_values_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    find = type(GRAPH.entity_index).find
    index = type(GRAPH.entity_index)
    monkeypatch.setattr(index, "find", lambda self, name: seen.append(name) or find(self, name))
    column = pa.chunked_array([["Ann", "Jose", None] * 1000])
    others = [encode_column(pa.chunked_array([[value] * 3000])) for value in ("r0", 3, "day 1")]
    options = ImportOptions()
    columns = [encode_column(column), *others]
    ids, errors = look_up(GRAPH, columns, options, TimeLookup(GRAPH, options))
    assert seen == ["Ann", "Jose", "r0"] and not errors.mask.any()
    assert ids[:3].tolist() == [[2, 0, 3, 1], [1, 0, 3, 1], [-1, 0, 3, 1]]


def test_equal_values_of_different_types_are_kept_apart() -> None:
    column = encode_column([1, True, 1.0, "1", [1], [1]])
    assert column.codes.tolist() == [0, 1, 2, 3, 4, 4]
    assert column.texts().to_pylist() == ["1", "True", "1.0", "1", "[1]", "[1]"]
    assert EncodedColumn([None], np.zeros(2, np.int64)).texts().to_pylist() == [None, None]


def test_errors_of_rows_are_counted_and_joined() -> None:
    first = RowErrors.at(np.array([True, False, False, True]), "one", pa.array(["a", "b"]))
    both = first.then(RowErrors.at(np.array([True, True, False, False]), "two", "c"))
    assert both.texts.to_pylist() == ["a", "c", None, "b"]
    assert both.kinds.to_pylist() == ["one", "two", None, "one"]
    counts = {"failed": 3, "rows": 4, "done": "scored", "kinds": "2 with one, 1 with two"}
    assert both.describe("scored") == message("row_errors.count", **counts)
    same = RowErrors.at(np.array([False, True, True, True]), "one", pa.array(["x", "x", "y"]))
    assert same.first_rows(3) == [1, 3] and same.first_rows(1) == [1]
    RowErrors.none(3).refuse(str)
