"""Write tables as people export them, and the clean table with the same facts."""

from __future__ import annotations

import csv
import io
import json
import random
import unicodedata
from collections import Counter
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

HEADER = ("actor", "action", "target", "start", "end", "note", "fold")
ENTITIES = ("Ann", "Jos\u00e9", "Zo\u00eb Gr\u00f8n", "Doe, J.", 'The "Fox"', "L" * 10_000)
RELATIONS = ("meets", "calls", "fl\u00fcchtet")
FOLDS = (*["train", " Training"] * 4, "val", "Test ")
_REST = ["2025-01-01", "", "train"]
BAD_ROWS = (
    ("wrong number of columns", ["Ann", "meets", "Bob"]),
    ("no usable subject", [" \u00a0", "meets", "Bob", "2024-01-01", *_REST]),
    ("no usable object", ["Ann", "meets", "two\nlines", "2024-01-01", *_REST]),
    ("no readable time", ["Ann", "meets", "Bob", "31/02/2024", *_REST]),
    ("no readable time", ["Ann", "meets", "Bob", "17", *_REST]),
)
# The code point stands for a byte that is not UTF-8.
WRONG_BYTES = ("bytes that are not UTF-8", ["Zo\udceb", "meets", "Bob", "2024-01-01", *_REST])
NOT_JSON = ("not a JSON object of texts and numbers", '{"actor": "Ann", "action": "meets",')

Row = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class MessyTables:
    """Three messy files, a clean one, and what the report must say about the messy ones."""

    messy: tuple[Path, Path, Path]
    clean: Path
    facts: int
    duplicates: int
    bad: dict[str, int]


def write_messy_tables(folder: Path, facts: int = 450, seed: int = 0) -> MessyTables:
    """Write the files: UTF-8 with a mark and CRLF, Windows-1252, and JSON lines."""
    generator = random.Random(seed)
    rows: dict[Row, None] = {}
    known: set[tuple[str, ...]] = set()
    while len(rows) < facts:
        subject, object_ = generator.sample(ENTITIES, 2)
        day = date(2024, 1, 1) + timedelta(generator.randrange(366))
        fact = (subject, generator.choice(RELATIONS), object_, day.isoformat())
        if fact not in known:
            known.add(fact)
            rows[*fact, generator.choice(FOLDS)] = None
    clean = folder / "clean.csv"
    clean.write_text(_table([("subject", "relation", "object", "time", "fold"), *rows], ",", "\n"))
    bad: Counter[str] = Counter()
    duplicates = 0
    parts: list[list[list[str]]] = [[], [], []]
    for number, row in enumerate(rows):
        part = parts[3 * number // facts]
        # Windows-1252 has no combining accents.
        composed = part is parts[1]
        part.append(_messy_row(row, number, composed))
        if number % 10 == 3:
            part.append(_messy_row(row, number + 1, composed))
            duplicates += 1
        if number % 40 == 7 and part is not parts[2]:
            reason, fields = BAD_ROWS[number // 40 % len(BAD_ROWS)]
            part.append(fields)
            bad[reason] += 1
    parts[0].insert(len(parts[0]) // 2, WRONG_BYTES[1])
    lines = [
        json.dumps(dict(zip(HEADER, row, strict=True)), ensure_ascii=False) for row in parts[2]
    ]
    lines.insert(len(lines) // 2, NOT_JSON[1])
    bad += Counter((WRONG_BYTES[0], NOT_JSON[0]))
    first, second, third = folder / "messy.csv", folder / "messy.txt", folder / "messy.jsonl"
    text = _table([HEADER, *parts[0]], ",", "\r\n")
    first.write_bytes(text.encode("utf-8-sig", "surrogateescape"))
    second.write_bytes(_table([HEADER, *parts[1]], ";", "\n").encode("cp1252"))
    third.write_text("\n\n".join(lines))
    return MessyTables((first, second, third), clean, facts, duplicates, dict(bad))


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
    return [*names, written[number % 3] + " " * (number % 4), "2025-01-01", "a, b; c", row[4]]


def _table(rows: list[tuple[str, ...] | list[str]], delimiter: str, end: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerows(rows)
    return text.getvalue()
