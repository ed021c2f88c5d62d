"""Dataset folders: written, read back, and every fault named by file, line and value."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import benchmark
from graphs import graphs, make_graph
from messages import message, raises
from tempograph import TemporalGraph
from tempograph.data import folder as folder_module
from tempograph.data import parquet_facts
from tempograph.data.folder import read_folder, write_folder
from tempograph.errors import DataError, QueryError, StorageError
from tempograph.evaluation.independent_ranks import RawDataset


def equal(one: TemporalGraph, other: TemporalGraph) -> bool:
    names = all(
        getattr(one, kind) == getattr(other, kind) for kind in ("entities", "relations", "times")
    )
    return names and all(
        np.array_equal(getattr(one, split), getattr(other, split))
        for split in ("train", "valid", "test")
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(
        make_graph([(0, 0, 1, 0), (2, 1, 3, 4)], valid=[(1, 0, 2, 1)], test=[(0, 1, 0, 2)]),
        tmp_path / "d",
        compress=False,
    )
    return tmp_path / "d"


@settings(max_examples=30)
@given(graph=graphs(), compress=st.booleans())
def test_a_written_graph_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, graph: TemporalGraph, compress: bool
) -> None:
    path = tmp_path_factory.mktemp("data") / "small"
    write_folder(graph, path, compress=compress)
    assert equal(read_folder(path), graph)


def test_names_survive_as_they_are(tmp_path: Path) -> None:
    names = ("Ann\u00a0", "\u2028line", " b", "c\r", "tab\tbed", "中国", "")
    graph = TemporalGraph(
        "x", names, ("r",), ("0",), *(np.zeros((n, 4), np.int64) for n in (1, 0, 0))
    )
    write_folder(graph, tmp_path / "x")
    assert read_folder(tmp_path / "x").entities == names


def test_the_same_facts_give_the_same_bytes(tmp_path: Path) -> None:
    graph = make_graph([(0, 0, 1, 0)])
    for name in ("a", "b"):
        write_folder(graph, tmp_path / name)
    assert (tmp_path / "a" / "train.tsv.gz").read_bytes() == (
        tmp_path / "b" / "train.tsv.gz"
    ).read_bytes()


FAULTS = {
    "three fields": (
        "train.tsv",
        b"0\t0\t1\t0\n0\t0\t1\n",
        partial(message, "folder.wrong_field_count", line=2, found=3),
    ),
    "six fields": (
        "test.tsv",
        b"0\t0\t1\t0\t0\t0\n",
        partial(message, "folder.wrong_field_count", line=1, found=6),
    ),
    "a blank line": (
        "train.tsv",
        b"0\t0\t1\t0\n\n0\t0\t1\t0\n",
        partial(message, "folder.wrong_field_count", line=2, found=1),
    ),
    "a word": (
        "valid.tsv",
        b"0\t0\tChina\t0\n",
        partial(message, "folder.not_an_id", line=1, value="China"),
    ),
    "a fraction": (
        "train.tsv",
        b"0\t0\t1\t0.5\n",
        partial(message, "folder.not_an_id", line=1, value="0.5"),
    ),
    "a NaN": (
        "train.tsv",
        b"0\t0\tnan\t0\n",
        partial(message, "folder.not_an_id", line=1, value="nan"),
    ),
    "an empty field": (
        "train.tsv",
        b"0\t\t1\t0\n",
        partial(message, "folder.not_an_id", line=1, value=""),
    ),
    "an undecodable byte": (
        "train.tsv",
        b"0\t0\t\xff\t0\n",
        partial(message, "folder.not_an_id", line=1, value="\ufffd"),
    ),
    "an entity too large": (
        "train.tsv",
        b"0\t0\t1\t0\n4\t0\t1\t0\n",
        partial(message, "folder.out_of_range", line=2, column="subject", value=4, last=3),
    ),
    "a negative id": (
        "train.tsv",
        b"0\t-1\t1\t0\n",
        partial(message, "folder.out_of_range", line=1, column="relation", value=-1, last=1),
    ),
    "a start that is not UTF-8": (
        "train.tsv",
        b"0\t0\t1\t0\t1\n0\t0\t1\t\xe7\t1\n",
        partial(message, "folder.not_an_id", line=2, value="\ufffd"),
    ),
    "a time off the grid": (
        "train.tsv",
        b"0\t0\t1\t5\n",
        partial(message, "folder.out_of_range", line=1, column="time", value=5, last=4),
    ),
    "an id too long": (
        "train.tsv",
        b"0\t0\t1\t99999999999999999999\n",
        partial(message, "folder.long_id", line=1, value="99999999999999999999"),
    ),
    "no train facts": ("train.tsv", b"", partial(message, "folder.no_train_facts")),
    "no names": ("entities.txt", b"", partial(message, "folder.empty_names")),
    "a name twice": (
        "relations.txt",
        b"visit\nmeet\nvisit\n",
        partial(message, "folder.repeated_name", line=3, name="visit", first=1),
    ),
    "names that are not UTF-8": (
        "entities.txt",
        b"a\nb\nCura\xe7ao\nd\n",
        partial(message, "folder.not_utf8", line=3, byte="0xe7"),
    ),
}


@pytest.mark.parametrize(("file", "content", "expected"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_by_file_line_and_value(
    folder: Path, file: str, content: bytes, expected: Callable[..., str]
) -> None:
    (folder / file).write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_folder(folder)
    assert str(caught.value) == expected(path=folder / file)


def test_a_fault_far_down_a_gzipped_file_is_named(folder: Path) -> None:
    (folder / "train.tsv").unlink()
    packed = folder / "train.tsv.gz"
    packed.write_bytes(gzip.compress(b"0\t0\t1\t0\n" * 400_000 + b"0\t0\tx\t0\n"))
    with raises(DataError, "folder.not_an_id", path=packed, line=400001, value="x"):
        read_folder(folder)


def test_a_truncated_gzip_file_is_refused(folder: Path) -> None:
    (folder / "train.tsv").unlink()
    packed = folder / "train.tsv.gz"
    packed.write_bytes(gzip.compress(b"0\t0\t1\t0\n" * 99)[:-9])
    with raises(DataError, "folder.incomplete_gzip", path=packed):
        read_folder(folder)


def test_missing_and_doubled_files_are_named(folder: Path) -> None:
    valid = folder / "valid.tsv"
    (folder / "valid.tsv.gz").write_bytes(gzip.compress(b""))
    with raises(DataError, "folder.two_files", path=valid, other="valid.tsv.gz"):
        read_folder(folder)
    for file in ("valid.tsv", "valid.tsv.gz"):
        (folder / file).unlink()
    with raises(DataError, "folder.no_split", path=valid, split="valid"):
        read_folder(folder)
    (folder / "times.txt").unlink()
    with raises(DataError, "folder.no_file", path=folder / "times.txt"):
        read_folder(folder)
    with raises(DataError, "folder.no_folder", path=folder / "nowhere"):
        read_folder(folder / "nowhere")


def test_windows_line_ends_are_read(folder: Path) -> None:
    (folder / "train.tsv").write_bytes(b"0\t0\t1\t0\r\n1\t1\t2\t3\r\n")
    assert read_folder(folder).train.tolist() == [[0, 0, 1, 0], [1, 1, 2, 3]]
    before = read_folder(folder)
    for kind in ("entities", "relations", "times"):
        names = "\r\n".join(getattr(before, kind)) + "\r\n"
        (folder / f"{kind}.txt").write_bytes(names.encode("utf-8-sig"))
    assert read_folder(folder).same_as(before)


def test_only_a_dataset_folder_is_overwritten_and_only_on_request(
    folder: Path, tmp_path: Path
) -> None:
    graph = make_graph([(3, 1, 3, 3)])
    with raises(StorageError, "io.exists", path=folder):
        write_folder(graph, folder)
    assert len(read_folder(folder).train) == 2
    write_folder(graph, folder, overwrite=True)
    assert equal(read_folder(folder), graph)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    with raises(StorageError, "io.not_ours", path=precious, marker="entities.txt"):
        write_folder(graph, precious, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "precious"]


def test_a_name_with_a_line_break_cannot_be_written(tmp_path: Path) -> None:
    graph = TemporalGraph(
        "x", ("a\nb",), ("r",), ("0",), *(np.zeros((n, 4), np.int64) for n in (1, 0, 0))
    )
    path = tmp_path / "x" / "entities.txt"
    with raises(DataError, "folder.line_break", path=path, name="a\nb"):
        write_folder(graph, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_graph_checks_its_arrays() -> None:
    fault = {"split": "valid", "row": 0, "column": "object", "value": 4, "last": 3}
    with raises(DataError, "graph.out_of_range", graph="small", **fault):
        make_graph([(0, 0, 1, 0)], valid=[(0, 0, 4, 0)])
    found = {"split": "valid", "found": "int64 (1, 3)"}
    facts = [np.zeros((1, width), np.int64) for width in (4, 3, 4)]
    with raises(DataError, "graph.wrong_shape", graph="x", **found):
        TemporalGraph("x", ("a",), ("r",), ("0",), *facts)
    with raises(DataError, "graph.wrong_width", graph="x", width=3):
        TemporalGraph("x", ("a",), ("r",), ("0",), *[facts[1]] * 3)


def test_names_are_looked_up_and_typos_get_suggestions() -> None:
    graph = TemporalGraph(
        "x",
        ("Barack Obama", "China", "CHINA", "Angela Merkel"),
        ("Make a visit",),
        ("2014-01-01",),
        *(np.zeros((n, 4), np.int64) for n in (1, 0, 0)),
    )
    assert graph.entity_id("China") == 1 and graph.entity_id("barack obama") == 0
    assert graph.relation_id("make a visit") == 0 and graph.time_id("2014-01-01") == 0
    for typo, offer in (
        ("obama", "'Barack Obama'"),
        ("Angela Merkle", "'Angela Merkel'"),
        ("Merkle", "'Angela Merkel'"),
        ("china", "'China' or 'CHINA'"),
    ):
        with raises(QueryError, "suggestions.did_you_mean", kind="entity", value=typo, names=offer):
            graph.entity_id(typo)
    grid = {"graph": "x", "count": 1, "first": "2014-01-01", "last": "2014-01-01"}
    with raises(QueryError, "graph.not_on_grid", time="2014-01-02", **grid):
        graph.time_id("2014-01-02")
    assert graph.describe(graph.train[0]) == {
        "subject": "Barack Obama",
        "relation": "Make a visit",
        "object": "Barack Obama",
        "time": "2014-01-01",
    }


@pytest.mark.parametrize(("name", "train"), [("icews14", 72_826), ("icews05-15", 368_962)])
def test_the_published_data_is_read_completely(name: str, train: int) -> None:
    assert len(benchmark(name).train) == train


def interval_graph() -> TemporalGraph:
    facts = np.array([[0, 0, 1, 0, 3, 0], [2, 1, 3, 0, 4, 2], [2, 1, 3, 2, 2, 8]])
    splits = (facts, facts[:1], facts[:0])
    return TemporalGraph("spans", tuple("abcd"), ("r", "q"), tuple("01234"), *splits)


@settings(max_examples=20)
@given(graph=graphs())
def test_a_graph_in_parquet_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, graph: TemporalGraph
) -> None:
    path = tmp_path_factory.mktemp("data") / "small"
    with patch.object(parquet_facts, "ROW_GROUP", 2):
        write_folder(graph, path, parquet=True)
    assert (path / "train.parquet").exists() and not (path / "train.tsv.gz").exists()
    assert equal(read_folder(path), graph)


def test_facts_that_hold_for_a_while_are_read_back_from_parquet(tmp_path: Path) -> None:
    write_folder(interval_graph(), tmp_path / "d", parquet=True)
    assert equal(read_folder(tmp_path / "d"), interval_graph())


def test_many_facts_are_written_as_parquet_unless_an_option_says_otherwise(tmp_path: Path) -> None:
    graph = make_graph([(0, 0, 1, 0), (2, 1, 3, 4)])
    with patch.object(folder_module, "MAX_TSV_FACTS", 1):
        write_folder(graph, tmp_path / "d")
        write_folder(graph, tmp_path / "tsv", parquet=False)
    assert (tmp_path / "d/test.parquet").exists() and (tmp_path / "tsv/test.tsv.gz").exists()
    (tmp_path / "d/test.tsv").write_bytes(b"")
    with raises(DataError, "folder.two_files", path=tmp_path / "d/test.tsv", other="test.parquet"):
        read_folder(tmp_path / "d")


def test_blocks_of_any_length_give_the_same_parquet_file(tmp_path: Path) -> None:
    facts = np.arange(44).reshape(-1, 4) % 5
    with patch.object(parquet_facts, "ROW_GROUP", 3):
        for name, cuts in (("one", [0, 11]), ("two", [0, 1, 1, 5, 8, 11]), ("three", range(12))):
            blocks = [facts[start:end] for start, end in pairwise(cuts)]
            parquet_facts.write_parquet_facts(tmp_path / name, blocks, 4)
    assert len({(tmp_path / name).read_bytes() for name in ("one", "two", "three")}) == 1


IDS = {"subject": [0, 0, 0], "relation": [0, 1, 1], "object": [1, 1, 1], "time": [0, 0, 4]}
PARQUET_FAULTS = {
    "an entity too large": (
        {"object": [0, 1, 4]},
        partial(message, "parquet_facts.out_of_range", row=3, column="object", value=4, last=3),
    ),
    "a negative id": (
        {"relation": [0, 0, -1]},
        partial(message, "parquet_facts.out_of_range", row=3, column="relation", value=-1, last=1),
    ),
    "no id": (
        {"time": [0, None, 1]},
        partial(message, "parquet_facts.empty", row=2, column="time"),
    ),
    "an id too long": (
        {"time": np.array([0, 0, 2**64 - 1], np.uint64)},
        partial(message, "parquet_facts.long_id", row=3, value=2**64 - 1),
    ),
    "text": (
        {"time": ["0", "1", "2"]},
        partial(message, "parquet_facts.not_integers", column="time", kind="string"),
    ),
    "no time": (
        {"time": None, "when": [0, 0, 0]},
        partial(
            message,
            "parquet_facts.columns",
            columns="subject, relation, object, time",
            found="subject, relation, object, when",
        ),
    ),
    "an end before the start": (
        {"time": None, "start": [0, 1, 2], "end": [0, 1, 1], "bounds": [0, 0, 0]},
        partial(message, "parquet_facts.wrong_order", row=3, start=2, end=1),
    ),
}


@pytest.mark.parametrize(("changed", "expected"), PARQUET_FAULTS.values(), ids=PARQUET_FAULTS)
def test_a_fault_in_parquet_is_named_by_file_row_and_value(
    folder: Path, changed: dict[str, list[int]], expected: Callable[..., str]
) -> None:
    (folder / "train.tsv").unlink()
    path = folder / "train.parquet"
    columns = {name: ids for name, ids in (IDS | changed).items() if ids is not None}
    pa.parquet.write_table(pa.table(columns), path, row_group_size=2)
    with pytest.raises(DataError) as caught:
        read_folder(folder)
    assert str(caught.value) == expected(path=path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=rf"^{path}: not a complete Parquet file \("):
        read_folder(folder)


def test_the_independent_ranker_reads_the_same_facts(tmp_path: Path) -> None:
    graph = make_graph([(0, 0, 1, 0), (2, 1, 3, 4)], valid=[(1, 0, 2, 1)], test=[(0, 1, 0, 2)])
    for name, parquet in (("text", False), ("parquet", True)):
        write_folder(graph, tmp_path / name, parquet=parquet)
    text, columns = (RawDataset(tmp_path / name).facts for name in ("text", "parquet"))
    assert text == columns and text["valid"] == [(1, 0, 2, 1)]
