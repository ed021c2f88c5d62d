"""Datasets of TGB 2.0 from a local server, an archive and a folder: checked, then written."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from make_tgb_files import make_tgb_files, pack

from conftest import Call
from messages import message, raises
from mirror import Handler, Mirror, reset, send_head, truncated, wrong_bytes
from tempograph.data import downloads
from tempograph.data.folder import read_folder
from tempograph.data.importers.tgb_reader import read_tgb
from tempograph.data.known_datasets import get_dataset
from tempograph.data.tgb_datasets import TGB_DATASETS, TgbDataset
from tempograph.errors import DataError, StorageError

pytest_plugins = ("download_fixtures",)

NAME = "tkgl-smallpedia"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of a made-up dataset."""
    return make_tgb_files(NAME, tmp_path / "made")


@pytest.fixture
def archive(folder: Path) -> bytes:
    return pack(folder, NAME).read_bytes()


@pytest.fixture
def dataset(folder: Path, archive: bytes, monkeypatch: pytest.MonkeyPatch) -> TgbDataset:
    """The made-up dataset, known under the name of a published one."""
    graph = read_tgb(folder, NAME, "year")
    entry = replace(
        TGB_DATASETS[NAME],
        entities=len(graph.entities),
        facts=len(graph.all_facts),
        splits=(len(graph.train), len(graph.valid), len(graph.test)),
        sha256=hashlib.sha256(archive).hexdigest(),
        size=len(archive),
    )
    monkeypatch.setitem(TGB_DATASETS, NAME, entry)
    return entry


@pytest.fixture
def served(mirror: Mirror, archive: bytes) -> Mirror:
    mirror.files[f"/{NAME}.zip"] = archive
    return mirror


def test_archives_come_from_the_authors_unless_a_mirror_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TEMPOGRAPH_MIRROR", raising=False)
    for name, dataset in TGB_DATASETS.items():
        assert dataset.address.startswith("https://object-arbutus.alliancecan.ca/swift/v1/")
        assert dataset.address.endswith(f"/tgb/{name}.zip")
    monkeypatch.setenv("TEMPOGRAPH_MIRROR", "https://example.org/copy/")
    assert TGB_DATASETS[NAME].address == f"https://example.org/copy/{NAME}.zip"


def test_published_figures_are_consistent() -> None:
    for dataset in TGB_DATASETS.values():
        assert dataset.splits is None or sum(dataset.splits) == dataset.facts
    assert {name: each.negatives for name, each in TGB_DATASETS.items() if each.negatives} == {
        "tkgl-wikidata": 1_000
    }


@pytest.mark.usefixtures("dataset", "served")
def test_a_download_is_the_dataset_and_leaves_nothing_else(tmp_path: Path, folder: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    graph = get_dataset(
        NAME.upper(), tmp_path / "out" / NAME, progress=lambda *step: seen.append(step)
    )
    assert graph.same_as(read_tgb(folder, NAME, "year")) and graph.name == NAME
    assert read_folder(tmp_path / "out" / NAME).same_as(graph)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [NAME]
    assert seen[-1] == (f"{NAME}.zip", TGB_DATASETS[NAME].size, TGB_DATASETS[NAME].size)


@pytest.mark.usefixtures("dataset")
def test_an_interrupted_download_goes_on_where_it_ended(
    served: Mirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str | None] = []

    def rest(handler: Handler, body: bytes) -> None:
        wanted = handler.headers["Range"]
        asked.append(wanted)
        body = body[int(wanted.removeprefix("bytes=").removesuffix("-")) :]
        send_head(handler, len(body), 206)
        handler.wfile.write(body)

    monkeypatch.setattr(downloads, "CHUNK", 2)
    served.faults = {f"/{NAME}.zip": [truncated, rest]}
    seen: list[int] = []
    get_dataset(NAME, tmp_path / NAME, progress=lambda _, done, total: seen.append(done))
    assert asked == ["bytes=5-"]
    assert seen == sorted(seen) and seen[-1] == TGB_DATASETS[NAME].size
    # A server that does not resume sends the whole file, and it replaces what was received.
    served.faults = {f"/{NAME}.zip": [truncated, reset]}
    get_dataset(NAME, tmp_path / "again")
    assert (tmp_path / "again" / "train.tsv.gz").read_bytes() == (
        tmp_path / NAME / "train.tsv.gz"
    ).read_bytes()


@pytest.mark.usefixtures("dataset")
def test_another_archive_is_refused(served: Mirror, tmp_path: Path, archive: bytes) -> None:
    served.faults = {f"/{NAME}.zip": [wrong_bytes]}
    found = hashlib.sha256(archive[:-2] + b"9\n").hexdigest()
    expected = TGB_DATASETS[NAME].sha256
    fault = {"address": TGB_DATASETS[NAME].address, "found": found, "expected": expected}
    with raises(DataError, "tgb_datasets.archive", **fault):
        get_dataset(NAME, tmp_path / "out" / NAME)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.usefixtures("dataset")
def test_an_existing_folder_is_refused_before_downloading(served: Mirror, tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with raises(StorageError, "io.exists", path=tmp_path / NAME):
        get_dataset(NAME, tmp_path / NAME)
    assert served.requests == []


@pytest.mark.parametrize(
    ("change", "what", "count"),
    [
        ({"facts": 7}, "facts", 7),
        ({"entities": 1_234}, "entities", 1_234),
        ({"splits": (1, 2, 3)}, "train facts", 1),
    ],
)
def test_other_counts_than_the_published_ones_are_refused(
    change: dict[str, object],
    what: str,
    count: int,
    dataset: TgbDataset,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setitem(TGB_DATASETS, NAME, replace(dataset, **change))
    found = {"facts": 558, "entities": 40, "train facts": 406}[what]
    fault = {"path": folder, "name": NAME, "what": what, "count": f"{count:,}", "found": found}
    with raises(DataError, "tgb_datasets.counts", **fault):
        get_dataset(NAME, tmp_path / NAME, source=folder)
    assert not (tmp_path / NAME).exists()


@pytest.mark.usefixtures("dataset")
def test_data_get_reads_files_that_the_user_has(call: Call, folder: Path) -> None:
    code, out, err = call("data", "get", NAME, "--from", str(folder), "--out", "mine")
    assert (code, err) == (0, "")
    assert "558 facts, every count as published: mine" in out and "Source: Wikidata" in out
    graph = read_folder(Path("mine"))
    assert graph.same_as(read_tgb(folder, NAME, "year"))
    code, out, _ = call("data", "stats", "mine")
    assert code == 0 and "406" in out
    code, _, err = call("data", "get", NAME, "--from", "nowhere", "--out", "other")
    assert code == 2 and message("tgb_reader.no_source", path="nowhere") in err
    code, out, _ = call("data", "list")
    assert code == 0 and "tempograph data get tkgl-wikidata" in out and "15,513,446" in out
