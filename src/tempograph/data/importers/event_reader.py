"""Coded events, read in batches; rows that are not events are skipped and counted."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tempograph.data.importers.event_formats import Shape, Wanted
from tempograph.data.importers.skipped_rows import FAULTS, RAGGED, Places, Skips
from tempograph.data.importers.sources import readable, texts
from tempograph.data.importers.table_reader import Batch
from tempograph.data.importers.time_parsing import Clock, Mask, Steps
from tempograph.typing import RelationLevel

DATE_FORMAT: Final = "%Y-%m-%d"
"""How dates are written once the ways of the formats are levelled."""

_BLOCK: Final = 1 << 20
# What goes on for longer without a line feed is no row, and must not fill the memory.
_LONGEST: Final = 1 << 24
_TAB, _LINE_FEED = b"\t\n"
# A CAMEO code such as 0311 begins with its base, 031, and its root, 03.
_DIGITS: Final[Mapping[RelationLevel, int]] = {"base": 3, "root": 2}


def read_events(
    path: Path, shapes: Sequence[Shape], wanted: Wanted, clock: Clock, skips: Skips
) -> Iterator[Batch]:
    """The events of a file, its texts one after the other."""
    with readable(path):
        for text, shape in zip(texts(path), shapes, strict=True):
            above = 0
            for block in _blocks(text.content):
                starts, widths = _measure_lines(block)
                lines = above + np.arange(len(starts))
                rows = (widths > 0) & (lines >= shape.above)
                whole = rows & (widths == shape.width)
                skips.add(RAGGED, text.name, lines[rows & ~whole])
                if whole.any():
                    columns, steps, faults = _read_columns(
                        _parse(block, starts, whole, shape), wanted, clock
                    )
                    for number, fault in enumerate(FAULTS):
                        skips.add(fault, text.name, lines[whole][faults == number])
                    events = faults == len(FAULTS)
                    yield (
                        [column.filter(pa.array(events)) for column in columns],
                        steps[events],
                        text.file.tell(),
                    )
                above += len(lines)


def _blocks(content: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """A text in blocks of whole lines, each of which ends with a line feed and has no other line end."""
    while block := content.read(_BLOCK):
        block += content.readline(_LONGEST)
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b" ")
        yield block if block.endswith(b"\n") else block + b"\n"


def _measure_lines(block: bytes) -> tuple[Places, Places]:
    """Where each line of a block begins, and how many columns it has: none if it is blank."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == _LINE_FEED)
    starts = np.append(0, ends[:-1] + 1)
    columns = np.add.reduceat(data == _TAB, starts, dtype=np.int32) + 1
    return starts, np.where(starts == ends, 0, columns)


def _parse(block: bytes, starts: Places, whole: Mask, shape: Shape) -> list[pa.Array]:
    """The wanted columns of those lines of a block that are whole, as bytes.

    Arrow would sort the lines out itself, but stops at one that is neither whole nor UTF-8, and counts no blank ones.
    """
    data = np.frombuffer(block, np.uint8)
    if not whole.all():
        data = data[np.repeat(whole, np.diff(starts, append=len(data)))]
    names = [str(place) for place in range(shape.width)]
    used = [names[place] for place in shape.places]
    table = pa.csv.read_csv(
        pa.BufferReader(pa.py_buffer(data)),
        read_options=pa.csv.ReadOptions(
            block_size=len(data) + 1, use_threads=False, column_names=names
        ),
        parse_options=pa.csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pa.csv.ConvertOptions(
            include_columns=used, column_types=dict.fromkeys(used, pa.binary())
        ),
    )
    return [table.column(name).combine_chunks() for name in used]


def _read_columns(
    fields: Sequence[pa.Array], wanted: Wanted, clock: Clock
) -> tuple[list[pa.Array], Steps, Places]:
    """Subjects, relations, objects and dates as text, the steps of the dates, and each row's fault by number.

    The number of a row without a fault is that of all faults.
    """
    # What is said of a name is said once, however many rows have it.
    encoded = [field.dictionary_encode() for field in fields]
    rows = [field.indices.to_numpy() for field in encoded]
    values = [_clean(field.dictionary) for field in encoded]
    missing = pa.array(wanted.coding.missing)
    steps, dated = clock.steps(pc.replace_substring_regex(values[3], *wanted.coding.date))
    faults = [
        np.any(
            [_mask(value.is_null())[row] for value, row in zip(values, rows, strict=True)], axis=0
        ),
        *(_mask(pc.is_in(values[place], missing))[rows[place]] for place in range(3)),
        ~dated[rows[3]],
    ]
    if wanted.level in _DIGITS:
        values[1] = pc.utf8_slice_codeunits(values[1], 0, _DIGITS[wanted.level])
    columns = [value.take(pa.array(row)) for value, row in zip(values, rows, strict=True)]
    return columns, steps[rows[3]], np.select(faults, range(len(faults)), len(faults))


def _clean(values: pa.Array) -> pa.Array:
    """Bytes as text, less the blanks and the pair of quotation marks around it; null where they are not UTF-8."""
    try:
        decoded = values.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = pa.array([_decode(value) for value in values.to_pylist()], pa.string())
    bare = pc.utf8_trim_whitespace(decoded)
    inside = pc.utf8_trim_whitespace(
        pc.replace_substring(pc.utf8_slice_codeunits(bare, 1, -1), '""', '"')
    )
    return pc.if_else(pc.match_substring_regex(bare, '^".*"$'), inside, bare)


def _decode(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _mask(values: pa.Array) -> Mask:
    mask: Mask = values.to_numpy(zero_copy_only=False)
    return mask
