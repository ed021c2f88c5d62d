"""The dataset folder: names by line; facts as tab-separated ids, plain or gzipped, or Parquet."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from tempograph.data.attributes import Attributes, read_attributes, write_attributes
from tempograph.data.graph import COLUMNS, INTERVAL_PARTS, Facts, TemporalGraph, first_out_of_range
from tempograph.data.parquet_facts import read_parquet_facts, write_parquet_facts
from tempograph.data.spans import (
    EVENT_COLUMNS,
    OPEN,
    UNKNOWN,
    Bounds,
    Integers,
    Spans,
    as_one_kind,
    spans_of,
)
from tempograph.data.stored_files import StoredFiles
from tempograph.errors import DataError
from tempograph.io import atomic_folder
from tempograph.typing import SPLITS, Split

DATASET_MARKER: Final = "entities.txt"
NAME_FILES: Final = ("entities.txt", "relations.txt", "times.txt")
ATTRIBUTES: Final = "attributes.csv"
"""The optional file with attributes of entities."""
MAX_TSV_FACTS: Final = 5_000_000
"""Datasets with more facts are written as Parquet by default."""
_FORMATS: Final = (".tsv", ".tsv.gz", ".parquet")
_MARKS: Final = (OPEN.encode(), UNKNOWN.encode())
"""What a file may have in place of a step."""


def read_folder(path: Path, name: str | None = None) -> TemporalGraph:
    """Read a dataset folder; errors name the file, the line and the value."""
    if not path.is_dir():
        raise DataError(f"{path}: no such dataset folder")
    entities, relations, times = (read_names(path / file) for file in NAME_FILES)
    sizes = (len(entities), len(relations), len(entities), len(times))
    files = [split_file(path, split) for split in SPLITS]
    named = [path / file for file in (*NAME_FILES, ATTRIBUTES) if (path / file).exists()]
    stored = StoredFiles.of([*named, *files])
    train, valid, test = as_one_kind([read_fact_file(file, sizes) for file in files])
    if not len(train):
        raise DataError(f"{split_file(path, 'train')}: the train split has no facts to learn from")
    attributes: Attributes = {}
    if (path / ATTRIBUTES).exists():
        attributes = read_attributes(path / ATTRIBUTES, entities, keep_names=True)
    graph = TemporalGraph(
        name or path.resolve().name, entities, relations, times, train, valid, test, attributes
    )
    object.__setattr__(graph, "files", stored)
    return graph


def write_folder(
    graph: TemporalGraph,
    path: Path,
    overwrite: bool = False,
    compress: bool = True,
    parquet: bool | None = None,
) -> None:
    """Write a dataset folder atomically; without `parquet`, the number of facts decides on it."""
    if parquet is None:
        parquet = sum(len(graph.facts(split)) for split in SPLITS) > MAX_TSV_FACTS
    with atomic_folder(path, DATASET_MARKER, overwrite) as folder:
        names = (graph.entities, graph.relations, graph.times)
        write_name_files(folder, names, graph.attributes, path)
        for split in SPLITS:
            facts = graph.facts(split)
            if parquet:
                write_parquet_facts(folder / f"{split}.parquet", [facts], facts.shape[1])
            else:
                file = folder / (f"{split}.tsv.gz" if compress else f"{split}.tsv")
                file.write_bytes(format_facts(facts, compress))


def store_folder(graph: TemporalGraph, path: Path) -> None:
    """Write a new dataset folder; large files that hold the graph already are linked to."""
    if graph.files is None or not graph.files.share(path):
        write_folder(graph, path)


def write_name_files(
    folder: Path,
    all_names: tuple[Sequence[str], Sequence[str], Sequence[str]],
    attributes: Attributes,
    path: Path,
) -> None:
    """Write the names of entities, relations and times, and attributes if there are some.

    `path` is what the folder is called in messages.
    """
    for name_file, names in zip(NAME_FILES, all_names, strict=True):
        broken = next((name for name in names if "\n" in name), None)
        if broken is not None:
            raise DataError(f"{path / name_file}: the name {broken!r} contains a line break")
        write_names(folder / name_file, names)
    if attributes:
        write_attributes(attributes, all_names[0], folder / ATTRIBUTES)


def split_file(folder: Path, split: Split) -> Path:
    """The file with the facts of a split, in whichever format it is."""
    found = [path for suffix in _FORMATS if (path := folder / f"{split}{suffix}").exists()]
    if not found:
        raise DataError(
            f"{folder / split}.tsv: no such file, nor {split}.tsv.gz or {split}.parquet"
        )
    if len(found) > 1:
        raise DataError(f"{found[0]}: exists beside {found[1].name}; remove one of the two")
    return found[0]


def write_names(path: Path, names: Iterable[str]) -> None:
    """Write names, one in each line."""
    path.write_bytes("".join(f"{name}\n" for name in names).encode())


def read_names(path: Path, may_be_empty: bool = False) -> tuple[str, ...]:
    """The distinct names in the lines of a file."""
    data = _read_bytes(path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None
    # Split on line feeds only: a few names contain other characters that splitlines splits at.
    names = tuple(text.removeprefix("\ufeff").removesuffix("\n").split("\n")) if text else ()
    if all(name.endswith("\r") for name in names):
        names = tuple(name.removesuffix("\r") for name in names)
    if not names and not may_be_empty:
        raise DataError(f"{path}: the file is empty; it must hold at least one name")
    if len(set(names)) < len(names):
        lines: dict[str, int] = {}
        for line, name in enumerate(names, 1):
            if lines.setdefault(name, line) != line:
                raise DataError(
                    f"{path}:{line}: the name '{name}' is on line {lines[name]} already"
                )
    return names


def read_fact_file(path: Path, sizes: tuple[int, int, int, int]) -> Facts:
    """The facts in a file of tab-separated ids, plain or gzipped, or in Parquet, [n, 4 or 6].

    Rows of four ids are events; rows of five have a start and an end, where `..` is an open bound
    and an empty field an unknown one. A Parquet file has a column of ids for each part.
    """
    if path.suffix == ".parquet":
        return read_parquet_facts(path, sizes)
    data = _read_bytes(path)
    if path.suffix == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path}: not a complete gzip file ({error})") from None
    if not data:
        return np.empty((0, EVENT_COLUMNS), np.int64)
    intervals = data.split(b"\n", 1)[0].count(b"\t") == len(INTERVAL_PARTS) - 1
    names = INTERVAL_PARTS if intervals else COLUMNS
    types = {name: pa.string() if name in ("start", "end") else pa.int64() for name in names}
    try:
        table = pa.csv.read_csv(
            io.BytesIO(data),
            # Arrow threads that are still starting when a command ends abort the process.
            read_options=pa.csv.ReadOptions(column_names=names, use_threads=False),
            parse_options=pa.csv.ParseOptions(
                delimiter="\t", quote_char=False, ignore_empty_lines=False
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=types, null_values=[], strings_can_be_null=False
            ),
        )
        triples = [column.to_numpy() for column in table.columns[:3]]
        if intervals:
            facts = np.column_stack([*triples, *_read_spans(path, table, sizes[3])])
        else:
            facts = np.column_stack([*triples, table["time"].to_numpy()])
    except pa.ArrowInvalid as error:
        raise _first_fault(path, data, len(names), str(error)) from None
    faulty = first_out_of_range(facts, sizes)
    if faulty is not None:
        row, column, value, size = faulty
        raise DataError(
            f"{path}:{row + 1}: {column} id {value} is out of range; "
            f"the dataset has ids 0 to {size - 1}"
        )
    return facts


def _read_spans(path: Path, table: pa.Table, num_steps: int) -> Spans:
    """When the facts of a table with the text columns start and end hold."""
    start, end = table["start"], table["end"]
    open_start, open_end = (_equals(bound, OPEN) for bound in (start, end))
    no_start, no_end = (_equals(bound, UNKNOWN) for bound in (start, end))
    nothing = (no_start | open_start) & (no_end | open_end) & (no_start | no_end)
    if nothing.any():
        row = int(np.argmax(nothing))
        raise DataError(f"{path}:{row + 1}: neither start nor end is known; give one of them")
    first = pc.if_else(pa.array(open_start), "0", start)
    last = pc.if_else(pa.array(open_end), str(num_steps - 1), end)
    first, last = (
        pc.if_else(pa.array(no_start), last, first),
        pc.if_else(pa.array(no_end), first, last),
    )
    first, last = (pc.cast(bound, pa.int64()).to_numpy() for bound in (first, last))
    if (first > last).any():
        row = int(np.argmax(first > last))
        raise DataError(f"{path}:{row + 1}: the start {first[row]} is after the end {last[row]}")
    bounds = (
        open_start * Bounds.OPEN_START
        + open_end * Bounds.OPEN_END
        + no_start * Bounds.UNKNOWN_START
        + no_end * Bounds.UNKNOWN_END
    )
    return Spans(first, last, bounds.astype(np.int64))


def _equals(column: pa.ChunkedArray, text: str) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.equal(column, text).to_numpy()
    return found


def _first_fault(path: Path, data: bytes, num_fields: int, message: str) -> DataError:
    """The error of the first faulty line, found by reading line by line."""
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        fields = line.removesuffix(b"\r").split(b"\t")
        if len(fields) != num_fields:
            return DataError(
                f"{path}:{number}: expected {num_fields} tab-separated fields, found {len(fields)}"
            )
        for index, field in enumerate(fields):
            if num_fields > EVENT_COLUMNS and index >= 3 and field in _MARKS:
                continue
            if not field.removeprefix(b"-").isdigit():
                return DataError(
                    f"{path}:{number}: '{field.decode(errors='replace')}' is not an integer id"
                )
            if len(field) > 18:
                return DataError(f"{path}:{number}: id {field.decode()} is out of range")
    return DataError(f"{path}: {message}")


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def format_facts(facts: Facts, compress: bool) -> bytes:
    """Facts as lines of tab-separated ids, gzipped on request; equal facts give equal bytes."""
    sink = io.BytesIO()
    columns = {name: facts[:, index] for index, name in enumerate(COLUMNS)}
    if facts.shape[1] > EVENT_COLUMNS:
        columns = {name: facts[:, index] for index, name in enumerate(COLUMNS[:3])}
        start, end, bounds = spans_of(facts)
        columns["start"] = _bound_texts(start, bounds, Bounds.OPEN_START, Bounds.UNKNOWN_START)
        columns["end"] = _bound_texts(end, bounds, Bounds.OPEN_END, Bounds.UNKNOWN_END)
    table = pa.table(columns)
    options = pa.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    pa.csv.write_csv(table, sink, options)
    text = sink.getvalue()
    # A time stamp would differ every time.
    return gzip.compress(text, compresslevel=4, mtime=0) if compress else text


def _bound_texts(
    steps: Integers, bounds: Integers, open_bound: Bounds, unknown_bound: Bounds
) -> pa.Array:
    """The fields of bounds in a file."""
    texts = pc.if_else(pa.array((bounds & open_bound) > 0), OPEN, pc.cast(pa.array(steps), "str"))
    return pc.if_else(pa.array((bounds & unknown_bound) > 0), UNKNOWN, texts)
