"""Read a temporal knowledge graph of TGB 2.0 from the files its authors publish.

The edge list is a CSV file with a header and the columns time, head, tail and relation. Ids, the
time axis and the splits are those that the package `py-tgb` derives from it, but steps are equally
spaced: a year or a day without facts is a step too. Negative samples are published as pickles,
which can run code when they are opened. They are never read.
"""

from __future__ import annotations

import zipfile
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from tempograph.data.graph import TemporalGraph
from tempograph.data.importers.name_ids import Ids, by_row
from tempograph.data.importers.sources import readable
from tempograph.data.importers.time_grid import MAX_STEPS, step_labels
from tempograph.errors import DataError
from tempograph.typing import SPLITS

TgbStep = Literal["year", "day"]
"""The length of a step; datasets by year have names such as Q42, those by day have numbers."""

_TIME_COLUMNS: Final = ("ts", "date", "timestamp")
_COLUMNS: Final = ("head", "tail", "relation_type")
_BLOCK: Final = 1 << 23
_DAY: Final = 86_400
_SHARES: Final = (1 - 0.15 - 0.15, 1 - 0.15)
"""The quantiles of time at which train and valid end, written as in py-tgb."""


def read_tgb(source: Path, name: str, step: TgbStep) -> TemporalGraph:
    """Read a dataset from the folder or archive of its files, or from its edge list."""
    with readable(source):
        place = _find(source, name)
        edges = _read_edges(place / f"{name}_edgelist.csv" if place else source, step)
        entities, relations = _texts(edges.entities), _texts(edges.relations)
        if place and step == "day":
            entities = _named(entities, place / f"{name}_nodemapping.csv")
            relations = _named(relations, place / f"{name}_edgemapping.csv")
    step_of_time, labels = _label(edges.times.to_numpy(), step, source)
    steps = step_of_time[edges.time]
    split = np.searchsorted(last_steps(steps), steps).astype(np.int8)
    columns = (edges.head, edges.relation, edges.tail, steps)
    train, valid, test = (
        np.stack([column[split == number] for column in columns], axis=1)
        for number in range(len(SPLITS))
    )
    return TemporalGraph(name, entities, relations, labels, train, valid, test)


def last_steps(steps: Ids) -> tuple[int, int]:
    """The last steps of train and of valid: 70 and 85% of the facts in order of time.

    As in py-tgb, the quantiles are those of the facts and their inverses together.
    """
    ends = np.cumsum(2 * np.bincount(steps))
    position = np.floor(np.array(_SHARES) * (2 * len(steps) - 1))
    train_end, valid_end = np.searchsorted(ends, position, side="right")
    return int(train_end), int(valid_end)


class _Edges(NamedTuple):
    """The rows of an edge list as ids, [n] each, and the values behind the ids."""

    head: Ids
    relation: Ids
    tail: Ids
    time: Ids
    entities: pa.Array
    relations: pa.Array
    times: pa.Array


def _find(source: Path, name: str) -> Traversable | None:
    """The folder, on disk or in the archive, with the edge list; None if the source is that."""
    if source.is_file() and not zipfile.is_zipfile(source):
        return None
    root: Traversable = zipfile.Path(source) if source.is_file() else source
    # py-tgb unpacks an archive into a folder with underscores in its name.
    for place in (root, root / name.replace("-", "_"), root / name):
        if (place / f"{name}_edgelist.csv").is_file():
            return place
    if not source.exists():
        raise DataError(f"{source}: no such file or folder")
    raise DataError(
        f"{source}: there is no {name}_edgelist.csv in it; name the folder, the archive {name}.zip "
        "or the edge list"
    )


def _read_edges(file: Traversable, step: TgbStep) -> _Edges:
    """Read an edge list in blocks; entities are numbered in order of appearance, as in py-tgb."""
    kind = pa.int64() if step == "day" else pa.string()
    pairs, relation_parts, time_parts = list[pa.Array](), list[pa.Array](), list[pa.Array]()
    with file.open("rb") as content:
        reader = pa.csv.open_csv(
            content,
            # Arrow threads that are still starting when a command ends abort the process.
            read_options=pa.csv.ReadOptions(block_size=_BLOCK, use_threads=False),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(_TIME_COLUMNS, pa.int64())
                | dict.fromkeys(_COLUMNS, kind),
                null_values=[],
                strings_can_be_null=False,
            ),
        )
        first, *others = reader.schema.names
        if first not in _TIME_COLUMNS or tuple(others) != _COLUMNS:
            raise DataError(
                f"{file}: expected the columns {_TIME_COLUMNS[0]} or {_TIME_COLUMNS[1]}, "
                f"{', '.join(_COLUMNS)}, found {', '.join(reader.schema.names)}"
            )
        for time, head, tail, relation in (batch.columns for batch in reader):
            pairs.append(by_row(head, tail).dictionary_encode())
            relation_parts.append(relation.dictionary_encode())
            time_parts.append(time.dictionary_encode())
    if not any(map(len, pairs)):
        raise DataError(f"{file}: the file has no rows, so there are no facts")
    entities, entity = _unify(pairs)
    relations, relation_id = _unify(relation_parts)
    times, time_id = _unify(time_parts)
    if step == "day":
        # Relations have numbers already, and keep their order.
        order = np.argsort(relations.to_numpy())
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        relations, relation_id = relations.take(pa.array(order)), rank[relation_id]
    return _Edges(entity[::2], relation_id, entity[1::2], time_id, entities, relations, times)


def _unify(parts: list[pa.Array]) -> tuple[pa.Array, Ids]:
    """The distinct values of encoded parts in order of appearance, and the id of each value."""
    chunks = pa.chunked_array(parts).unify_dictionaries().chunks
    return chunks[-1].dictionary, np.concatenate([each.indices.to_numpy() for each in chunks])


def _texts(values: pa.Array) -> tuple[str, ...]:
    return tuple(values.cast(pa.string()).to_pylist())


def _label(times: Ids, step: TgbStep, source: Path) -> tuple[Ids, tuple[str, ...]]:
    """The step of each distinct time, counted from the first, and the labels of all steps."""
    # Days are published as the seconds at which they began somewhere: round to the nearest.
    steps = times - 1970 if step == "year" else (times + _DAY // 2) // _DAY
    if len(np.unique(steps)) < len(steps):
        raise DataError(f"{source}: several times are of one day, but each day must have one time")
    first, last = int(steps.min()), int(steps.max())
    if last - first >= MAX_STEPS:
        raise DataError(
            f"{source}: the times run from {times.min()} to {times.max()}, which are not {step}s"
        )
    return steps - first, step_labels(first, last, step)


def _named(numbers: tuple[str, ...], file: Traversable) -> tuple[str, ...]:
    """The names of numbered entities or relations, if there is a file of them.

    Its columns are a name or code, the number, and optionally a text, which is then the name.
    """
    if not file.is_file():
        return numbers
    with file.open("rb") as content:
        table = pa.csv.read_csv(
            content,
            read_options=pa.csv.ReadOptions(use_threads=False, autogenerate_column_names=True),
            convert_options=pa.csv.ConvertOptions(
                column_types={f"f{column}": pa.string() for column in range(3)}
            ),
        )
    columns = [column.to_pylist() for column in table.columns]
    if len(columns) < 2:
        raise DataError(f"{file}: expected a name and a number in each row, found one column")
    by_number = dict(zip(columns[1], columns[2] if len(columns) > 2 else columns[0], strict=True))
    missing = next((number for number in numbers if number not in by_number), None)
    if missing is not None:
        raise DataError(
            f"{file}: {missing} has no name; add it, or remove the file to keep numbers"
        )
    names = tuple(by_number[number] for number in numbers)
    if len(set(names)) < len(names):
        raise DataError(f"{file}: two numbers have one name; remove the file to keep numbers")
    return names
