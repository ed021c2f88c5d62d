"""Files in the layout of TGB 2.0, read by us, by loops, and by py-tgb itself."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_tgb_files import make_tgb_files, pack

from messages import raises
from tempograph.data.importers import tgb_reader
from tempograph.data.importers.tgb_reader import last_steps, read_tgb
from tempograph.data.tgb_datasets import TGB_DATASETS
from tempograph.errors import DataError
from tgb_package import import_tgb

Rows = list[tuple[int, str, str, str]]


class SlowGraph(NamedTuple):
    """The rules of py-tgb in plain Python: ids of each row (s, r, o), its time and its split."""

    entities: list[str]
    relations: list[str]
    facts: list[tuple[int, int, int, int]]
    splits: list[str]


def read_rows(folder: Path, name: str) -> Rows:
    with (folder / f"{name}_edgelist.csv").open() as file:
        next(file)
        return [(int(time), *others) for time, *others in csv.reader(file)]


def slow_graph(rows: Rows, numbered_relations: bool) -> SlowGraph:
    entities, relations = dict[str, int](), dict[str, int]()
    for _, head, tail, relation in rows:
        entities.setdefault(head, len(entities))
        entities.setdefault(tail, len(entities))
        relations.setdefault(relation, len(relations))
    if numbered_relations:
        relations = {name: int(name) for name in sorted(relations, key=int)}
    twice = [time for time, *_ in rows] * 2
    train_end, valid_end = np.quantile(twice, [1 - 0.15 - 0.15, 1 - 0.15])
    return SlowGraph(
        list(entities),
        list(relations),
        [(entities[h], relations[r], entities[t], time) for time, h, t, r in rows],
        [
            "train" if time <= train_end else "valid" if time <= valid_end else "test"
            for time, *_ in rows
        ],
    )


def label(time: int, step: str) -> str:
    """The year, or the day that began at that second in Montreal."""
    return f"{time:04d}" if step == "year" else str(np.datetime64(time, "s").astype("M8[D]"))


@pytest.fixture(params=TGB_DATASETS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_ids_times_and_splits_are_those_of_the_rules(name: str, tmp_path: Path) -> None:
    step = TGB_DATASETS[name].step
    folder = make_tgb_files(name, tmp_path)
    graph = read_tgb(folder, name, step)
    slow = slow_graph(read_rows(folder, name), numbered_relations=step == "day")
    assert list(graph.entities) == slow.entities and list(graph.relations) == slow.relations
    for split in ("train", "valid", "test"):
        expected = [
            (s, r, o, label(time, step))
            for (s, r, o, time), of in zip(slow.facts, slow.splits, strict=True)
            if of == split
        ]
        found = [(s, r, o, graph.times[t]) for s, r, o, t in graph.facts(split).tolist()]
        assert found == expected and len(expected) > 20
    assert len(graph.times) == 30, "the two steps without facts are steps"
    assert sorted(set(range(30)) - set(graph.all_facts[:, 3].tolist())) == [3, 4]


# The package leaves the files open that it reads.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_py_tgb_reads_the_same(name: str, tmp_path: Path) -> None:
    package = import_tgb("dataset")
    folder = make_tgb_files(name, tmp_path)
    graph = read_tgb(folder, name, TGB_DATASETS[name].step)
    root = os.path.relpath(tmp_path, package.PROJ_DIR)
    theirs = package.LinkPropPredDataset(name, root=root, download=False)
    data = theirs.full_data
    assert theirs.num_nodes == len(graph.entities)
    assert theirs.num_rels == 2 * len(graph.relations)
    columns = (data["sources"], theirs.edge_type, data["destinations"], data["timestamps"])
    for split, mask in zip(
        ("train", "valid", "test"),
        (theirs.train_mask, theirs.val_mask, theirs.test_mask),
        strict=True,
    ):
        facts = graph.facts(split)
        *ids, time = (column[mask] for column in columns)
        inverse = facts[:, [2, 1, 0]] + [0, len(graph.relations), 0]
        np.testing.assert_array_equal(
            np.stack(ids, axis=1), np.concatenate([facts[:, :3], inverse])
        )
        labels = [label(int(second), TGB_DATASETS[name].step) for second in time]
        assert labels == [graph.times[step] for step in np.tile(facts[:, 3], 2)]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60))
def test_splits_end_at_the_quantiles_of_time(steps: list[int]) -> None:
    train_end, valid_end = last_steps(np.array(steps))
    ends = np.quantile(np.tile(steps, 2), [1 - 0.15 - 0.15, 1 - 0.15])
    for step in steps:
        assert (step <= train_end) == (step <= ends[0])
        assert (step <= valid_end) == (step <= ends[1])


def test_a_folder_an_archive_and_an_edge_list_are_the_same(tmp_path: Path) -> None:
    folder = make_tgb_files("tkgl-smallpedia", tmp_path)
    graph = read_tgb(folder, "tkgl-smallpedia", "year")
    archive = pack(folder, "tkgl-smallpedia")
    for source in (tmp_path, archive, folder / "tkgl-smallpedia_edgelist.csv"):
        assert read_tgb(source, "tkgl-smallpedia", "year").same_as(graph)


@pytest.mark.parametrize("name", ["tkgl-icews", "tkgl-wikidata"])
def test_blocks_do_not_matter(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_tgb_files(name, tmp_path, facts=3_000)
    graph = read_tgb(folder, name, TGB_DATASETS[name].step)
    monkeypatch.setattr(tgb_reader, "_BLOCK", 2_000)
    assert read_tgb(folder, name, TGB_DATASETS[name].step).same_as(graph)


def write_edges(folder: Path, name: str, *rows: str, header: str = "date") -> Path:
    lines = [f"{header},head,tail,relation_type", *rows]
    (folder / f"{name}_edgelist.csv").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.mark.parametrize("hours", [-10, -5, 0, 1, 11])
def test_a_day_may_begin_in_any_time_zone(hours: int, tmp_path: Path) -> None:
    start = int(np.datetime64("2018-03-01", "s").astype(int)) - 3_600 * hours
    rows = (f"{start + 86_400 * day},0,{day},0" for day in (0, 1, 4))
    graph = read_tgb(write_edges(tmp_path, "tkgl-icews", *rows), "tkgl-icews", "day")
    assert graph.times == ("2018-03-01", "2018-03-02", "2018-03-03", "2018-03-04", "2018-03-05")
    assert graph.all_facts[:, 3].tolist() == [0, 1, 4]


def test_years_before_1000_have_four_digits(tmp_path: Path) -> None:
    rows = [f"{year},Q1,Q2,P3" for year in (0, 2, 999, 1000)]
    folder = write_edges(tmp_path, "tkgl-wikidata", *rows, header="ts")
    graph = read_tgb(folder, "tkgl-wikidata", "year")
    assert (graph.times[0], graph.times[2], graph.times[-2:]) == ("0000", "0002", ("0999", "1000"))
    assert graph.has_dates and graph.time_id("0002") == 2


def test_numbers_get_the_names_of_a_mapping(tmp_path: Path) -> None:
    folder = write_edges(tmp_path, "tkgl-icews", "0,7,5,1", "86400,5,9,0")
    plain = read_tgb(folder, "tkgl-icews", "day")
    assert plain.entities == ("7", "5", "9") and plain.relations == ("0", "1")
    nodes, edges = folder / "tkgl-icews_nodemapping.csv", folder / "tkgl-icews_edgemapping.csv"
    nodes.write_text('name,id\n"Police, India",9\nAnn,5\nBob,7\nCai,8\n')
    edges.write_text("code,id,text\n042,0,Make a visit\n010,1,Make statement\n")
    named = read_tgb(folder, "tkgl-icews", "day")
    assert named.entities == ("Bob", "Ann", "Police, India")
    assert named.relations == ("Make a visit", "Make statement")
    nodes.write_text("Ann,5\nBob,7\n")
    with raises(DataError, "tgb_reader.no_name", path=nodes, number=9):
        read_tgb(folder, "tkgl-icews", "day")
    nodes.write_text("Ann,5\nAnn,7\nBob,9\n")
    with raises(DataError, "tgb_reader.one_name", path=nodes):
        read_tgb(folder, "tkgl-icews", "day")
    nodes.write_text("Ann\n")
    with raises(DataError, "tgb_reader.one_column", path=nodes):
        read_tgb(folder, "tkgl-icews", "day")


def test_files_that_are_something_else_are_named(tmp_path: Path) -> None:
    name, file = "tkgl-icews", tmp_path / "tkgl-icews_edgelist.csv"
    with raises(DataError, "tgb_reader.no_source", path=tmp_path / "nowhere"):
        read_tgb(tmp_path / "nowhere", name, "day")
    with raises(DataError, "tgb_reader.no_edges", path=tmp_path, name=name):
        read_tgb(tmp_path, name, "day")
    write_edges(tmp_path, name, header="head")
    fault = {"path": file, "found": "head, head, tail, relation_type"}
    with raises(DataError, "tgb_reader.columns", **fault):
        read_tgb(tmp_path, name, "day")
    write_edges(tmp_path, name)
    with raises(DataError, "tgb_reader.no_rows", path=file):
        read_tgb(tmp_path, name, "day")
    write_edges(tmp_path, name, "0,1,2,0", "3600,1,2,0")
    with raises(DataError, "tgb_reader.one_day", path=tmp_path):
        read_tgb(tmp_path, name, "day")
    write_edges(tmp_path, name, "0,1,2,0", f"{86_400 * 10**6},1,2,0")
    fault = {"path": tmp_path, "first": 0, "last": 86_400 * 10**6, "step": "day"}
    with raises(DataError, "tgb_reader.not_steps", **fault):
        read_tgb(tmp_path, name, "day")
    write_edges(tmp_path, name, "0,1,2,0", "0,one,2,0")
    with pytest.raises(DataError, match=r"Row #3.*invalid value 'one'"):
        read_tgb(tmp_path, name, "day")
    file.write_bytes(b"")
    with pytest.raises(DataError, match=f"{tmp_path}: cannot be read: Empty CSV file"):
        read_tgb(tmp_path, name, "day")


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    archive = pack(make_tgb_files("tkgl-polecat", tmp_path), "tkgl-polecat")
    content = bytearray(archive.read_bytes())
    content[200] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(DataError, match=f"{archive}: cannot be read"):
        read_tgb(archive, "tkgl-polecat", "day")


def test_arrow_lists_distinct_values_in_order_of_appearance() -> None:
    """Ids rely on it, also where values come in several parts."""
    parts = [pa.array(texts).dictionary_encode() for texts in (["b", "a", "b"], ["c", "a"])]
    names, ids = tgb_reader._unify(parts)
    assert names.to_pylist() == ["b", "a", "c"] and ids.tolist() == [0, 1, 0, 2, 1]
