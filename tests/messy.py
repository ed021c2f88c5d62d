"""Write tables as people export them, and the clean table with the same facts."""

from __future__ import annotations

import csv
import io
import random
import unicodedata
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

HEADER = ("actor", "action", "target", "start", "end", "note")
ENTITIES = ("Ann", "Jos\u00e9", "Zo\u00eb Gr\u00f8n", "Doe, J.", 'The "Fox"', "L" * 10_000)
RELATIONS = ("meets", "calls", "fl\u00fcchtet")
BAD_ROWS = (
    ("wrong number of columns", ["Ann", "meets", "Bob"]),
    ("no usable subject", [" \u00a0", "meets", "Bob", "2024-01-01", "", ""]),
    ("no usable object", ["Ann", "meets", "two\nlines", "2024-01-01", "", ""]),
    ("no readable time", ["Ann", "meets", "Bob", "31/02/2024", "", ""]),
    ("no readable time", ["Ann", "meets", "Bob", "17", "", ""]),
)

Row = tuple[str, str, str, str]


@dataclass(frozen=True)
class MessyTables:
    """Two messy files, a clean one, and what the report must say about the messy ones."""

    messy: tuple[Path, Path]
    clean: Path
    facts: int
    duplicates: int
    bad: dict[str, int]


def write_messy_tables(folder: Path, facts: int = 400, seed: int = 0) -> MessyTables:
    """Write the files: the first in UTF-8 with a mark and CRLF, the second in Windows-1252."""
    generator = random.Random(seed)
    rows: dict[Row, None] = {}
    while len(rows) < facts:
        subject, object_ = generator.sample(ENTITIES, 2)
        day = date(2024, 1, 1) + timedelta(generator.randrange(366))
        rows[subject, generator.choice(RELATIONS), object_, day.isoformat()] = None
    clean = folder / "clean.csv"
    clean.write_text(_table([("subject", "relation", "object", "time"), *rows], ",", "\n"))
    bad: dict[str, int] = {}
    duplicates = 0
    parts: list[list[list[str]]] = [[], []]
    for number, row in enumerate(rows):
        part = parts[2 * number // facts]
        # Windows-1252 has no combining accents.
        part.append(_messy_row(row, number, composed=part is parts[1]))
        if number % 10 == 3:
            part.append(_messy_row(row, number + 1, composed=part is parts[1]))
            duplicates += 1
        if number % 40 == 7:
            reason, fields = BAD_ROWS[number // 40 % len(BAD_ROWS)]
            part.append(fields)
            bad[reason] = bad.get(reason, 0) + 1
    first, second = folder / "messy.csv", folder / "messy.txt"
    first.write_bytes(_table([HEADER, *parts[0]], ",", "\r\n").encode("utf-8-sig"))
    second.write_bytes(_table([HEADER, *parts[1]], ";", "\n").encode("cp1252"))
    return MessyTables((first, second), clean, facts, duplicates, bad)


def _messy_row(row: Row, number: int, composed: bool) -> list[str]:
    """A fact with blanks around names, accents apart, and its date in one of three formats."""
    names = [f"{'  '[: number % 3]}{name}{' ' * (number % 2)}" for name in row[:3]]
    if number % 2 and not composed:
        names = [unicodedata.normalize("NFD", name) for name in names]
    day = date.fromisoformat(row[3])
    months = "January February March April May June July August September October November December"
    written = (
        row[3],
        f"{day.day:02}/{day.month:02}/{day.year}",
        f"{day.day} {months.split()[day.month - 1]} {day.year}",
    )
    return [*names, written[number % 3] + " " * (number % 4), "2025-01-01", "a, b; c"]


def _table(rows: list[tuple[str, ...] | list[str]], delimiter: str, end: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerows(rows)
    return text.getvalue()
