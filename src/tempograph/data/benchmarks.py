"""The published benchmarks: their sizes, and how to download them."""

from __future__ import annotations

import hashlib
import io
import os
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from http.client import HTTPException, InvalidURL
from importlib import resources
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError

import numpy as np

from tempograph.data.folder import DATASET_MARKER, write_folder
from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.suggestions import refuse_unknown
from tempograph.errors import DataError
from tempograph.io import refuse_existing

PUBLISHED: Final = (
    "https://raw.githubusercontent.com/JiapengWu/TeMP/"
    "53e90c1e337615cfaa91c2cbfb21e2ed53842104/interpolation"
)
TIMEOUT: Final[float] = 30.0
PAUSES: Final[tuple[float, ...]] = (1.0, 3.0)
"""Seconds between attempts; there is one attempt more than pauses."""
CHUNK: Final[int] = 1 << 16
WAY_OUT: Final = (
    "try again later, or set TEMPOGRAPH_MIRROR to another base address of the same files"
)

Downloading = Callable[[str, int, int | None], None]
"""Called with the file, the bytes received and, if known, the bytes in all."""


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


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of that name, in any case."""
    folded = name.casefold()
    if folded not in BENCHMARKS:
        refuse_unknown("benchmark", name, BENCHMARKS, DataError)
    return BENCHMARKS[folded]


def download(
    name: str, folder: Path, overwrite: bool = False, progress: Downloading | None = None
) -> TemporalGraph:
    """Download a benchmark to a dataset folder, if every file is the published one."""
    benchmark = find_benchmark(name)
    refuse_existing(folder, DATASET_MARKER, overwrite)
    texts = {file: _fetch(benchmark, file, progress) for file in benchmark.files}
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
    base = os.environ.get("TEMPOGRAPH_MIRROR") or PUBLISHED
    return f"{base.rstrip('/')}/{benchmark.name}/{file}"


def blob_id(content: bytes) -> str:
    """The id git gives a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class _PassingError(DataError):
    """A problem that may be gone at the next attempt."""


def _fetch(benchmark: Benchmark, file: str, progress: Downloading | None) -> bytes:
    address, published = address_of(benchmark, file), benchmark.files[file]

    def advance(done: int, total: int | None) -> None:
        if progress:
            progress(file, done, published.size if total is None else total)

    for pause in (*PAUSES, None):
        try:
            content = _fetch_once(address, advance)
            break
        except _PassingError:
            if pause is None:
                raise
            time.sleep(pause)
    if (blob := blob_id(content)) != published.blob:
        raise DataError(
            f"{address}: not the published file (git blob id {blob}, expected {published.blob}); "
            "set TEMPOGRAPH_MIRROR to another base address"
        )
    return content


def _fetch_once(address: str, advance: Callable[[int, int | None], None]) -> bytes:
    with _explained(address):
        response = urllib.request.urlopen(address, timeout=TIMEOUT)
    content = bytearray()
    with response:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
        while True:
            with _explained(address):
                chunk = response.read(CHUNK)
            if not chunk:
                break
            content += chunk
            advance(len(content), total)
    # A response that is read in chunks ends early without an error when the server goes away.
    if total is not None and len(content) < total:
        raise _PassingError(
            f"{address}: the connection ended after {len(content)} of {total} bytes; {WAY_OUT}"
        )
    return bytes(content)


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """Turn network errors into a one-line DataError, and mark those worth another attempt."""
    try:
        yield
    except HTTPError as error:
        error.close()
        kind = _PassingError if error.code >= 500 else DataError
        raise kind(
            f"{address}: the server answered with HTTP status {error.code}; {WAY_OUT}"
        ) from None
    except (ValueError, InvalidURL) as error:
        raise DataError(
            f"{address}: not a web address ({error}); check TEMPOGRAPH_MIRROR"
        ) from None
    except (OSError, HTTPException) as error:
        cause = error.reason if isinstance(error, URLError) else error
        reason = getattr(cause, "strerror", None) or cause
        raise _PassingError(f"{address}: cannot be fetched ({reason}); {WAY_OUT}") from None


def _names_by_id(text: bytes) -> tuple[str, ...]:
    # Split on line feeds only: a few names contain other characters that splitlines splits at.
    pairs = (line.rsplit("\t", 1) for line in text.decode().removesuffix("\n").split("\n"))
    names = {int(number): name for name, number in pairs}
    return tuple(names[number] for number in range(len(names)))


def _facts(text: bytes) -> Facts:
    return np.loadtxt(io.BytesIO(text), dtype=np.int64, delimiter="\t", ndmin=2)
