"""A messy table imports to exactly the facts of its clean twin, and every row is accounted for."""

from __future__ import annotations

import codecs
from pathlib import Path
from unittest.mock import patch

import pytest

from conftest import Call, as_json
from messages import message
from messy import write_messy_tables
from tempograph.data.importers import csv_reader
from tempograph.data.importers.column_guessing import resolve_columns
from tempograph.data.importers.importer import import_files
from tempograph.data.importers.options import ImportOptions
from tempograph.typing import SPLITS


@pytest.mark.parametrize("block", [1 << 15, 1 << 20])
@pytest.mark.parametrize("seed", range(3))
def test_a_messy_table_equals_its_clean_twin(tmp_path: Path, seed: int, block: int) -> None:
    tables = write_messy_tables(tmp_path, seed=seed)
    first, second = tables.messy
    assert first.read_bytes().startswith(codecs.BOM_UTF8)
    clean = import_files([tables.clean], ImportOptions(), "events").graph
    options, columns = resolve_columns(tables.messy, ImportOptions(skip_bad=True))
    with patch.object(csv_reader, "_BLOCK", block):
        imported = import_files(tables.messy, options, "events")
    messy = imported.graph
    assert (messy.entities, messy.relations) == (clean.entities, clean.relations)
    assert messy.times == clean.times
    for split in SPLITS:
        assert messy.facts(split).tolist() == clean.facts(split).tolist()
    assert {skip.reason: skip.rows for skip in imported.skipped} == tables.bad
    assert imported.duplicates == tables.duplicates
    assert imported.rows == tables.facts + tables.duplicates + sum(tables.bad.values())
    assert all(skip.examples for skip in imported.skipped)
    assert message("column_guessing.end", column="end", start="start") in columns.notes()
    assert imported.remarks[:2] == (
        message("table_reader.delimiter", path=second, delimiter=";"),
        message("table_reader.windows", path=second),
    )
    assert "read with the day first" in imported.remarks[2]
    assert "joined with another" in imported.remarks[3]


def test_the_command_accounts_for_every_row(call: Call) -> None:
    tables = write_messy_tables(Path())
    command = ("data", "import", *map(str, tables.messy), "--skip-bad", "--out", "mine")
    found = as_json(call(*command, "--json"))
    assert found["rows"] == found["facts"] + found["duplicates"] + found["skipped"]
    assert found["facts"] == tables.facts
    assert found["skipped"] == sum(reason["rows"] for reason in found["reasons"])
