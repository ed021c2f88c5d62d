"""The published datasets of facts that hold for a while: their sizes, and how to get them."""

from __future__ import annotations

import tempfile
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from tempograph.data.downloads import Downloading, base_address, fetch
from tempograph.data.folder import DATASET_MARKER, write_folder
from tempograph.data.graph import TemporalGraph
from tempograph.data.importers.dated_folder import is_dated_folder, read_dated_folder
from tempograph.errors import DataError
from tempograph.io import make_folder, refuse_existing
from tempograph.typing import SPLITS

PUBLISHED_FOLDERS: Final = (
    "https://raw.githubusercontent.com/soledad921/ATISE/711e2136e10b54acbdd7a69ad7822837ce5c44c8"
)
FILES: Final = ("entity2id.txt", "relation2id.txt", "train.txt", "valid.txt", "test.txt")


@dataclass(frozen=True)
class IntervalDataset:
    """A published dataset of facts with a start and an end, whose time steps are years."""

    name: str
    description: str
    source: str
    folder: str
    """The folder of its files in the repository that publishes them."""
    entities: int
    relations: int
    splits: tuple[int, int, int]
    """The number of train, valid and test facts."""

    @property
    def facts(self) -> int:
        """The number of facts."""
        return sum(self.splits)

    @property
    def address(self) -> str:
        """The folder that its files are fetched from."""
        return f"{base_address(PUBLISHED_FOLDERS)}/{self.folder}"


def _read_datasets() -> dict[str, IntervalDataset]:
    file = resources.files("tempograph").joinpath("data", "interval_datasets.toml")
    return {
        name: IntervalDataset(name, **entry | {"splits": tuple(entry["splits"])})
        for name, entry in tomllib.loads(file.read_text("utf-8")).items()
    }


INTERVAL_DATASETS: Final = _read_datasets()


def get_interval_dataset(
    dataset: IntervalDataset,
    folder: Path,
    overwrite: bool = False,
    progress: Downloading | None = None,
    source: Path | None = None,
) -> TemporalGraph:
    """Write a dataset to a dataset folder, if its counts are those published.

    Its files are downloaded, or read from the folder `source`; ids are those of the files.
    """
    refuse_existing(folder, DATASET_MARKER, overwrite)
    if source is not None:
        if not is_dated_folder(source):
            raise DataError(
                f"{source}: not the files of {dataset.name}; name the folder that holds "
                f"{', '.join(FILES)}"
            )
        graph = read_dated_folder(source, dataset.name)
        _check_counts(dataset, graph, str(source))
    else:
        make_folder(folder.parent)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
            for file in FILES:
                with (Path(temporary) / file).open("wb") as sink:
                    fetch(f"{dataset.address}/{file}", sink, progress, None)
            graph = read_dated_folder(Path(temporary), dataset.name)
        _check_counts(dataset, graph, dataset.address)
    write_folder(graph, folder, overwrite)
    return graph


def _check_counts(dataset: IntervalDataset, graph: TemporalGraph, place: str) -> None:
    """Refuse a graph whose counts are not those published."""
    found = {"entities": len(graph.entities), "relations": len(graph.relations)}
    expected = {"entities": dataset.entities, "relations": dataset.relations}
    for split, count in zip(SPLITS, dataset.splits, strict=True):
        found[f"{split} facts"], expected[f"{split} facts"] = len(graph.facts(split)), count
    for what, count in expected.items():
        if found[what] != count:
            raise DataError(
                f"{place}: not {dataset.name} as published, which has {count:,} {what}, found "
                f"{found[what]:,}; import other tables with 'tempograph data import'"
            )
