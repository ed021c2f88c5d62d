"""JSON lines are tables: their import equals that of the same rows as text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from unittest.mock import patch

import pytest

from messages import message, raises
from tempograph.data.importers import json_reader
from tempograph.data.importers.column_guessing import resolve_columns
from tempograph.data.importers.importer import ImportResult, import_files
from tempograph.data.importers.options import ImportOptions
from tempograph.errors import DataError

ROWS = [
    {"actor": f"Zo\u00eb {row % 7}", "action": "calls", "target": row, "when": f"{row + 1}/2/2024"}
    for row in range(25)
]


def read(path: Path, **options: object) -> ImportResult:
    return import_files([path], ImportOptions(**options), "events")  # type: ignore[arg-type]


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.jsonl.gz"])
def test_json_lines_are_a_table(tmp_path: Path, name: str, encoding: str) -> None:
    lines = [json.dumps({"id": 1, **row, "tags": []}, ensure_ascii=False) for row in ROWS]
    data = ("\r\n\r\n".join(lines)).encode(encoding)
    path, text = tmp_path / name, tmp_path / "a.csv"
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    rows = [",".join(map(str, row.values())) for row in ROWS]
    text.write_text("\n".join([",".join(ROWS[0]), *rows]))
    graphs = []
    for source in (path, text):
        options, table = resolve_columns([source], ImportOptions())
        with patch.object(json_reader, "_ROWS", 4):
            graphs.append(import_files([source], options, "events").graph)
        assert table.unused == (("id", "tags") if source is path else ())
    left, right = graphs
    assert (left.entities, left.times) == (right.entities, right.times)
    assert left.all_facts.tolist() == right.all_facts.tolist()


GOOD = '{"subject": "a", "relation": "r", "object": "b", "time": 1}'
BROKEN = ["{", "[1]", "7", GOOD.replace('"b"', '["b"]'), "subject,relation,object,time"]


@pytest.mark.parametrize("line", BROKEN)
def test_a_line_that_is_no_object_is_named(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "a.jsonl", GOOD, "", line)
    with raises(DataError, "json_reader.not_an_object", path=path, line=3, value=line[:60]):
        read(path)


def test_bad_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    empty = GOOD.replace('"a"', "null")
    later = GOOD.replace("1}", '"later"}')
    path = write(tmp_path / "a.jsonl", GOOD, *BROKEN, empty, later, GOOD)
    problem = message("table_reader.empty", column="subject")
    with raises(DataError, "table_reader.line", path=path, line=7, problem=problem):
        read(write(tmp_path / "a.jsonl", GOOD, *[GOOD] * 5, empty, later))
    imported = read(write(path, GOOD, *BROKEN, empty, later, GOOD), skip_bad=True, max_bad=7)
    assert imported.account() == "9 rows = 1 facts + 1 duplicates + 7 bad"
    assert [(skip.rows, skip.first) for skip in imported.skipped] == [
        (5, f"{path}:2"),
        (1, f"{path}:7"),
        (1, f"{path}:8"),
    ]


def test_an_empty_file_and_a_missing_key(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", "", "")
    with raises(DataError, "json_reader.empty", path=path):
        read(path, format="table")
    columns = "'subject', 'relation', 'object', 'time'"
    with raises(DataError, "csv_reader.no_column", path=path, column="when", columns=columns):
        read(write(path, GOOD), time="when")
