"""Attributes of entities: read with the facts, stored with the data, used with the names."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest

from graphs import make_graph
from messages import raises
from tempograph.data.attributes import read_attributes
from tempograph.data.folder import read_folder, write_folder
from tempograph.data.importers.any_source import add_attributes, import_facts
from tempograph.data.importers.options import ImportOptions
from tempograph.data.name_tokens import name_tokens
from tempograph.errors import DataError

ENTITIES = ("Ann", "Bob", "Café")


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_every_entity_has_a_value_or_none(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'entity,type,age\n Café ,"place, small",\nAnn,person,30\n')
    expected = {"type": ("person", "", "place, small"), "age": ("30", "", "")}
    assert read_attributes(path, ENTITIES) == expected
    decomposed = write(tmp_path / "b.csv", "entity,type\nCafe\u0301,place\n")
    assert read_attributes(decomposed, ENTITIES) == {"type": ("", "", "place")}


def test_names_without_facts_are_counted(tmp_path: Path) -> None:
    path, notes = write(tmp_path / "a.csv", "entity,type\nAnn,x\nZoe,y\n"), list[str]()
    read_attributes(path, ENTITIES, notes.append)
    assert notes == [f"note: {path}: 1 of 2 names have no facts"]


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        (
            "entity,type\nAnn,x\nBob,x\nAnn,y\n",
            "attributes.again",
            {"row": 4, "name": "Ann", "first": 2},
        ),
        ("name,type\nAnn,x\n", "attributes.columns", {"found": "name, type"}),
        ("entity\nAnn\n", "attributes.columns", {"found": "entity"}),
        ("entity,type\nZoe,x\n", "attributes.none_known", {"count": 1, "entity": "Ann"}),
    ],
)
def test_a_wrong_table_is_refused(
    text: str, name: str, values: dict[str, object], tmp_path: Path
) -> None:
    path = write(tmp_path / "a.csv", text)
    with raises(DataError, name, path=path, **values):
        read_attributes(path, ENTITIES)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no.csv"
    with raises(DataError, "attributes.no_file", path=path):
        read_attributes(path, ENTITIES)


def test_a_table_in_memory_is_read() -> None:
    table = pa.table({"entity": ["Bob"], "age": [30], "type": pa.array([None], pa.string())})
    rows = [("Ann", "meets", "Bob", "2020-01-01"), ("Bob", "meets", "Ann", "2020-01-02")] * 5
    imported, _ = import_facts(rows, ImportOptions(), "x")
    graph = add_attributes(imported, table).graph
    assert graph.attributes == {"age": ("", "30"), "type": ("", "")}


def test_a_dataset_folder_keeps_them(tmp_path: Path) -> None:
    graph = make_graph([(0, 0, 1, 2)], entities=3)
    values = {"type": ("a", "", 'with "quotes", and commas'), "NA": ("NA", "", "x")}
    graph = dataclasses.replace(graph, attributes=values)
    write_folder(graph, tmp_path / "data")
    assert read_folder(tmp_path / "data").same_as(graph)
    assert not read_folder(tmp_path / "data").same_as(dataclasses.replace(graph, attributes={}))


def test_a_graph_has_a_value_for_each_entity() -> None:
    graph = make_graph([(0, 0, 1, 2)], entities=3)
    values = {"graph": "small", "attribute": "type", "entities": 3, "found": 1}
    with raises(DataError, "attributes.number", **values):
        dataclasses.replace(graph, attributes={"type": ("a",)})


def test_shared_values_are_tokens() -> None:
    tokens = name_tokens(["q", "w", "z"], [("police", "", "police"), ("", "", "police")])
    owned = [
        tokens.token[start:stop].tolist()
        for start, stop in zip(tokens.start[:-1], tokens.start[1:], strict=True)
    ]
    assert owned == [[0], [], [0]]
    assert tokens.num_tokens == 1
