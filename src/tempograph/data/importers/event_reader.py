"""Read coded events in batches; rows that are not events are skipped and counted."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tempograph.data.importers.bad_rows import EVENT_FAULTS, WRONG_WIDTH, Positions, SkipCounter
from tempograph.data.importers.event_formats import EventColumns, EventLayout
from tempograph.data.importers.row_checks import Batch
from tempograph.data.importers.sources import readable, texts
from tempograph.data.importers.time_grid import TimeGrid
from tempograph.data.importers.time_parsing import Integers, Mask, to_mask
from tempograph.typing import RelationLevel

DATE_FORMAT: Final = "%Y-%m-%d"
"""The format of dates once those of the event formats are converted."""

_BLOCK: Final = 1 << 20
# A longer line without a line feed is not a row and must not fill the memory.
_MAX_LINE: Final = 1 << 24
_TAB, _LINE_FEED = b"\t\n"
# A CAMEO code such as 0311 starts with its base, 031, and its root, 03.
_CODE_LENGTH: Final[Mapping[RelationLevel, int]] = {"base": 3, "root": 2}


def read_events(
    path: Path,
    layouts: Sequence[EventLayout],
    columns: EventColumns,
    grid: TimeGrid,
    skips: SkipCounter,
) -> Iterator[Batch]:
    """The events of a file, text by text; each text has its layout."""
    with readable(path):
        for text, layout in zip(texts(path), layouts, strict=True):
            lines_before = 0
            for block in _blocks(text.content):
                starts, widths = _measure_lines(block)
                lines = lines_before + np.arange(len(starts))
                lines_before += len(lines)
                rows = (widths > 0) & (lines >= layout.header_lines)
                complete = rows & (widths == layout.width)
                skips.add(WRONG_WIDTH, Path(text.name), lines[rows & ~complete])
                if not complete.any():
                    continue
                fields = _parse(block, starts, complete, layout)
                values, steps, faults = _convert(fields, columns, grid)
                for number, fault in enumerate(EVENT_FAULTS):
                    skips.add(fault, Path(text.name), lines[complete][faults == number])
                valid = faults == len(EVENT_FAULTS)
                events = [value.filter(pa.array(valid)) for value in values[:3]]
                yield events, steps[valid], text.file.tell()


def _blocks(content: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """A text in blocks of whole lines, each ended by a line feed and without other line ends."""
    while block := content.read(_BLOCK):
        block += content.readline(_MAX_LINE)
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b" ")
        yield block if block.endswith(b"\n") else block + b"\n"


def _measure_lines(block: bytes) -> tuple[Positions, Positions]:
    """Where each line of a block starts, and its number of columns: 0 if it is blank."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == _LINE_FEED)
    starts = np.append(0, ends[:-1] + 1)
    columns = np.add.reduceat(data == _TAB, starts, dtype=np.int32) + 1
    return starts, np.where(starts == ends, 0, columns)


def _parse(block: bytes, starts: Positions, complete: Mask, layout: EventLayout) -> list[pa.Array]:
    """The four used columns of the complete lines of a block, as bytes.

    Arrow could drop incomplete lines itself, but it stops at one that is not UTF-8 either, and does
    not count blank ones.
    """
    data = np.frombuffer(block, np.uint8)
    if not complete.all():
        data = data[np.repeat(complete, np.diff(starts, append=len(data)))]
    names = [str(position) for position in range(layout.width)]
    used = [names[position] for position in layout.positions]
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


def _convert(
    fields: Sequence[pa.Array], columns: EventColumns, grid: TimeGrid
) -> tuple[list[pa.Array], Integers, Positions]:
    """Subjects, relations, objects and dates as text, the steps, and the fault of each row.

    A fault is an index of `EVENT_FAULTS`, or its length for a valid row.
    """
    # Check each distinct value once, however many rows have it.
    encoded = [field.dictionary_encode() for field in fields]
    codes = [field.indices.to_numpy() for field in encoded]
    values = [_to_text(field.dictionary) for field in encoded]
    missing = pa.array(columns.schema.missing)
    steps, dated = grid.steps(pc.replace_substring_regex(values[3], *columns.schema.date))
    pairs = list(zip(values, codes, strict=True))
    faults = [
        np.any([to_mask(value.is_null())[code] for value, code in pairs], axis=0),
        *(to_mask(pc.is_in(value, missing))[code] for value, code in pairs[:3]),
        ~dated[codes[3]],
    ]
    if columns.level in _CODE_LENGTH:
        values[1] = pc.utf8_slice_codeunits(values[1], 0, _CODE_LENGTH[columns.level])
    texts = [value.take(pa.array(code)) for value, code in zip(values, codes, strict=True)]
    return texts, steps[codes[3]], np.select(faults, range(len(faults)), len(faults))


def _to_text(values: pa.Array) -> pa.Array:
    """Bytes as text without surrounding blanks and quotation marks; null if not UTF-8."""
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
