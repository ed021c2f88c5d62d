"""The benchmarks published with TeMP: their sizes, and how to get their files."""

from __future__ import annotations

import hashlib
import io
import tomllib
from dataclasses import dataclass
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np

from tempograph.data.downloads import Downloading, base_address, fetch
from tempograph.data.folder import DATASET_MARKER, write_folder
from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.importers.sources import readable
from tempograph.errors import DataError
from tempograph.io import refuse_existing

PUBLISHED: Final = (
    "https://raw.githubusercontent.com/JiapengWu/TeMP/"
    "53e90c1e337615cfaa91c2cbfb21e2ed53842104/interpolation"
)


@dataclass(frozen=True)
class Published:
    """A published file: its git blob id and, if known, its size in bytes."""

    blob: str
    size: int | None = None


@dataclass(frozen=True)
class Counts:
    """The sizes of a dataset."""

    entities: int
    relations: int
    steps: int
    train: int
    valid: int
    test: int


@dataclass(frozen=True)
class Benchmark:
    """A published dataset whose time steps are days."""

    name: str
    description: str
    source: str
    first_day: date
    counts: Counts
    files: dict[str, Published]

    @property
    def facts(self) -> int:
        """The number of facts."""
        return self.counts.train + self.counts.valid + self.counts.test

    @property
    def days(self) -> tuple[str, ...]:
        """The label of every time step."""
        days = np.datetime64(self.first_day) + np.arange(self.counts.steps)
        return tuple(np.datetime_as_string(days).tolist())


def _read_benchmarks() -> dict[str, Benchmark]:
    text = resources.files("tempograph").joinpath("data", "benchmarks.toml").read_text("utf-8")
    return {
        name: Benchmark(
            name,
            entry["description"],
            entry["source"],
            entry["first_day"],
            Counts(*entry["counts"]),
            {file: Published(**published) for file, published in entry["files"].items()},
        )
        for name, entry in tomllib.loads(text).items()
    }


BENCHMARKS: Final = _read_benchmarks()


def get_benchmark(
    benchmark: Benchmark,
    folder: Path,
    overwrite: bool = False,
    progress: Downloading | None = None,
    source: Path | None = None,
) -> TemporalGraph:
    """Write a benchmark to a dataset folder, if every file is the published one.

    The files are downloaded, or read from the folder `source`.
    """
    refuse_existing(folder, DATASET_MARKER, overwrite)
    texts = {file: _published_text(benchmark, file, progress, source) for file in benchmark.files}
    graph = TemporalGraph(
        name=benchmark.name,
        entities=_names_by_id(texts["entity2id.txt"]),
        relations=_names_by_id(texts["relation2id.txt"]),
        times=benchmark.days,
        train=_facts(texts["train.txt"]),
        valid=_facts(texts["valid.txt"]),
        test=_facts(texts["test.txt"]),
    )
    write_folder(graph, folder, overwrite)
    return graph


def address_of(benchmark: Benchmark, file: str) -> str:
    """Where a file of a benchmark is fetched from."""
    return f"{base_address(PUBLISHED)}/{benchmark.name}/{file}"


def blob_id(content: bytes) -> str:
    """The id git gives a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _published_text(
    benchmark: Benchmark, file: str, progress: Downloading | None, source: Path | None
) -> bytes:
    """A file of a benchmark, downloaded or read, if it is the published one."""
    published = benchmark.files[file]
    if source is None:
        place = address_of(benchmark, file)
        way_out = "set TEMPOGRAPH_MIRROR to another base address"
        sink = io.BytesIO()
        fetch(place, sink, progress, published.size)
        content = sink.getvalue()
    else:
        place = str(source / file)
        way_out = "leave out --from to download it"
        with readable(source / file):
            content = (source / file).read_bytes()
    if (blob := blob_id(content)) != published.blob:
        raise DataError(
            f"{place}: not the published file (git blob id {blob}, expected {published.blob}); "
            f"{way_out}"
        )
    return content


def _names_by_id(text: bytes) -> tuple[str, ...]:
    # Split on line feeds only: a few names contain other characters that splitlines splits at.
    pairs = (line.rsplit("\t", 1) for line in text.decode().removesuffix("\n").split("\n"))
    names = {int(number): name for name, number in pairs}
    return tuple(names[number] for number in range(len(names)))


def _facts(text: bytes) -> Facts:
    return np.loadtxt(io.BytesIO(text), dtype=np.int64, delimiter="\t", ndmin=2)
