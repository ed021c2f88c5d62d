"""The temporal knowledge graphs of TGB 2.0: what is published of them, and how to get them."""

from __future__ import annotations

import hashlib
import tempfile
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from tempograph.data.downloads import Downloading, base_address, fetch
from tempograph.data.folder import DATASET_MARKER, write_folder
from tempograph.data.graph import TemporalGraph
from tempograph.data.importers.tgb_reader import TgbStep, read_tgb
from tempograph.errors import DataError
from tempograph.io import make_folder, refuse_existing
from tempograph.typing import SPLITS

PUBLISHED_ARCHIVES: Final = (
    "https://object-arbutus.alliancecan.ca/swift/v1/14c95234f6cd4a21a47deafe20cce2a7/tgb"
)


@dataclass(frozen=True)
class TgbDataset:
    """A dataset of TGB 2.0, with the figures and checksums that are known of it."""

    name: str
    description: str
    source: str
    step: TgbStep
    entities: int
    facts: int
    splits: tuple[int, int, int] | None = None
    """The number of train, valid and test facts."""
    negatives: int | None = None
    """How many sampled candidates an answer is ranked among by TGB's rules; None for all."""
    sha256: str | None = None
    size: int | None = None
    """The checksum and the bytes of the archive."""

    @property
    def address(self) -> str:
        """Where the archive is fetched from."""
        return f"{base_address(PUBLISHED_ARCHIVES)}/{self.name}.zip"


def _read_datasets() -> dict[str, TgbDataset]:
    text = resources.files("tempograph").joinpath("data", "tgb_datasets.toml").read_text("utf-8")
    return {
        name: TgbDataset(name, **entry | {"splits": tuple(entry.get("splits", ())) or None})
        for name, entry in tomllib.loads(text).items()
    }


TGB_DATASETS: Final = _read_datasets()


def get_tgb_dataset(
    dataset: TgbDataset,
    folder: Path,
    overwrite: bool = False,
    progress: Downloading | None = None,
    source: Path | None = None,
) -> TemporalGraph:
    """Write a dataset of TGB 2.0 to a dataset folder, if its counts are those published.

    The archive is downloaded, or `source` is read: a folder, an archive or an edge list.
    """
    refuse_existing(folder, DATASET_MARKER, overwrite)
    if source is not None:
        graph = read_tgb(source, dataset.name, dataset.step)
        _check_counts(dataset, graph, str(source))
    else:
        make_folder(folder.parent)
        # Beside the dataset: an archive may be larger than the memory or disk behind /tmp.
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
            archive = _download(dataset, Path(temporary), progress)
            graph = read_tgb(archive, dataset.name, dataset.step)
        _check_counts(dataset, graph, dataset.address)
    write_folder(graph, folder, overwrite)
    return graph


def _download(dataset: TgbDataset, folder: Path, progress: Downloading | None) -> Path:
    """Download the archive of a dataset, and check it if its checksum is known."""
    archive = folder / f"{dataset.name}.zip"
    with archive.open("w+b") as file:
        fetch(dataset.address, file, progress, dataset.size)
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if dataset.sha256 is not None and found != dataset.sha256:
        raise DataError(
            f"{dataset.address}: not the archive we know (SHA-256 {found}, expected "
            f"{dataset.sha256}); if it is a newer one, download it yourself and pass it with --from"
        )
    return archive


def _check_counts(dataset: TgbDataset, graph: TemporalGraph, place: str) -> None:
    """Refuse a graph whose counts are not those published."""
    splits = [len(graph.facts(split)) for split in SPLITS]
    found = {"facts": sum(splits), "entities": len(graph.entities)}
    expected = {"facts": dataset.facts, "entities": dataset.entities}
    if dataset.splits is not None:
        found |= {f"{split} facts": count for split, count in zip(SPLITS, splits, strict=True)}
        expected |= {
            f"{split} facts": count for split, count in zip(SPLITS, dataset.splits, strict=True)
        }
    for what, count in expected.items():
        if found[what] != count:
            raise DataError(
                f"{place}: not {dataset.name} as published, which has {count:,} {what}, found "
                f"{found[what]:,}; import other tables with 'tempograph data import'"
            )
