"""Find datasets by name or path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tempograph.data.arrow_tables import TableLike
from tempograph.data.benchmarks import Benchmark, Counts
from tempograph.data.folder import DATASET_MARKER, read_folder
from tempograph.data.graph import TemporalGraph
from tempograph.data.importers.any_source import (
    FactSource,
    SplitSources,
    import_facts,
    is_split_folder,
)
from tempograph.data.importers.dated_folder import is_dated_folder, read_dated_folder
from tempograph.data.importers.options import ImportOptions
from tempograph.data.known_datasets import find_known, known_datasets
from tempograph.data.suggestions import did_you_mean
from tempograph.errors import DataError

DEMO: Final = "demo"


@dataclass(frozen=True)
class Available:
    """A known dataset; one without a path is generated (demo) or not downloaded yet."""

    name: str
    path: Path | None
    description: str
    counts: Counts | None = None
    facts: int | None = None


def load_dataset(
    dataset: str | os.PathLike[str] | TemporalGraph | TableLike | SplitSources,
    options: ImportOptions | None = None,
) -> TemporalGraph:
    """Load a dataset by path or name: demo, a benchmark, or a folder under the dataset roots.

    A file of facts, a DataFrame of pandas or polars, a pyarrow Table or anything else with
    `__arrow_c_stream__`, and rows (tuples or dicts) are imported with the options. So are a dict
    with one of these for each of train, valid and test, and a folder with such files. A fact in
    several of these splits stays only in the last of them.
    """
    return load_with_options(dataset, options)[0]


def load_with_options(
    dataset: str | os.PathLike[str] | TemporalGraph | TableLike | SplitSources,
    options: ImportOptions | None = None,
) -> tuple[TemporalGraph, ImportOptions | None]:
    """Load a dataset, and the options that a file or table was imported with, columns included.

    The options of a graph are those given; those of a dataset folder are not known.
    """
    if isinstance(dataset, TemporalGraph):
        return dataset, options
    options = options or ImportOptions()
    if not isinstance(dataset, str | os.PathLike):
        return _import(dataset, options, "table")
    value = os.fspath(dataset)
    with _readable(value):
        path = Path(value)
        # A file without a suffix must not hide a dataset of the same name.
        if path.suffix and path.is_file():
            return _import(path, options, path.name.partition(".")[0])
        return _load(value, options)


def dataset_roots() -> list[Path]:
    """The folders that datasets are looked up in by name, first to last."""
    data = os.environ.get("TEMPOGRAPH_DATA")
    cache = os.environ.get("XDG_CACHE_HOME")
    cached = (Path(cache) if cache else Path.home() / ".cache") / "tempograph" / "datasets"
    return [Path(data), cached] if data else [cached]


def download_target(name: str) -> Path:
    """Where a benchmark is downloaded to."""
    return dataset_roots()[0] / find_known(name).name


def available() -> list[Available]:
    """The demo, all benchmarks, then every other dataset folder under the roots."""
    demo = Available(DEMO, None, "a made-up world, generated in a moment")
    known = known_datasets()
    others = {path.name: path for path in _folders() if path.name not in (DEMO, *known)}
    return [
        demo,
        *(
            Available(
                name,
                _find(name),
                entry.description,
                entry.counts if isinstance(entry, Benchmark) else None,
                entry.facts,
            )
            for name, entry in known.items()
        ),
        *(Available(name, path, "dataset folder") for name, path in sorted(others.items())),
    ]


def _load(value: str, options: ImportOptions) -> tuple[TemporalGraph, ImportOptions | None]:
    path = Path(value)
    # A folder of the same name that is not a dataset, such as a run, must not hide the dataset.
    if value.startswith(".") or "/" in value or (value and _is_dataset(path)):
        if is_split_folder(path) and not is_dated_folder(path):
            return _import(path, options, path.resolve().name)
        return _read(path), None
    folded = value.casefold()
    name = folded if folded in (DEMO, *known_datasets()) else value
    if name == DEMO:
        from tempograph.data.synthetic.world import make_world

        return make_world().graph, None
    found = _find(name)
    if found is not None:
        return _read(found), None
    if value and is_dated_folder(path):
        return _read(path), None
    if value and is_split_folder(path):
        return _import(path, options, path.resolve().name)
    raise _not_found(value, name)


def _read(folder: Path) -> TemporalGraph:
    """The dataset in a folder: with time steps, or as published with dates."""
    return read_dated_folder(folder) if is_dated_folder(folder) else read_folder(folder)


def _import(
    source: FactSource, options: ImportOptions, name: str
) -> tuple[TemporalGraph, ImportOptions | None]:
    imported, _ = import_facts(source, options, name)
    return imported.graph, imported.options


def _is_dataset(path: Path) -> bool:
    return (path / DATASET_MARKER).is_file()


def _find(name: str) -> Path | None:
    for root in dataset_roots():
        with _readable(root):
            if name and (root / name).is_dir():
                return root / name
    return None


def _folders() -> Iterator[Path]:
    # The first root comes last, so that its folders win over those of the same name elsewhere.
    for root in reversed(dataset_roots()):
        with _readable(root):
            if root.is_dir():
                yield from (
                    path
                    for path in root.iterdir()
                    if _is_dataset(path) and not path.name.startswith(".")
                )


def _not_found(value: str, name: str) -> DataError:
    if name in known_datasets():
        return DataError(
            f"{name} is not on this machine; run 'tempograph data get {name}', "
            "or point TEMPOGRAPH_DATA at the folder that holds it"
        )
    if value and Path(value).is_dir():
        return DataError(f"{value}: not a dataset folder; it holds no {DATASET_MARKER}")
    names = [entry.name for entry in available()]
    hint = did_you_mean(value, names) or did_you_mean(value.casefold(), names)
    roots = ", ".join(str(root) for root in dataset_roots())
    return DataError(
        f"there is no dataset '{value}' in the current folder or in {roots}"
        + (hint or "; run 'tempograph data list' to see which there are")
    )


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
