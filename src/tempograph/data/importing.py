"""CSV, TSV and Parquet files of dated events, turned into a dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tempograph.data.graph import COLUMNS, Facts, TemporalGraph
from tempograph.data.sources import file_size
from tempograph.data.tables import Layout, read_batches
from tempograph.data.times import GRANULARITIES, Clock, Granularity, Steps
from tempograph.errors import ConfigError, DataError

Progress = Callable[[int, int], None]
SplitRule = Literal["random", "chronological"]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class ImportOptions:
    """Where the four parts of a fact stand, how its time is written, and how the facts are split.

    Columns are given by name or, for text files without a header, by number from 0. Without a delimiter the suffix
    decides: comma for .csv, tab for .tsv. Without a time format the times are ISO dates or integers, whichever the
    first one is. Integers are steps themselves; dates are put on a grid of the granularity, days if there is none.
    """

    subject: str = "subject"
    relation: str = "relation"
    object: str = "object"
    time: str = "time"
    header: bool = True
    delimiter: str | None = None
    time_format: str | None = None
    granularity: Granularity | None = None
    split: SplitRule = "random"
    valid_share: float = 0.1
    test_share: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if len(set(self.columns)) < len(COLUMNS):
            raise ConfigError(f"subject, relation, object and time must be four columns, found {self.columns}")
        unnumbered = [column for column in self.columns if not (column.isascii() and column.isdigit())]
        if not self.header and unnumbered:
            raise ConfigError(f"without a header, columns are given by number from 0, found '{unnumbered[0]}'")
        if self.delimiter is not None and (
            len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n'
        ):
            raise ConfigError(f"the delimiter must be one ASCII character such as ',', found {self.delimiter!r}")
        _choose("granularity", self.granularity, (None, *GRANULARITIES))
        _choose("split", self.split, get_args(SplitRule))
        if not (self.valid_share >= 0 and self.test_share >= 0 and self.valid_share + self.test_share < 1):
            raise ConfigError(
                "valid_share and test_share must be at least 0 and together below 1, "
                f"found {self.valid_share} and {self.test_share}"
            )
        if self.seed < 0:
            raise ConfigError(f"seed must be at least 0, found {self.seed}")
        Clock(self.time_format, self.granularity)

    @property
    def columns(self) -> tuple[str, str, str, str]:
        """The columns of subject, relation, object and time."""
        return self.subject, self.relation, self.object, self.time


@dataclass(frozen=True, eq=False)
class Imported:
    """A dataset made from files, how many rows they had, and how many of these repeated another one."""

    graph: TemporalGraph
    rows: int
    duplicates: int


def import_table(
    paths: Sequence[Path], options: ImportOptions, name: str, progress: Progress | None = None
) -> Imported:
    """Make one dataset of the rows of several files.

    Entities and relations are numbered in the order in which they first appear, row by row, the subject of a row
    before its object. `progress` is told how many bytes of how many are done, at each fiftieth of a Parquet file and
    each megabyte of a text file.
    """
    if not paths:
        raise DataError("there is no file to import; name at least one")
    sizes = [file_size(path) for path in paths]
    clock, entities, relations = Clock(options.time_format, options.granularity), _Names(), _Names()
    layout = Layout(options.columns, options.header, options.delimiter)
    parts: list[Facts] = []
    for index, path in enumerate(paths):
        for columns, steps, done in read_batches(path, sizes[index], layout, clock):
            subjects, objects = entities.encode_pairs(columns[0], columns[2])
            parts.append(np.stack([subjects, relations.encode(columns[1]), objects, steps], axis=1))
            if progress:
                progress(sum(sizes[:index]) + done, sum(sizes))
    rows = np.concatenate(parts)
    try:
        rows[:, 3], times = clock.grid(rows[:, 3])
    except DataError as error:
        raise DataError(f"{', '.join(str(path) for path in paths)}: {error}") from None
    facts = _sorted_unique(rows)
    train, valid, test = _split(facts, options)
    graph = TemporalGraph(name, tuple(entities.ids), tuple(relations.ids), times, train, valid, test)
    return Imported(graph, len(rows), len(rows) - len(facts))


class _Names:
    """Names and their ids, in the order of first appearance."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def encode(self, names: pa.Array) -> Ids:
        """The id of each name; a name not seen before gets the next one."""
        encoded = names.dictionary_encode()
        # Arrow lists the distinct names in the order in which they appear.
        ids = [self.ids.setdefault(name, len(self.ids)) for name in encoded.dictionary.to_pylist()]
        numbers: Ids = np.array(ids, np.int64)[encoded.indices.to_numpy()]
        return numbers

    def encode_pairs(self, left: pa.Array, right: pa.Array) -> tuple[Ids, Ids]:
        """The ids of two columns, numbered row by row so that they do not depend on where a batch ends."""
        by_row = np.arange(2 * len(left)).reshape(2, -1).T.ravel()
        ids = self.encode(pa.concat_arrays([left, right]).take(pa.array(by_row)))
        return ids[::2], ids[1::2]


def _sorted_unique(facts: Facts) -> Facts:
    """Each fact once, sorted by time, subject, relation and object."""
    facts = facts[np.lexsort((facts[:, 2], facts[:, 1], facts[:, 0], facts[:, 3]))]
    fresh = np.ones(len(facts), bool)
    fresh[1:] = (facts[1:] != facts[:-1]).any(axis=1)
    return facts[fresh]


def _split(facts: Facts, options: ImportOptions) -> tuple[Facts, Facts, Facts]:
    """Train, valid and test facts, each in the order the facts have."""
    count = len(facts)
    test = min(round(count * options.test_share), count - 1)
    valid = min(round(count * options.valid_share), count - 1 - test)
    if options.split == "chronological":
        first, second = _step_ends(facts[:, 3], np.array([count - valid - test, count - test]))
        return facts[:first], facts[first:second], facts[second:]
    shuffled = np.random.Generator(np.random.PCG64(options.seed)).permutation(count)
    train_rows, valid_rows, test_rows = np.split(shuffled, [count - valid - test, count - test])
    return facts[np.sort(train_rows)], facts[np.sort(valid_rows)], facts[np.sort(test_rows)]


def _step_ends(times: Steps, cuts: Steps) -> Steps:
    """For each cut the nearest place at which a time step ends, the later of two, so that no step is torn apart."""
    ends = np.append(np.flatnonzero(np.diff(times)) + 1, len(times))
    nearest: Steps = ends[::-1][np.abs(ends[::-1] - cuts[:, None]).argmin(axis=1)]
    return nearest


def _choose(setting: str, value: str | None, known: Sequence[str | None]) -> None:
    if value not in known:
        names = [name for name in known if name]
        raise ConfigError(f"{setting} must be one of {', '.join(names)}; found '{value}'")
