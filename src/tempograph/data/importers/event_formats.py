"""Coded events as ICEWS and GDELT publish them: their columns, and how to recognise them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tempograph.data.importers.sources import readable, texts
from tempograph.errors import DataError
from tempograph.typing import EntityField, EventFormat, RelationLevel

_HEAD_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class EventSchema:
    """The columns of a format: actors by kind of entity, relations by level, and the date.

    `date` is a pattern of dates other than 2014-01-31, and its replacement by such a date.
    `missing` lists the spellings of an empty name.
    """

    title: str
    actors: Mapping[EntityField, tuple[str, str]]
    relations: Mapping[RelationLevel, str]
    time: str
    date: tuple[str, str]
    missing: tuple[str, ...] = ("",)


EVENT_SCHEMAS: Final[Mapping[EventFormat, EventSchema]] = {
    "icews": EventSchema(
        title="an ICEWS file of coded events",
        actors={"name": ("Source Name", "Target Name")},
        relations={
            "text": "Event Text",
            "full": "CAMEO Code",
            "base": "CAMEO Code",
            "root": "CAMEO Code",
        },
        time="Event Date",
        # The events of 2017 have American dates, no codes, and NULL for unknown values.
        date=(r"^(\d{1,2})/(\d{1,2})/(\d{4})$", r"\3-\1-\2"),
        missing=("", "NULL"),
    ),
    "gdelt": EventSchema(
        title="a GDELT event export",
        actors={"name": ("Actor1Name", "Actor2Name"), "code": ("Actor1Code", "Actor2Code")},
        relations={"full": "EventCode", "base": "EventBaseCode", "root": "EventRootCode"},
        time="SQLDATE",
        date=(r"^(\d{4})(\d\d)(\d\d)$", r"\1-\2-\3"),
    ),
}
# GDELT has no header: 57 columns up to March 2013, then 58, 61 in version 2.0; the first 35 agree.
_GDELT_WIDTHS: Final = (57, 58, 61)
_GDELT_POSITIONS: Final = {
    "SQLDATE": 1,
    "Actor1Code": 5,
    "Actor1Name": 6,
    "Actor2Code": 15,
    "Actor2Name": 16,
    "EventCode": 26,
    "EventBaseCode": 27,
    "EventRootCode": 28,
}


@dataclass(frozen=True)
class EventColumns:
    """Which columns of a format become subject, relation, object and time."""

    format: EventFormat
    entity: EntityField
    level: RelationLevel

    @property
    def schema(self) -> EventSchema:
        """The schema of the format."""
        return EVENT_SCHEMAS[self.format]

    @property
    def names(self) -> tuple[str, str, str, str]:
        """The columns of subject, relation, object and time."""
        subject, object_ = self.schema.actors[self.entity]
        return subject, self.schema.relations[self.level], object_, self.schema.time


@dataclass(frozen=True)
class EventLayout:
    """The number of columns of a text, the positions of the four used, and its header lines."""

    width: int
    positions: tuple[int, ...]
    header_lines: int = 0


def detect_format(path: Path) -> EventFormat | None:
    """The event format of a file's first lines, if it is one."""
    with readable(path), closing(texts(path)) as files:
        text = next(files)
        lines = _lines(text.content.read(_HEAD_BYTES))
    if not lines:
        raise DataError(f"{text.name}: the file is empty, so there is nothing to import")
    header = _header(lines)
    if all(column.casefold() in header for column in EVENT_SCHEMAS["icews"].actors["name"]):
        return "icews"
    rows = [line.split(b"\t") for line in lines]
    dates = [row[_GDELT_POSITIONS["SQLDATE"]] for row in rows if len(row) in _GDELT_WIDTHS]
    return "gdelt" if any(re.fullmatch(rb"\d{8}", date) for date in dates) else None


def find_layouts(path: Path, columns: EventColumns) -> list[EventLayout]:
    """The layout of each text in a file; a text in another format is refused."""
    with readable(path):
        return [
            _find_layout(text.name, text.content.read(_HEAD_BYTES), columns) for text in texts(path)
        ]


def _find_layout(name: str, head: bytes, columns: EventColumns) -> EventLayout:
    title = columns.schema.title
    lines = _lines(head)
    if not any(lines):
        raise DataError(f"{name}: the file is empty, so there is nothing to import")
    if b"\0" in head:
        raise DataError(f"{name}: is not {title}: it is not a text file")
    if columns.format == "gdelt":
        counts = Counter(line.count(b"\t") + 1 for line in lines if line).most_common()
        width = next((width for width, _ in counts if width in _GDELT_WIDTHS), None)
        if width is None:
            *others, last = map(str, _GDELT_WIDTHS)
            raise DataError(
                f"{name}: is not {title}: expected {', '.join(others)} or {last} "
                f"tab-separated columns, found {counts[0][0]}"
            )
        return EventLayout(width, tuple(_GDELT_POSITIONS[column] for column in columns.names))
    header = _header(lines)
    for column in columns.names:
        if column.casefold() not in header:
            only_texts = "; use relation level 'text'"
            hint = only_texts if column == "CAMEO Code" else f", so it is not {title}"
            raise DataError(f"{name}: the header has no column '{column}'{hint}")
    return EventLayout(
        len(header),
        tuple(header.index(column.casefold()) for column in columns.names),
        header_lines=next(number for number, line in enumerate(lines, 1) if line),
    )


def _lines(head: bytes) -> list[bytes]:
    """The lines of the first bytes of a text, except a truncated last one."""
    lines = head.splitlines()
    return lines[:-1] if len(head) == _HEAD_BYTES and len(lines) > 1 else lines


def _header(lines: list[bytes]) -> list[str]:
    """The columns in the first line, in lower case."""
    first = next(filter(None, lines), b"").decode("utf-8-sig", "replace")
    return [name.strip(' "').casefold() for name in first.split("\t")]
