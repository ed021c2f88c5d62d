"""Datasets by name and path, with the roots in temporary folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from messages import raises
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
from tempograph.data.known_datasets import known_datasets
from tempograph.data.synthetic.world import make_world
from tempograph.errors import DataError


def graph_of(name: str) -> TemporalGraph:
    """A graph that its first entity distinguishes from others."""
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
def test_a_missing_path_is_named(path: str) -> None:
    with raises(DataError, "folder.no_folder", path=Path(path)):
        load_dataset(path)


def test_names_are_looked_up_in_the_current_folder_then_the_data_folder_then_the_cache(
    data: Path, cache: Path
) -> None:
    for name in ("icews14", "mine"):
        put(cache / name, "cache")
        assert mark_of(load_dataset(name)) == "cache"
        put(data / name, "data")
        assert mark_of(load_dataset(name)) == "data"
        put(Path(name), "here")
        assert mark_of(load_dataset(name)) == "here"


def test_a_local_folder_that_is_no_dataset_does_not_hide_a_dataset(data: Path) -> None:
    Path("icews14").mkdir()
    put(data / "icews14", "data")
    assert mark_of(load_dataset("icews14")) == "data"


@pytest.mark.usefixtures("data")
def test_a_local_folder_that_is_no_dataset_is_named_if_no_dataset_has_the_name() -> None:
    Path("run").mkdir()
    with raises(DataError, "catalog.not_a_dataset", path="run"):
        load_dataset("run")


def test_a_damaged_dataset_under_a_root_is_named(data: Path) -> None:
    (data / "icews14").mkdir()
    with raises(DataError, "folder.no_file", path=data / "icews14" / "entities.txt"):
        load_dataset("icews14")


def test_benchmark_names_are_known_in_any_case(data: Path) -> None:
    put(data / "icews05-15", "data")
    graph = load_dataset("ICEWS05-15")
    assert (graph.name, mark_of(graph)) == ("icews05-15", "data")


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("name", ["icews14", "ICEWS14"])
def test_a_missing_benchmark_says_how_to_get_it(name: str) -> None:
    with raises(DataError, "catalog.not_here", dataset="icews14"):
        load_dataset(name)


def test_an_unknown_name_lists_the_searched_folders_and_close_names(
    data: Path, cache: Path
) -> None:
    put(cache / "embassies", "cache")
    roots = f"{data}, {cache}"
    for wrong, names in {
        "embasies": "'embassies'",
        "icews-14": "'icews14' or 'icews05-15'",
        "DEMOS": "'demo'",
        "wikidata": "'wikidata12k' or 'tkgl-wikidata'",
    }.items():
        with raises(DataError, "catalog.misspelt", dataset=wrong, roots=roots, names=names):
            load_dataset(wrong)
    for wrong in ("fb15k", ""):
        with raises(DataError, "catalog.no_dataset", dataset=wrong, roots=roots):
            load_dataset(wrong)


def test_the_empty_name_is_not_the_current_folder(
    data: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(put(data / "mine", "data"))
    assert mark_of(load_dataset(".")) == "data"
    with raises(DataError, "catalog.no_dataset", dataset="", roots=f"{data}, {cache}"):
        load_dataset("")


@pytest.mark.usefixtures("data")
def test_a_name_that_is_too_long_is_refused() -> None:
    name = "n" * 5000
    with raises(DataError, "folder.unreadable", path=name, reason="File name too long"):
        load_dataset(name)


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
    names = ", ".join(known_datasets())
    with raises(DataError, "suggestions.choose", kind="benchmark", value="mine", names=names):
        download_target("mine")


def test_available_lists_the_demo_benchmarks_and_other_folders_under_the_roots(
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
        ("yago11k", None),
        ("wikidata12k", None),
        ("tkgl-smallpedia", None),
        ("tkgl-polecat", None),
        ("tkgl-icews", None),
        ("tkgl-wikidata", None),
        ("alliances", early),
        ("both", both),
    ]
    assert entries[3] == Available(
        "gdelt", gdelt, BENCHMARKS["gdelt"].description, BENCHMARKS["gdelt"].counts, 3_419_607
    )
    assert (entries[8].counts, entries[8].facts) == (None, 15_513_446)
    assert (entries[10].counts, entries[10].facts) == (None, None)
    assert all(entry.description for entry in entries)


def test_a_root_that_cannot_be_read_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with raises(DataError, "folder.unreadable", path=data, reason="Permission denied"):
        available()
