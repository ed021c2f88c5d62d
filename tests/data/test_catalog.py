"""Datasets by name and path, with the roots in temporary folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tempograph.data.benchmarks import BENCHMARKS
from tempograph.data.catalog import (
    Available,
    available,
    dataset_roots,
    download_target,
    load_dataset,
)
from tempograph.data.folder import write_folder
from tempograph.data.graph import TemporalGraph
from tempograph.data.synthetic.world import make_world
from tempograph.errors import DataError


def graph_of(name: str) -> TemporalGraph:
    """A graph that can be told from others by its first entity."""
    facts = np.array([[0, 0, 1, 0]])
    return TemporalGraph(
        name,
        (f"entity of {name}", "other"),
        ("meets",),
        ("2024-01-01",),
        facts,
        facts[:0],
        facts[:0],
    )


def put(folder: Path, mark: str) -> Path:
    write_folder(graph_of(mark), folder)
    return folder


def mark_of(graph: TemporalGraph) -> str:
    return graph.entities[0].removeprefix("entity of ")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder TEMPOGRAPH_DATA names, empty; the current folder is another one."""
    for folder in ("data", "here"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("TEMPOGRAPH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data"


@pytest.fixture
def cache(data: Path) -> Path:
    """The datasets in the user cache, a folder that does not exist yet."""
    return data.parent / "cache" / "tempograph" / "datasets"


def test_a_graph_is_returned_as_it_is() -> None:
    graph = graph_of("mine")
    assert load_dataset(graph) is graph


def test_a_path_is_read(data: Path) -> None:
    folder = put(data.parent / "elsewhere" / "mine", "elsewhere")
    for dataset in (folder, str(folder), "../elsewhere/mine"):
        graph = load_dataset(dataset)
        assert (graph.name, mark_of(graph)) == ("mine", "elsewhere")


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("path", ["nowhere/mine", "./icews14", ".hidden", "/nowhere/icews14"])
def test_a_path_to_nothing(path: str) -> None:
    with pytest.raises(DataError, match=r": no such dataset folder$") as caught:
        load_dataset(path)
    assert Path(path).name in str(caught.value)


def test_names_are_looked_up_here_then_in_the_data_folder_then_in_the_cache(
    data: Path, cache: Path
) -> None:
    for name in ("icews14", "mine"):
        put(cache / name, "cache")
        assert mark_of(load_dataset(name)) == "cache"
        put(data / name, "data")
        assert mark_of(load_dataset(name)) == "data"
        put(Path(name), "here")
        assert mark_of(load_dataset(name)) == "here"


def test_a_local_folder_that_is_no_dataset_does_not_hide_one(data: Path) -> None:
    Path("icews14").mkdir()
    put(data / "icews14", "data")
    assert mark_of(load_dataset("icews14")) == "data"


@pytest.mark.usefixtures("data")
def test_a_local_folder_that_is_no_dataset_is_named_when_there_is_nothing_else() -> None:
    Path("run").mkdir()
    with pytest.raises(DataError, match=r"run: not a dataset folder; it holds no entities.txt"):
        load_dataset("run")


def test_a_damaged_dataset_under_a_root_is_named(data: Path) -> None:
    (data / "icews14").mkdir()
    with pytest.raises(DataError, match=f"{data}/icews14/entities.txt: no such file"):
        load_dataset("icews14")


def test_benchmark_names_are_known_in_any_case(data: Path) -> None:
    put(data / "icews05-15", "data")
    graph = load_dataset("ICEWS05-15")
    assert (graph.name, mark_of(graph)) == ("icews05-15", "data")


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("name", ["icews14", "ICEWS14"])
def test_a_benchmark_that_is_not_here(name: str) -> None:
    with pytest.raises(DataError) as caught:
        load_dataset(name)
    assert str(caught.value) == (
        "icews14 is not on this machine; run 'tempograph data get icews14', "
        "or point TEMPOGRAPH_DATA at the folder that holds it"
    )


def test_an_unknown_name_tells_where_was_looked_and_what_is_near(data: Path, cache: Path) -> None:
    put(cache / "embassies", "cache")
    where = f"in the current folder or in {data}, {cache}"
    for wrong, hint in {
        "embasies": "; did you mean 'embassies'?",
        "icews-14": "; did you mean 'icews14' or 'icews05-15'?",
        "DEMOS": "; did you mean 'demo'?",
        "wikidata": "; run 'tempograph data list' to see which there are",
        "": "; run 'tempograph data list' to see which there are",
    }.items():
        with pytest.raises(DataError) as caught:
            load_dataset(wrong)
        assert str(caught.value) == f"there is no dataset '{wrong}' {where}{hint}"


def test_no_name_is_not_the_current_folder(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(put(data / "mine", "data"))
    assert mark_of(load_dataset(".")) == "data"
    with pytest.raises(DataError, match="there is no dataset ''"):
        load_dataset("")


@pytest.mark.usefixtures("data")
def test_a_name_the_system_refuses() -> None:
    with pytest.raises(DataError, match="n: cannot be read: File name too long"):
        load_dataset("n" * 5000)


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("name", ["demo", "Demo"])
def test_the_demo_world_needs_no_folder(name: str) -> None:
    world, graph = make_world().graph, load_dataset(name)
    assert (graph.name, graph.entities) == ("demo", world.entities)
    np.testing.assert_array_equal(graph.all_facts, world.all_facts)


def test_roots_follow_the_environment(
    data: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dataset_roots() == [data, cache]
    assert download_target("ICEWS14") == data / "icews14"
    monkeypatch.delenv("TEMPOGRAPH_DATA")
    assert dataset_roots() == [cache]
    assert download_target("gdelt") == cache / "gdelt"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(data))
    assert dataset_roots() == [data / ".cache" / "tempograph" / "datasets"]


def test_only_benchmarks_are_downloaded() -> None:
    with pytest.raises(DataError, match="there is no benchmark 'mine'"):
        download_target("mine")


def test_available_lists_demo_benchmarks_and_what_else_lies_under_the_roots(
    data: Path, cache: Path
) -> None:
    both = put(data / "both", "data")
    put(cache / "both", "cache")
    early = put(cache / "alliances", "cache")
    gdelt = put(cache / "gdelt", "cache")
    put(data / ".both.unfinished", "data")
    put(data / "demo", "data")
    (data / "notes").mkdir()
    (data / "README.md").write_text("not a dataset")

    entries = available()

    assert [(entry.name, entry.path) for entry in entries] == [
        ("demo", None),
        ("icews14", None),
        ("icews05-15", None),
        ("gdelt", gdelt),
        ("alliances", early),
        ("both", both),
    ]
    assert entries[3] == Available(
        "gdelt", gdelt, BENCHMARKS["gdelt"].description, BENCHMARKS["gdelt"].counts
    )
    assert entries[4].counts is None
    assert all(entry.description for entry in entries)


def test_a_root_that_cannot_be_read_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(DataError, match=f"{data}: cannot be read: Permission denied"):
        available()
