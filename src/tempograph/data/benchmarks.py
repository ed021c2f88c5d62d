"""The published benchmarks: their sizes, and how to download them."""

from __future__ import annotations

import hashlib
import io
import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from http.client import HTTPException, InvalidURL
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError

import numpy as np

from tempograph.data.folder import DATASET_MARKER, write_folder
from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.suggestions import refuse_unknown
from tempograph.errors import DataError
from tempograph.io import refuse_existing

PUBLISHED: Final = "https://raw.githubusercontent.com/JiapengWu/TeMP/53e90c1e337615cfaa91c2cbfb21e2ed53842104/interpolation"
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
        return tuple(
            (self.first_day + timedelta(days=step)).isoformat() for step in range(self.counts.steps)
        )


BENCHMARKS: Final[dict[str, Benchmark]] = {
    "icews14": Benchmark(
        name="icews14",
        description="political events of 2014, by day",
        source="ICEWS; split of Garcia-Duran et al. 2018, as published with TeMP (Wu et al. 2020)",
        first_day=date(2014, 1, 1),
        counts=Counts(entities=7128, relations=230, steps=365, train=72826, valid=8941, test=8963),
        files={
            "entity2id.txt": Published("09dd00bfed7e39791bfaa9155b7334e5ee6ef0ed", 198043),
            "relation2id.txt": Published("015d8b569882551ff387cd7464882d1af4b1da26", 7626),
            "train.txt": Published("7575960c4332882e2d5e2371ebeb0dbbe94678a2", 1235845),
            "valid.txt": Published("5ba4df9997fb28df5414ff349e449e1e68b72e3a", 151797),
            "test.txt": Published("40dcf0e45572e897ff11548c8b9ceb40c1200f71", 152256),
        },
    ),
    "icews05-15": Benchmark(
        name="icews05-15",
        description="political events of 2005 to 2015, by day",
        source="ICEWS; split of Garcia-Duran et al. 2018, as published with TeMP (Wu et al. 2020)",
        first_day=date(2005, 1, 1),
        counts=Counts(
            entities=10488, relations=251, steps=4017, train=368962, valid=46275, test=46092
        ),
        files={
            "entity2id.txt": Published("07da800fa98ff3d5bf1a999941c85c1d51c7a143", 300129),
            "relation2id.txt": Published("61c92013fa7016d5dbcff51011a0abb34f4e5458", 8521),
            "train.txt": Published("59e390bddf89128a3a02ce19098d2441801cb701", 6755730),
            "valid.txt": Published("4f63814dbed050fa87744a6cdec296d7b6f9edb5", 847245),
            "test.txt": Published("fabb641d8f8f90351d4a3547fa935d5ef1048e13", 844206),
        },
    ),
    "gdelt": Benchmark(
        name="gdelt",
        description=(
            "events in the news from April 2015 to March 2016, by day; dense, "
            "entities without names"
        ),
        source="GDELT; subset of Trivedi et al. 2017, as published with TeMP (Wu et al. 2020)",
        first_day=date(2015, 4, 1),
        counts=Counts(
            entities=500, relations=20, steps=366, train=2735685, valid=341961, test=341961
        ),
        files={
            "entity2id.txt": Published("26670afc9eaace521bebfb16b77c53d04b91baff", 3780),
            "relation2id.txt": Published("b77cc104968cae85573eaf6d9872aebaa3c63fe0", 100),
            "train.txt": Published("d5df0f947508e6f36e96e5badceca8bc4e1a8253"),
            "valid.txt": Published("2cccd4aab2a69166e573153448949bcc08bc939a"),
            "test.txt": Published("e54028d760ea3f5c724bb3fa4b14842223dada5e"),
        },
    ),
}


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
    texts = {file: _fetch(benchmark, file, progress or _silent) for file in benchmark.files}
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


def _fetch(benchmark: Benchmark, file: str, progress: Downloading) -> bytes:
    address, published = address_of(benchmark, file), benchmark.files[file]

    def advance(done: int, total: int | None) -> None:
        progress(file, done, published.size if total is None else total)

    content = _fetch_patiently(address, advance)
    found = blob_id(content)
    if found != published.blob:
        raise DataError(
            f"{address}: not the published file (git blob id {found}, expected {published.blob}); "
            "set TEMPOGRAPH_MIRROR to another base address"
        )
    return content


def _fetch_patiently(address: str, advance: Callable[[int, int | None], None]) -> bytes:
    for pause in PAUSES:
        try:
            return _fetch_once(address, advance)
        except _PassingError:
            time.sleep(pause)
    return _fetch_once(address, advance)


def _fetch_once(address: str, advance: Callable[[int, int | None], None]) -> bytes:
    with _explained(address):
        response = urllib.request.urlopen(address, timeout=TIMEOUT)
    content = bytearray()
    with response:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
        while chunk := _read_chunk(response, address):
            content += chunk
            advance(len(content), total)
    # A response that is read in chunks ends early without an error when the server goes away.
    if total is not None and len(content) < total:
        raise _PassingError(
            f"{address}: the connection ended after {len(content)} of {total} bytes; {WAY_OUT}"
        )
    return bytes(content)


def _read_chunk(response: io.BufferedIOBase, address: str) -> bytes:
    with _explained(address):
        return response.read(CHUNK)


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


def _silent(file: str, done: int, total: int | None) -> None:
    """Show nothing."""
