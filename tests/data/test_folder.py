"""Dataset folders: what is written is read back, and every fault is named by file, line and value."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import benchmark
from graphs import graphs, make_graph
from tempograph import TemporalGraph
from tempograph.data.folder import read_folder, write_folder
from tempograph.errors import DataError, QueryError, StorageError


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


@settings(max_examples=50)
@given(graph=graphs(), compress=st.booleans())
def test_what_is_written_is_read_back(
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
        r"train.tsv:2: expected 4 tab-separated fields, found 3",
    ),
    "five fields": (
        "test.tsv",
        b"0\t0\t1\t0\t0\n",
        r"test.tsv:1: expected 4 tab-separated fields, found 5",
    ),
    "a blank line": (
        "train.tsv",
        b"0\t0\t1\t0\n\n0\t0\t1\t0\n",
        r"train.tsv:2: expected 4 tab-separated fields, found 1",
    ),
    "a word": ("valid.tsv", b"0\t0\tChina\t0\n", r"valid.tsv:1: 'China' is not an integer id"),
    "a fraction": ("train.tsv", b"0\t0\t1\t0.5\n", r"train.tsv:1: '0.5' is not an integer id"),
    "a NaN": ("train.tsv", b"0\t0\tnan\t0\n", r"train.tsv:1: 'nan' is not an integer id"),
    "an empty field": ("train.tsv", b"0\t\t1\t0\n", r"train.tsv:1: '' is not an integer id"),
    "an undecodable byte": (
        "train.tsv",
        b"0\t0\t\xff\t0\n",
        r"train.tsv:1: '\ufffd' is not an integer id",
    ),
    "an entity too large": (
        "train.tsv",
        b"0\t0\t1\t0\n4\t0\t1\t0\n",
        r"train.tsv:2: subject id 4 is out of range.*0 to 3",
    ),
    "a negative id": (
        "train.tsv",
        b"0\t-1\t1\t0\n",
        r"train.tsv:1: relation id -1 is out of range.*0 to 1",
    ),
    "a time off the grid": (
        "train.tsv",
        b"0\t0\t1\t5\n",
        r"train.tsv:1: time id 5 is out of range.*0 to 4",
    ),
    "an id too long": (
        "train.tsv",
        b"0\t0\t1\t99999999999999999999\n",
        r"train.tsv:1: id 9+ is out of range",
    ),
    "no train facts": ("train.tsv", b"", r"train.tsv: the train split has no facts"),
    "no names": ("entities.txt", b"", r"entities.txt: the file is empty"),
    "a name twice": (
        "relations.txt",
        b"visit\nmeet\nvisit\n",
        r"relations.txt:3: the name 'visit' is on line 1 already",
    ),
    "names that are not UTF-8": (
        "entities.txt",
        b"a\nb\nCura\xe7ao\nd\n",
        r"entities.txt:3: byte 0xe7 is not UTF-8",
    ),
}


@pytest.mark.parametrize(("file", "content", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_by_file_line_and_value(
    folder: Path, file: str, content: bytes, message: str
) -> None:
    (folder / file).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_folder(folder)
    assert "\n" not in str(caught.value)


def test_a_fault_far_down_a_gzipped_file_is_found(folder: Path) -> None:
    (folder / "train.tsv").unlink()
    (folder / "train.tsv.gz").write_bytes(
        gzip.compress(b"0\t0\t1\t0\n" * 400_000 + b"0\t0\tx\t0\n")
    )
    with pytest.raises(DataError, match=r"train.tsv.gz:400001: 'x' is not an integer id"):
        read_folder(folder)


def test_a_truncated_gzip_file_is_refused(folder: Path) -> None:
    (folder / "train.tsv").unlink()
    (folder / "train.tsv.gz").write_bytes(gzip.compress(b"0\t0\t1\t0\n" * 99)[:-9])
    with pytest.raises(DataError, match=r"train.tsv.gz: not a complete gzip file"):
        read_folder(folder)


def test_missing_and_doubled_files_are_named(folder: Path) -> None:
    (folder / "valid.tsv.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(DataError, match=r"valid.tsv: exists beside valid.tsv.gz; remove one"):
        read_folder(folder)
    for file in ("valid.tsv", "valid.tsv.gz"):
        (folder / file).unlink()
    with pytest.raises(DataError, match=r"valid.tsv: no such file, nor valid.tsv.gz"):
        read_folder(folder)
    (folder / "times.txt").unlink()
    with pytest.raises(DataError, match=r"times.txt: no such file"):
        read_folder(folder)
    with pytest.raises(DataError, match=r"nowhere: no such dataset folder"):
        read_folder(folder / "nowhere")


def test_windows_line_ends_are_read(folder: Path) -> None:
    (folder / "train.tsv").write_bytes(b"0\t0\t1\t0\r\n1\t1\t2\t3\r\n")
    assert read_folder(folder).train.tolist() == [[0, 0, 1, 0], [1, 1, 2, 3]]
    before = read_folder(folder)
    for kind in ("entities", "relations", "times"):
        names = "\r\n".join(getattr(before, kind)) + "\r\n"
        (folder / f"{kind}.txt").write_bytes(names.encode("utf-8-sig"))
    assert read_folder(folder).same_as(before)


def test_an_existing_folder_is_replaced_only_when_asked_and_ours(
    folder: Path, tmp_path: Path
) -> None:
    graph = make_graph([(3, 1, 3, 3)])
    with pytest.raises(
        StorageError, match=r"exists already; choose another path or pass --overwrite"
    ):
        write_folder(graph, folder)
    assert len(read_folder(folder).train) == 2
    write_folder(graph, folder, overwrite=True)
    assert equal(read_folder(folder), graph)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    with pytest.raises(
        StorageError, match=r"precious has no entities.txt, so it is not overwritten"
    ):
        write_folder(graph, precious, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "precious"]


def test_a_name_with_a_line_break_cannot_be_written(tmp_path: Path) -> None:
    graph = TemporalGraph(
        "x", ("a\nb",), ("r",), ("0",), *(np.zeros((n, 4), np.int64) for n in (1, 0, 0))
    )
    with pytest.raises(DataError, match="contains a line break"):
        write_folder(graph, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_graph_checks_its_arrays() -> None:
    with pytest.raises(DataError, match=r"small: valid fact 0 has object 4, outside 0 to 3"):
        make_graph([(0, 0, 1, 0)], valid=[(0, 0, 4, 0)])
    with pytest.raises(DataError, match=r"train facts must be int64 \[n, 4\]"):
        TemporalGraph("x", ("a",), ("r",), ("0",), *(np.zeros((1, 3), np.int64),) * 3)


def test_names_are_found_and_typos_answered() -> None:
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
        ("china", "'China'"),
    ):
        with pytest.raises(QueryError, match=f"no entity '{typo}'; did you mean.*{offer}"):
            graph.entity_id(typo)
    with pytest.raises(
        QueryError,
        match=r"'2014-01-02' is not on the time grid of x \(1 steps, 2014-01-01 to 2014-01-01\)",
    ):
        graph.time_id("2014-01-02")
    assert graph.describe(graph.train[0]) == {
        "subject": "Barack Obama",
        "relation": "Make a visit",
        "object": "Barack Obama",
        "time": "2014-01-01",
    }


@pytest.mark.parametrize(("name", "train"), [("icews14", 72_826), ("icews05-15", 368_962)])
def test_the_published_data_are_read_whole(name: str, train: int) -> None:
    assert len(benchmark(name).train) == train
