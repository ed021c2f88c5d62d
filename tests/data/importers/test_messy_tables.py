"""A messy table imports to exactly the facts of its clean twin, and every row is accounted for."""

from __future__ import annotations

import codecs
import re
import unicodedata
from pathlib import Path
from unittest.mock import patch

import pytest

from conftest import Call, as_json
from messages import message
from messy import MessyTables, write_messy_tables
from tempograph.data.importers import csv_reader, json_reader
from tempograph.data.importers.any_source import import_facts
from tempograph.data.importers.importer import ImportResult
from tempograph.data.importers.options import ImportOptions
from tempograph.typing import SPLITS


def check(imported: ImportResult, clean: ImportResult, tables: MessyTables) -> None:
    """Compare an import with that of the clean twin, and account for every row."""
    messy, twin = imported.graph, clean.graph
    assert messy.entities == twin.entities
    assert messy.relations == twin.relations
    assert messy.times == twin.times
    for split in SPLITS:
        assert messy.facts(split).tolist() == twin.facts(split).tolist()
    assert {skip.reason: skip.rows for skip in imported.skipped} == tables.bad
    assert all(skip.examples for skip in imported.skipped)
    assert imported.duplicates == tables.duplicates
    assert imported.rows == tables.facts + tables.duplicates + sum(tables.bad.values())


@pytest.mark.parametrize(("seed", "block"), [(0, 1 << 15), (1, 1 << 20), (2, 1 << 15)])
def test_messy_tables_equal_their_clean_twin(tmp_path: Path, seed: int, block: int) -> None:
    tables = write_messy_tables(tmp_path, seed=seed)
    _, second, _ = tables.messy
    for split_column in (None, "fold"):
        options = ImportOptions(split_column=split_column)
        clean, _ = import_facts(tables.clean, options, "events")
        options = ImportOptions(time="start", skip_bad=True, split_column=split_column)
        with patch.object(csv_reader, "_BLOCK", block), patch.object(json_reader, "_BLOCK", block):
            imported, columns = import_facts(tables.messy, options, "events")
        check(imported, clean, tables)
        assert message("column_guessing.end", column="end", start="start") in columns.notes()
        assert imported.remarks[:2] == (
            message("table_reader.delimiter", path=second, delimiter=";"),
            message("table_reader.encoding", path=second, encoding="Windows-1252"),
        )
        assert "read with the day first" in imported.remarks[2]
        assert "joined with another" in imported.remarks[3]


def test_the_tables_are_messy(tmp_path: Path) -> None:
    """Everything that the import must cope with is there."""
    first, second, third = (path.read_bytes() for path in write_messy_tables(tmp_path).messy)
    assert first.startswith(codecs.BOM_UTF8)
    assert first.count(b"\r\n") == first.count(b"\n") - first.count(b"two\nlines") > 100
    for data in (first, second):
        with pytest.raises(UnicodeDecodeError):
            data.decode()
    assert "Zo\u00eb Gr\u00f8n".encode("cp1252") in second
    for text in (first.decode(errors="ignore"), third.decode()):
        assert unicodedata.normalize("NFD", "Jos\u00e9") in text and "Jos\u00e9" in text
        assert re.search("L{10000}", text)
        assert re.search(r"Ann \W", text) and re.search(r"\W  ?Ann", text)
        for pattern in (r"2024-\d\d-\d\d", r"\d\d/\d\d/2024", r"\d{1,2} [A-Z][a-z]+ 2024"):
            assert re.search(rf"{pattern}\W", text) and re.search(rf"{pattern} +\W", text)


def test_the_command_accounts_for_every_row(call: Call) -> None:
    tables = write_messy_tables(Path())
    command = (
        "data",
        "import",
        *map(str, tables.messy),
        "--time",
        "start",
        "--skip-bad",
        "--out",
        "mine",
    )
    found = as_json(call(*command, "--json"))
    assert found["rows"] == found["facts"] + found["duplicates"] + found["skipped"]
    assert found["facts"] == tables.facts
    assert found["skipped"] == sum(reason["rows"] for reason in found["reasons"])
    assert {reason["reason"]: reason["rows"] for reason in found["reasons"]} == tables.bad
