"""All published datasets that are known by name, and the one way to get any of them."""

from __future__ import annotations

from pathlib import Path

from tempograph.data.benchmarks import BENCHMARKS, Benchmark, get_benchmark
from tempograph.data.downloads import Downloading
from tempograph.data.graph import TemporalGraph
from tempograph.data.interval_datasets import (
    INTERVAL_DATASETS,
    IntervalDataset,
    get_interval_dataset,
)
from tempograph.data.suggestions import refuse_unknown
from tempograph.data.tgb_datasets import TGB_DATASETS, TgbDataset, get_tgb_dataset
from tempograph.errors import DataError

KnownDataset = Benchmark | IntervalDataset | TgbDataset


def known_datasets() -> dict[str, KnownDataset]:
    """The published datasets by name."""
    return {**BENCHMARKS, **INTERVAL_DATASETS, **TGB_DATASETS}


def find_known(name: str) -> KnownDataset:
    """The published dataset of that name, in any case."""
    known, folded = known_datasets(), name.casefold()
    if folded not in known:
        refuse_unknown("benchmark", name, known, DataError)
    return known[folded]


def get_dataset(
    name: str,
    folder: Path,
    overwrite: bool = False,
    progress: Downloading | None = None,
    source: Path | None = None,
) -> TemporalGraph:
    """Download a published dataset, or read its files from `source`, and write a dataset folder."""
    dataset = find_known(name)
    if isinstance(dataset, TgbDataset):
        return get_tgb_dataset(dataset, folder, overwrite, progress, source)
    if isinstance(dataset, IntervalDataset):
        return get_interval_dataset(dataset, folder, overwrite, progress, source)
    return get_benchmark(dataset, folder, overwrite, progress, source)
