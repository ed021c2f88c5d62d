"""Downloading a benchmark from a local server that works, and from one that fails in every way."""

from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from messages import message, raises
from mirror import (
    Answer,
    Mirror,
    cut_in_chunk,
    hanging,
    hanging_in_body,
    no_answer,
    reset,
    status,
    truncated,
    whole,
    without_length,
    wrong_bytes,
)
from tempograph.data import downloads
from tempograph.data.benchmarks import BENCHMARKS, Benchmark, Counts, Published, address_of, blob_id
from tempograph.data.folder import read_folder
from tempograph.data.graph import TemporalGraph
from tempograph.data.known_datasets import find_known
from tempograph.data.known_datasets import get_dataset as download
from tempograph.errors import DataError, StorageError
from tempograph.typing import SPLITS

pytest_plugins = ("download_fixtures",)

TEXTS = {
    "entity2id.txt": "Zürich\t2\nAda\xa0\t0\nline\u2028separator\t1\n".encode(),
    "relation2id.txt": b"visit\t1\npraise\t0\n",
    "train.txt": b"0\t1\t2\t0\n1\t0\t2\t3\n2\t0\t0\t1\n",
    "valid.txt": b"0\t1\t1\t2\n",
    "test.txt": b"1\t1\t0\t3\n2\t0\t1\t0\n",
}

OTHER_MIRROR = "set TEMPOGRAPH_MIRROR to another base address"


@pytest.fixture
def tiny(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """A made-up benchmark of six facts, known and served under the name tiny."""
    entry = Benchmark(
        name="tiny",
        description="six facts",
        source="made up",
        first_day=date(2024, 2, 27),
        counts=Counts(entities=3, relations=2, steps=4, train=3, valid=1, test=2),
        files={file: Published(blob_id(text), len(text)) for file, text in TEXTS.items()},
    )
    monkeypatch.setitem(BENCHMARKS, "tiny", entry)
    mirror.serve("tiny", TEXTS)
    return entry


def assert_same(one: TemporalGraph, two: TemporalGraph) -> None:
    assert (one.name, one.entities, one.relations, one.times) == (
        two.name,
        two.entities,
        two.relations,
        two.times,
    )
    for split in SPLITS:
        np.testing.assert_array_equal(one.facts(split), two.facts(split))


def test_blob_ids_are_those_of_git() -> None:
    assert blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert blob_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


@pytest.mark.parametrize(
    ("name", "last"), [("icews14", "2014-12-31"), ("icews05-15", "2015-12-31")]
)
def test_icews_covers_whole_years(name: str, last: str) -> None:
    days = BENCHMARKS[name].days
    assert (days[0][4:], days[-1]) == ("-01-01", last)


def test_gdelt_covers_a_year_from_april() -> None:
    assert (BENCHMARKS["gdelt"].days[0], BENCHMARKS["gdelt"].days[-1]) == (
        "2015-04-01",
        "2016-03-31",
    )


def test_files_come_from_the_authors_unless_a_mirror_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gdelt = BENCHMARKS["gdelt"]
    monkeypatch.setenv("TEMPOGRAPH_MIRROR", "")
    assert address_of(gdelt, "train.txt") == (
        "https://raw.githubusercontent.com/JiapengWu/TeMP/53e90c1e337615cfaa91c2cbfb21e2ed53842104"
        "/interpolation/gdelt/train.txt"
    )
    monkeypatch.setenv("TEMPOGRAPH_MIRROR", "https://example.org/copy/")
    assert address_of(gdelt, "train.txt") == "https://example.org/copy/gdelt/train.txt"


@pytest.mark.usefixtures("tiny")
def test_download_writes_the_graph_it_returns(tmp_path: Path) -> None:
    graph = download("Tiny", tmp_path / "tiny")
    assert graph.entities == ("Ada\xa0", "line\u2028separator", "Zürich")
    assert graph.relations == ("praise", "visit")
    assert graph.times == ("2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01")
    assert graph.train.tolist() == [[0, 1, 2, 0], [1, 0, 2, 3], [2, 0, 0, 1]]
    assert graph.valid.tolist() == [[0, 1, 1, 2]]
    assert graph.test.tolist() == [[1, 1, 0, 3], [2, 0, 1, 0]]
    assert_same(graph, read_folder(tmp_path / "tiny"))
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("answer", [whole, without_length])
def test_progress_counts_the_bytes_of_every_file(
    answer: Answer, mirror: Mirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(downloads, "CHUNK", 8)
    mirror.faults = {path: [answer] for path in mirror.files}
    seen: list[tuple[str, int, int | None]] = []
    download("tiny", tmp_path / "tiny", progress=lambda *step: seen.append(step))
    expected = [
        (file, min(done, len(text)), len(text))
        for file, text in TEXTS.items()
        for done in range(8, len(text) + 8, 8)
    ]
    assert seen == expected


def test_without_length_or_published_size_the_total_is_unknown(
    tiny: Benchmark, mirror: Mirror, tmp_path: Path
) -> None:
    tiny.files["valid.txt"] = Published(blob_id(TEXTS["valid.txt"]))
    mirror.faults = {"/tiny/valid.txt": [without_length]}
    seen: list[tuple[str, int, int | None]] = []
    download("tiny", tmp_path / "tiny", progress=lambda *step: seen.append(step))
    assert ("valid.txt", len(TEXTS["valid.txt"]), None) in seen


def changed(text: bytes) -> bytes:
    """What `wrong_bytes` serves instead of a file."""
    return text[:-2] + b"9\n"


def not_fetched(reason: str) -> Callable[..., str]:
    return partial(message, "downloads.not_fetched", reason=reason)


FAULTS = {
    "not found": (status(404), 1, partial(message, "downloads.status", status=404)),
    "always out of order": (status(503), 3, partial(message, "downloads.status", status=503)),
    "truncated": (
        truncated,
        3,
        partial(message, "downloads.truncated", done=5, total=len(TEXTS["train.txt"])),
    ),
    "reset": (reset, 3, not_fetched("Connection reset by peer")),
    "no answer": (no_answer, 3, not_fetched("Connection reset by peer")),
    "cut in a chunk": (cut_in_chunk, 3, not_fetched("IncompleteRead(0 bytes read)")),
    "hanging": (hanging, 3, not_fetched("timed out")),
    "hanging in the body": (hanging_in_body, 3, not_fetched("timed out")),
    "wrong bytes": (
        wrong_bytes,
        1,
        partial(
            message,
            "benchmarks.not_published",
            found=blob_id(changed(TEXTS["train.txt"])),
            expected=blob_id(TEXTS["train.txt"]),
            way_out=OTHER_MIRROR,
        ),
    ),
}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("answer", "tries", "expected"), FAULTS.values(), ids=FAULTS)
def test_a_permanent_fault_is_named_and_leaves_no_files(
    answer: Answer,
    tries: int,
    expected: Callable[..., str],
    mirror: Mirror,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if answer in (hanging, hanging_in_body):
        monkeypatch.setattr(downloads, "TIMEOUT", 0.3)
    mirror.faults = {"/tiny/train.txt": [answer] * 9}
    with pytest.raises(DataError) as caught:
        download("tiny", tmp_path / "tiny")
    assert str(caught.value) == expected(address=f"{mirror.address}/tiny/train.txt")
    assert mirror.requests.count("/tiny/train.txt") == tries
    assert list(tmp_path.iterdir()) == []


def test_wrong_bytes_are_named_by_their_own_id(
    tiny: Benchmark, mirror: Mirror, tmp_path: Path
) -> None:
    mirror.faults = {"/tiny/test.txt": [wrong_bytes]}
    with raises(
        DataError,
        "benchmarks.not_published",
        address=f"{mirror.address}/tiny/test.txt",
        found=blob_id(changed(TEXTS["test.txt"])),
        expected=tiny.files["test.txt"].blob,
        way_out=OTHER_MIRROR,
    ):
        download("tiny", tmp_path / "tiny")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "answer", [status(500), truncated, reset, no_answer, cut_in_chunk, hanging_in_body]
)
def test_a_temporary_fault_is_retried(
    answer: Answer, mirror: Mirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if answer in (hanging, hanging_in_body):
        monkeypatch.setattr(downloads, "TIMEOUT", 0.3)
    mirror.faults = {"/tiny/train.txt": [answer, answer]}
    graph = download("tiny", tmp_path / "tiny")
    assert mirror.requests.count("/tiny/train.txt") == 3
    assert mirror.requests.count("/tiny/valid.txt") == 1
    assert_same(graph, read_folder(tmp_path / "tiny"))


@pytest.mark.usefixtures("tiny")
def test_there_is_a_pause_before_every_retry(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paused: list[float] = []
    monkeypatch.setattr(downloads, "PAUSES", (1.0, 3.0))
    monkeypatch.setattr(downloads.time, "sleep", paused.append)
    mirror.faults = {"/tiny/train.txt": [status(500)] * 3}
    address = f"{mirror.address}/tiny/train.txt"
    with raises(DataError, "downloads.status", address=address, status=500):
        download("tiny", tmp_path / "tiny")
    assert paused == [1.0, 3.0]


@pytest.mark.usefixtures("tiny")
def test_a_refused_connection_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket() as taken:
        # Bound but not listening: the port is ours, and every connection is refused.
        taken.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("TEMPOGRAPH_MIRROR", base)
        fault = {"address": f"{base}/tiny/entity2id.txt", "reason": "Connection refused"}
        with raises(DataError, "downloads.not_fetched", **fault):
            download("tiny", tmp_path / "tiny")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("base", "reason"),
    [
        ("example.org/copy", "unknown url type: 'example.org/copy/tiny/entity2id.txt'"),
        (
            "http://exa mple.org",
            "URL can't contain control characters. 'exa mple.org' (found at least ' ')",
        ),
        ("http://example.org:port", "nonnumeric port: 'port'"),
    ],
)
def test_an_invalid_mirror_address_is_refused(
    base: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TEMPOGRAPH_MIRROR", base)
    fault = {"address": f"{base}/tiny/entity2id.txt", "reason": reason}
    with raises(DataError, "downloads.not_web", **fault):
        download("tiny", tmp_path / "tiny")


@pytest.mark.usefixtures("tiny")
def test_files_of_a_folder_are_read_and_checked_like_downloaded_ones(
    mirror: Mirror, tmp_path: Path
) -> None:
    source = tmp_path / "published"
    source.mkdir()
    for file, text in TEXTS.items():
        (source / file).write_bytes(text)
    graph = download("tiny", tmp_path / "tiny", source=source)
    assert_same(graph, download("tiny", tmp_path / "downloaded"))
    (source / "train.txt").write_bytes(changed(TEXTS["train.txt"]))
    with raises(
        DataError,
        "benchmarks.not_published",
        address=source / "train.txt",
        found=blob_id(changed(TEXTS["train.txt"])),
        expected=blob_id(TEXTS["train.txt"]),
        way_out="leave out --from to download it",
    ):
        download("tiny", tmp_path / "other", source=source)
    (source / "train.txt").unlink()
    with raises(DataError, "sources.no_file", path=source / "train.txt"):
        download("tiny", tmp_path / "other", source=source)
    assert len(mirror.requests) == len(TEXTS)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("file", ["entity2id.txt", "test.txt"])
def test_an_interrupted_download_leaves_no_files(file: str, tmp_path: Path) -> None:
    def interrupt(current: str, done: int, total: int | None) -> None:
        if current == file:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download("tiny", tmp_path / "tiny", progress=interrupt)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("tiny")
def test_interrupted_writing_leaves_no_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupt(*args: object, **options: object) -> bytes:
        assert len(list(tmp_path.iterdir())) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(gzip, "compress", interrupt)
    with pytest.raises(KeyboardInterrupt):
        download("tiny", tmp_path / "tiny")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("tiny")
def test_a_fault_of_the_progress_display_is_not_blamed_on_the_server(
    mirror: Mirror, tmp_path: Path
) -> None:
    def broken(file: str, done: int, total: int | None) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        download("tiny", tmp_path / "tiny", progress=broken)
    assert mirror.requests == ["/tiny/entity2id.txt"]


@pytest.mark.usefixtures("tiny")
def test_an_existing_folder_is_refused_before_downloading(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "thesis.txt").write_text("not a dataset")
    with raises(StorageError, "io.exists", path=tmp_path / "tiny"):
        download("tiny", tmp_path / "tiny")
    with raises(StorageError, "io.not_ours", path=tmp_path / "tiny", marker="entities.txt"):
        download("tiny", tmp_path / "tiny", overwrite=True)
    assert mirror.requests == []


@pytest.mark.usefixtures("tiny")
def test_overwriting_keeps_the_old_folder_until_the_download_is_complete(
    mirror: Mirror, tmp_path: Path
) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "entities.txt").write_text("old")
    mirror.faults = {"/tiny/test.txt": [wrong_bytes]}
    with raises(
        DataError,
        "benchmarks.not_published",
        address=f"{mirror.address}/tiny/test.txt",
        found=blob_id(changed(TEXTS["test.txt"])),
        expected=blob_id(TEXTS["test.txt"]),
        way_out=OTHER_MIRROR,
    ):
        download("tiny", folder, overwrite=True)
    assert [path.read_text() for path in folder.iterdir()] == ["old"]
    graph = download("tiny", folder, overwrite=True)
    assert_same(graph, read_folder(folder))
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_an_unknown_benchmark_gets_suggestions() -> None:
    assert find_known("GDELT") is BENCHMARKS["gdelt"]
    names = "'icews14' or 'icews05-15'"
    with raises(
        DataError, "suggestions.did_you_mean", kind="benchmark", value="ICEWS-14", names=names
    ):
        find_known("ICEWS-14")
    fault = {"kind": "benchmark", "value": "wikidata", "names": "'wikidata12k' or 'tkgl-wikidata'"}
    with raises(DataError, "suggestions.did_you_mean", **fault):
        find_known("wikidata")
    names = (
        "icews14, icews05-15, gdelt, yago11k, wikidata12k, "
        "tkgl-smallpedia, tkgl-polecat, tkgl-icews, tkgl-wikidata"
    )
    with raises(DataError, "suggestions.choose", kind="benchmark", value="fb15k", names=names):
        find_known("fb15k")


@pytest.mark.parametrize("name", ["icews14", "icews05-15"])
def test_the_published_files_are_accepted(name: str, mirror: Mirror, tmp_path: Path) -> None:
    """The published texts, rebuilt from a dataset folder, have their published ids."""
    local = local_benchmark(name)
    mirror.serve(name, published_texts(local))
    graph = download(name, tmp_path / name)
    assert_same(graph, local)
    counts = BENCHMARKS[name].counts
    assert graph.sizes == (counts.entities, counts.relations, counts.entities, counts.steps)
    assert [len(graph.facts(split)) for split in SPLITS] == [
        counts.train,
        counts.valid,
        counts.test,
    ]
    sizes = {file: len(mirror.files[f"/{name}/{file}"]) for file in BENCHMARKS[name].files}
    assert sizes == {file: published.size for file, published in BENCHMARKS[name].files.items()}


def local_benchmark(name: str) -> TemporalGraph:
    """The benchmark as it lies on this machine; the test is skipped where it does not."""
    data = os.environ.get("TEMPOGRAPH_DATA")
    if not data:
        pytest.skip("TEMPOGRAPH_DATA is not set")
    folder = Path(data) / name
    if not folder.is_dir():
        pytest.skip(f"there is no {name} under TEMPOGRAPH_DATA")
    return read_folder(folder)


def published_texts(graph: TemporalGraph) -> dict[str, bytes]:
    """The five files that the authors of TeMP published, from a dataset read from its folder."""
    texts = {f"{split}.txt": rows_of_ids(graph.facts(split)) for split in SPLITS}
    for file, names in (("entity2id.txt", graph.entities), ("relation2id.txt", graph.relations)):
        texts[file] = "".join(f"{name}\t{number}\n" for number, name in enumerate(names)).encode()
    return texts


def rows_of_ids(facts: np.ndarray) -> bytes:
    return "".join(f"{s}\t{r}\t{o}\t{t}\n" for s, r, o, t in facts.tolist()).encode()
