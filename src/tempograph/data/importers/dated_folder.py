"""Read folders of ids with dates, as HyTE and ATiSE publish facts that hold for a while.

A row is subject, relation, object, start and end: three ids, and two dates such as 1952-##-## or
####-##-##, of which only the year counts. Names are in entities.txt and relations.txt, one per
line, or in entity2id.txt and relation2id.txt, each with its id.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tempograph.data.folder import DATASET_MARKER, read_names
from tempograph.data.graph import INTERVAL_PARTS, TemporalGraph
from tempograph.data.importers.date_formats import DateFormats
from tempograph.data.importers.interval_steps import IntervalSteps
from tempograph.data.importers.partial_dates import Known, parse_bounds
from tempograph.data.importers.sources import open_unpacked, readable
from tempograph.data.importers.time_parsing import Integers
from tempograph.data.spans import Bounds, as_intervals, simplify
from tempograph.errors import DataError
from tempograph.typing import SPLITS

_TIMES: Final = "times.txt"
_YEAR_ALONE: Final = (r"^(-?[0-9#]{1,4})-.*$", r"\1-##-##")
"""Some dates have no such month or day, as in 1963-64-65."""
_NO_END: Final = ("0", "-1")
_MAX_LINE: Final = 10_000
_SUFFIXES: Final = (".tsv", ".tsv.gz", ".txt")


def is_dated_folder(folder: Path) -> bool:
    """Whether a folder holds facts of ids with dates, and no list of time steps."""
    has_names = (folder / DATASET_MARKER).is_file() or (folder / "entity2id.txt").is_file()
    path = _find_split(folder, "train")
    if path is None or not has_names or (folder / _TIMES).exists():
        return False
    with readable(path), open_unpacked(path) as (_, content):
        fields = content.readline(_MAX_LINE).decode(errors="replace").split("\t")
    # Events are published in such folders too: with one time, or a fifth column of zeros.
    return len(fields) == len(INTERVAL_PARTS) and fields[-1].strip() not in _NO_END


def read_dated_folder(folder: Path, name: str | None = None) -> TemporalGraph:
    """The dataset in a folder of ids with dates; steps are years.

    No row is left out, so that figures compare with published ones: a date without a year is
    unknown, and so is an end before the start.
    """
    entities = _read_names(folder, "entities.txt", "entity2id.txt")
    relations = _read_names(folder, "relations.txt", "relation2id.txt")
    tables = [_read_split(folder, split) for split in SPLITS]
    seconds, known, bounds = _read_dates(pa.concat_tables(tables), folder)
    placed = IntervalSteps("year").place(seconds, known, bounds)
    triples = np.column_stack(
        [pa.concat_tables(tables)[part].to_numpy() for part in INTERVAL_PARTS[:3]]
    )
    facts = simplify(as_intervals(np.column_stack([triples, placed.rows])))
    ends = np.cumsum([len(table) for table in tables])[:-1]
    train, valid, test = np.split(facts, ends)
    name = name or folder.resolve().name
    return TemporalGraph(name, entities, relations, placed.labels, train, valid, test)


def _read_dates(table: pa.Table, folder: Path) -> tuple[Integers, Integers, Integers]:
    """The first and last second of facts and what is known of these, [n, 2] each; the bounds."""
    dates = DateFormats(day_first=None)
    columns = []
    for part in ("start", "end"):
        encoded = table[part].combine_chunks().dictionary_encode()
        years = pc.replace_substring_regex(encoded.dictionary, *_YEAR_ALONE)
        found = parse_bounds(years, dates.parse)
        codes = encoded.indices.to_numpy()
        columns.append([each[codes] for each in found])
    (start_known, first, _), (end_known, _, last) = columns
    no_start, no_end = start_known < Known.INTEGER, end_known < Known.INTEGER
    no_end |= ~no_start & (first > last)
    if (no_start & no_end).any():
        row = int(np.argmax(no_start & no_end))
        values = " and ".join(repr(table[part][row].as_py()) for part in ("start", "end"))
        raise DataError(f"{folder}: a fact has neither start nor end: {values}; give one of them")
    known = np.stack(
        [np.where(no_start, Known.UNKNOWN, start_known), np.where(no_end, Known.UNKNOWN, end_known)]
    ).T
    bounds = no_start * Bounds.UNKNOWN_START + no_end * Bounds.UNKNOWN_END
    return np.stack([first, last], axis=1), known, bounds.astype(np.int64)


def _find_split(folder: Path, split: str) -> Path | None:
    """The file of a split, if there is one."""
    paths = (folder / f"{split}{suffix}" for suffix in _SUFFIXES)
    return next((path for path in paths if path.is_file()), None)


def _read_split(folder: Path, split: str) -> pa.Table:
    """The rows of a split: three ids, and start and end as text."""
    path = _find_split(folder, split)
    if path is None:
        raise DataError(f"{folder}: there is no {split}.tsv, {split}.tsv.gz or {split}.txt in it")
    with readable(path):
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
    kinds = [pa.int64()] * 3 + [pa.string()] * 2
    types = dict(zip(INTERVAL_PARTS, kinds, strict=True))
    try:
        return pa.csv.read_csv(
            pa.BufferReader(text),
            read_options=pa.csv.ReadOptions(column_names=INTERVAL_PARTS, use_threads=False),
            parse_options=pa.csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=pa.csv.ConvertOptions(column_types=types),
        )
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{path}: rows must be subject, relation and object as ids, a start and an end, "
            f"separated by tabs ({error})"
        ) from None


def _read_names(folder: Path, by_line: str, by_id: str) -> tuple[str, ...]:
    """The names of ids, from a file with a name per line, or one with names and ids."""
    if (folder / by_line).is_file():
        return read_names(folder / by_line)
    path = folder / by_id
    pairs = [line.rpartition("\t") for line in read_names(path)]
    try:
        names = {int(number): name for name, _, number in pairs}
        return tuple(names[number] for number in range(len(pairs)))
    except (ValueError, KeyError):
        raise DataError(
            f"{path}: each line must be a name and its id, and the ids must be 0 to "
            f"{len(pairs) - 1}"
        ) from None
