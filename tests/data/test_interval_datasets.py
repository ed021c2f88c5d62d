"""Published folders of ids with dates: read as they are, and fetched with checks."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from messages import raises
from mirror import Mirror
from tempograph import load_dataset
from tempograph.data.folder import read_folder
from tempograph.data.importers.any_source import find_inputs
from tempograph.data.interval_datasets import INTERVAL_DATASETS, IntervalDataset
from tempograph.data.known_datasets import get_dataset
from tempograph.errors import DataError

pytest_plugins = ("download_fixtures",)
TEXTS = {
    "entity2id.txt": b"a\t1\nb b\t0\nc\t2\n",
    "relation2id.txt": b"leads\t0\n",
    "train.txt": b"0\t0\t1\t1926-##-##\t1929-05-##\n1\t0\t2\t-044-##-##\t####-##-##\n"
    b"2\t0\t0\t####-##-##\t1927-04-31\n0\t0\t2\t2008-##-##\t398-##-##\n",
    "valid.txt": b"1\t0\t0\t1963-64-65\t####-##-##\n",
    "test.txt": b"2\t0\t1\t19##-##-##\t19##-##-##\n",
}
FACTS = [
    ("b b", "a", "1926", "1929"),
    ("a", "c", "-0044", ""),
    ("c", "b b", "", "1927"),
    ("b b", "c", "2008", ""),
]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> IntervalDataset:
    entry = IntervalDataset("tiny", "six facts", "made up", "tiny", 3, 1, (4, 1, 1))
    monkeypatch.setitem(INTERVAL_DATASETS, "tiny", entry)
    return entry


def write(folder: Path, texts: dict[str, bytes] = TEXTS) -> Path:
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    return folder


def test_a_folder_of_ids_with_dates_is_a_dataset(tmp_path: Path) -> None:
    graph = load_dataset(write(tmp_path / "published"))
    assert (graph.entities, graph.relations) == (("b b", "a", "c"), ("leads",))
    assert (graph.times[0], graph.times[-1]) == ("-0044", "2008")
    columns = ("subject", "object", "start", "end")
    named = [graph.describe(fact) for fact in graph.train]
    assert [tuple(each[column] for column in columns) for each in named] == FACTS
    for fact, bounds in ((graph.valid[0], ("1963", "")), (graph.test[0], ("1900", "1999"))):
        each = graph.describe(fact)
        assert (each["start"], each["end"]) == bounds


def test_such_a_folder_is_found_without_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = load_dataset(write(tmp_path / "published"))
    monkeypatch.chdir(tmp_path)
    assert load_dataset("published").same_as(graph)
    with raises(DataError, "any_source.dataset", path="published"):
        find_inputs("published")


def test_names_by_line_and_packed_splits_give_the_same(tmp_path: Path) -> None:
    graph = load_dataset(write(tmp_path / "published"))
    other = write(tmp_path / "other", {"entities.txt": b"b b\na\nc\n", "relations.txt": b"leads\n"})
    for split in ("train", "valid", "test"):
        (other / f"{split}.tsv.gz").write_bytes(gzip.compress(TEXTS[f"{split}.txt"]))
    assert load_dataset(other).same_as(graph)


def test_a_dataset_is_fetched_and_its_counts_are_checked(
    tmp_path: Path, mirror: Mirror, tiny: IntervalDataset
) -> None:
    mirror.serve("tiny", TEXTS)
    graph = get_dataset("tiny", tmp_path / "fetched")
    assert read_folder(tmp_path / "fetched").same_as(graph)
    assert get_dataset("tiny", tmp_path / "read", source=write(tmp_path / "here")).same_as(graph)
    mirror.serve("tiny", TEXTS | {"test.txt": 2 * TEXTS["test.txt"]})
    with pytest.raises(DataError, match="which has 1 test facts, found 2"):
        get_dataset("tiny", tmp_path / "changed")
    assert not (tmp_path / "changed").exists()


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        (
            "train.txt",
            TEXTS["train.txt"] + b"0\t0\t1\t1926\n",
            "rows must be subject, relation and object as ids",
        ),
        ("train.txt", b"0\t0\t1\t####\t####\n", "has neither start nor end"),
        ("train.txt", b"0\t0\t9\t1926\t1927\n", "object 9"),
        ("entity2id.txt", b"a\t1\nb\t2\n", "the ids must be 0 to 1"),
    ],
)
def test_faulty_files_are_named(tmp_path: Path, file: str, text: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        load_dataset(write(tmp_path / "faulty", TEXTS | {file: text}))


@pytest.mark.parametrize("rest", [b"", b"\t0", b"\t-1"])
def test_events_in_such_a_folder_are_not_taken_for_facts_with_an_end(
    tmp_path: Path, rest: bytes
) -> None:
    """Folders for forecasting have times of one number, and often a fifth column of zeros."""
    row = b"0\t0\t1\t24" + rest + b"\n"
    splits = dict.fromkeys(("train.txt", "valid.txt", "test.txt"), row)
    with pytest.raises(DataError, match="looks like a fact and not like a header"):
        load_dataset(write(tmp_path / "events", TEXTS | splits))


def test_a_folder_of_something_else_is_refused(tmp_path: Path, tiny: IntervalDataset) -> None:
    with pytest.raises(DataError, match="not the files of tiny"):
        get_dataset("tiny", tmp_path / "out", source=tmp_path)
