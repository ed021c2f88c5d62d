"""Files of coded events as ICEWS and GDELT publish them: what is where in them, and what their first lines tell."""

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

_HEAD: Final = 1 << 16


@dataclass(frozen=True)
class Coding:
    """The columns of both actors, the relation and the date of an event, by what an entity and a relation may be.

    `date` is how a date may be written other than 2014-01-31, and how that becomes such a date; `missing` is how an
    empty name may be written.
    """

    title: str
    actors: Mapping[EntityField, tuple[str, str]]
    relations: Mapping[RelationLevel, str]
    time: str
    date: tuple[str, str]
    missing: tuple[str, ...] = ("",)


CODINGS: Final[Mapping[EventFormat, Coding]] = {
    "icews": Coding(
        title="an ICEWS file of coded events",
        actors={"name": ("Source Name", "Target Name")},
        relations={
            "text": "Event Text",
            "full": "CAMEO Code",
            "base": "CAMEO Code",
            "root": "CAMEO Code",
        },
        time="Event Date",
        # The events of 2017 came out with American dates, without codes, and with NULL for what is not known.
        date=(r"^(\d{1,2})/(\d{1,2})/(\d{4})$", r"\3-\1-\2"),
        missing=("", "NULL"),
    ),
    "gdelt": Coding(
        title="a GDELT event export",
        actors={"name": ("Actor1Name", "Actor2Name"), "code": ("Actor1Code", "Actor2Code")},
        relations={"full": "EventCode", "base": "EventBaseCode", "root": "EventRootCode"},
        time="SQLDATE",
        date=(r"^(\d{4})(\d\d)(\d\d)$", r"\1-\2-\3"),
    ),
}
# GDELT has no header: 57 columns up to March 2013, 58 since then, 61 in version 2.0, and all alike in the first 35.
_GDELT_WIDTHS: Final = (57, 58, 61)
_GDELT_PLACES: Final = {
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
class Wanted:
    """What of the events of a format becomes the parts of a fact."""

    format: EventFormat
    entity: EntityField
    level: RelationLevel

    @property
    def coding(self) -> Coding:
        """What is where in the format."""
        return CODINGS[self.format]

    @property
    def columns(self) -> tuple[str, str, str, str]:
        """The columns of subject, relation, object and time."""
        subject, object_ = self.coding.actors[self.entity]
        return subject, self.coding.relations[self.level], object_, self.coding.time


@dataclass(frozen=True)
class Shape:
    """How many columns a text has, where the four that are wanted stand, and how many lines lie above its rows."""

    width: int
    places: tuple[int, ...]
    above: int = 0


def guess_format(path: Path) -> EventFormat | None:
    """The format that the first lines of a file are in, if it is one of these."""
    with readable(path), closing(texts(path)) as found:
        text = next(found)
        lines = _lines(text.content.read(_HEAD))
    if not lines:
        raise DataError(f"{text.name}: the file is empty, so there is nothing to import")
    header = _header(lines)
    if all(column.casefold() in header for column in CODINGS["icews"].actors["name"]):
        return "icews"
    rows = [line.split(b"\t") for line in lines]
    dates = [row[_GDELT_PLACES["SQLDATE"]] for row in rows if len(row) in _GDELT_WIDTHS]
    return "gdelt" if any(re.fullmatch(rb"\d{8}", date) for date in dates) else None


def find_shapes(path: Path, wanted: Wanted) -> list[Shape]:
    """The shape of each text in a file, as its first lines tell; a text that is not of the format is refused."""
    with readable(path):
        return [_find_shape(text.name, text.content.read(_HEAD), wanted) for text in texts(path)]


def _find_shape(name: str, head: bytes, wanted: Wanted) -> Shape:
    title = wanted.coding.title
    lines = _lines(head)
    if not any(lines):
        raise DataError(f"{name}: the file is empty, so there is nothing to import")
    if b"\0" in head:
        raise DataError(f"{name}: is not {title}, nor any other text")
    if wanted.format == "gdelt":
        widths = [
            width
            for width, _ in Counter(line.count(b"\t") + 1 for line in lines if line).most_common()
        ]
        known = [width for width in widths if width in _GDELT_WIDTHS]
        if not known:
            *most, last = _GDELT_WIDTHS
            expected = f"{', '.join(str(width) for width in most)} or {last}"
            raise DataError(
                f"{name}: is not {title}: expected {expected} tab-separated columns, found {widths[0]}"
            )
        return Shape(known[0], tuple(_GDELT_PLACES[column] for column in wanted.columns))
    header = _header(lines)
    for column in wanted.columns:
        if column.casefold() not in header:
            way_out = (
                "; its relations can only be texts"
                if column == "CAMEO Code"
                else f", so it is not {title}"
            )
            raise DataError(f"{name}: the header has no column '{column}'{way_out}")
    places = tuple(header.index(column.casefold()) for column in wanted.columns)
    return Shape(
        len(header), places, above=next(number for number, line in enumerate(lines, 1) if line)
    )


def _lines(head: bytes) -> list[bytes]:
    """The lines of the first bytes of a text, without one that is cut off."""
    lines = head.splitlines()
    return lines[:-1] if len(head) == _HEAD and len(lines) > 1 else lines


def _header(lines: list[bytes]) -> list[str]:
    """The columns that the first line names, in small letters."""
    first = next(filter(None, lines), b"").decode("utf-8-sig", "replace")
    return [name.strip(' "').casefold() for name in first.split("\t")]
