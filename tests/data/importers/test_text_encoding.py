"""Encodings and delimiters of text files are detected, or set."""

from __future__ import annotations

import gzip
from pathlib import Path
from unittest.mock import patch

import pytest

from messages import message, raises
from tempograph.data.importers import csv_reader
from tempograph.data.importers.column_guessing import resolve_columns
from tempograph.data.importers.importer import ImportResult, import_files
from tempograph.data.importers.options import ImportOptions
from tempograph.errors import DataError

HEADER = "subject,relation,object,time"
NAMES = [f"Zoë {number}" for number in range(300)]
TEXT = "\r\n".join([HEADER, *(f"{name},r,café,2024-01-01" for name in NAMES), ""])


def read(path: Path, **options: object) -> ImportResult:
    return import_files([path], ImportOptions(**options), "events")  # type: ignore[arg-type]


@pytest.mark.parametrize("block", [100, 1 << 20])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("encoding", "given"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", None),
        ("cp1252", None),
        ("utf-16-le", "utf-16-le"),
        ("cp1252", "windows-1252"),
        ("mac-roman", "mac-roman"),
        ("utf-8-sig", "utf-8"),
    ],
)
def test_encodings(
    tmp_path: Path, encoding: str, given: str | None, packed: bool, block: int
) -> None:
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    data = TEXT.encode(encoding)
    path.write_bytes(gzip.compress(data) if packed else data)
    with patch.object(csv_reader, "_BLOCK", block):
        imported = read(path, encoding=given)
    assert imported.graph.entities == (NAMES[0], "café", *NAMES[1:])
    names = {"cp1252": "Windows-1252", "utf-16": "UTF-16"}
    detected = {"path": path, "encoding": names.get(encoding)}
    noted = given is None and encoding in names
    assert imported.remarks == ((message("table_reader.encoding", **detected),) if noted else ())


def test_rows_before_the_first_letter_beyond_ascii_are_read_once(tmp_path: Path) -> None:
    rows = [f"a{number},r,b,2024-01-01" for number in range(300)]
    path = tmp_path / "a.csv"
    path.write_bytes("\n".join([HEADER, *rows, "Zoë,r,b,2024-01-01", *rows]).encode("cp1252"))
    with patch.object(csv_reader, "_BLOCK", 256):
        imported = read(path)
        assert (imported.rows, imported.duplicates) == (601, 300)
        assert imported.graph.entities[-1] == "Zoë"
        path.write_bytes(path.read_bytes() + b"\n,r,b,2024-01-01\nbad\n\x80,r,b,2024-01-01\n")
        imported = read(path, skip_bad=True)
    assert (imported.rows, len(imported.graph.all_facts)) == (604, 302)
    assert imported.graph.entities[-2:] == ("Zoë", "€")


def test_a_byte_that_the_encoding_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"{HEADER}\na,r,b,2024-01-01\n".encode() + b"a,r,\x81,2024-01-01\n")
    with raises(
        DataError, "csv_reader.not_utf8", path=path, line=3, byte="0x81", encoding="CP1252"
    ):
        read(path)


def test_a_header_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("subject,relation,object,time,anmärkning\na,r,b,1,x\n".encode("cp1252"))
    options, table = resolve_columns([path], ImportOptions())
    assert table.unused == ("anmärkning",)
    assert import_files([path], options, "events").graph.entities == ("a", "b")


@pytest.mark.parametrize(
    ("name", "delimiter", "noted"),
    [
        ("a.csv", ",", False),
        ("a.csv", ";", True),
        ("a.csv", "\t", True),
        ("a.tsv", "\t", False),
        ("a.tsv", ",", True),
        ("a.txt", "|", True),
    ],
)
def test_delimiters(tmp_path: Path, name: str, delimiter: str, noted: bool) -> None:
    path = tmp_path / name
    rows = [HEADER.split(","), ["Doe, J.", "r;s", "a|b", "2024-01-01"]]
    quoted = (delimiter.join(f'"{field}"' for field in row) for row in rows)
    path.write_text("\n".join(quoted) + "\n")
    options, table = resolve_columns([path], ImportOptions())
    assert list(table.columns.values()) == rows[0]
    imported = import_files([path], options, "events")
    assert imported.graph.entities == ("Doe, J.", "a|b")
    note = message("table_reader.delimiter", path=path, delimiter=delimiter)
    assert imported.remarks == ((note,) if noted else ())
