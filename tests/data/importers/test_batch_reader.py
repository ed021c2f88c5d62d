"""Files of facts for a batch: every row is kept, and its line is known."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coded import ICEWS_HEADER, gdelt_row, icews_row
from messages import message, raises
from tempograph import ImportOptions
from tempograph.data.importers.batch_reader import FileFacts, read_file
from tempograph.errors import DataError

HEADER = "subject,relation,object,time\n"
ROWS = [["Ann", "meets", "Bob", "1"], ["Bob", "calls", "Cai", "2"], ["José", "meets", "Ann", "3"]]


def rows(facts: FileFacts) -> list[list[object]]:
    columns = (column.to_pylist() for column in facts.columns)
    return [list(row) for row in zip(*columns, strict=True)]


def written(path: Path, delimiter: str = ",", encoding: str = "utf-8") -> Path:
    text = "\n".join(delimiter.join(row) for row in [HEADER.strip().split(","), *ROWS])
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("name", "delimiter", "encoding"),
    [("a.csv", ",", "utf-8"), ("a.csv", ";", "cp1252"), ("a.tsv", "\t", "utf-16")],
)
def test_texts_are_read_as_in_an_import(
    tmp_path: Path, name: str, delimiter: str, encoding: str
) -> None:
    path = written(tmp_path / name, delimiter, encoding)
    read = read_file(path, ImportOptions(format="table"))
    assert rows(read) == ROWS and not read.broken
    assert read.places([0, 2]) == [f"{path}:2", f"{path}:4"] and read.places([]) == []
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert rows(read_file(packed, ImportOptions(format="table"))) == ROWS


def test_lines_are_counted_in_the_file_not_in_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'\n{HEADER}\nAnn,meets,"Bob\nthe 2nd",1\n\nBob,calls,Cai,2\n')
    read = read_file(path, ImportOptions(format="table"))
    assert len(rows(read)) == 2 and read.places([0, 1]) == [f"{path}:4", f"{path}:7"]
    path.write_text("Ann,meets,Bob,1\nBob,calls,Cai,2\n")
    options = ImportOptions("0", "1", "2", "3", header=False, format="table")
    assert read_file(path, options).places([1]) == [f"{path}:2"]


def test_lines_are_found_in_a_long_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEADER + "Ann,meets,Bob,1\n" * 25_000)
    places = read_file(path, ImportOptions(format="table")).places
    assert places([3, 9_999, 10_000, 24_999]) == [
        f"{path}:{n}" for n in (5, 10_001, 10_002, 25_001)
    ]


def test_a_broken_line_is_an_empty_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"{HEADER}Ann,meets,Bob,1\nAnn,meets\n".encode() + b"\xff\xc3,b,\xc3\xa9,2\n")
    path.write_bytes(path.read_bytes() + b"Bob,calls,Cai,2\n")
    read = read_file(path, ImportOptions(format="table"))
    assert rows(read) == [ROWS[0], [None] * 4, [None] * 4, ROWS[1]]
    assert read.broken == {
        1: "wrong number of columns: 'Ann,meets'",
        2: "bytes that are not UTF-8: '\\\\xff\\\\xc3,b,é,2'",
    }
    assert read.places([1, 2, 3]) == [f"{path}:{line}" for line in (3, 4, 5)]
    path.write_text(f'{HEADER}Ann,meets,"Bob,1\n')
    with raises(DataError, "csv_reader.open_quote", path=path, line=2):
        read_file(path, ImportOptions(format="table"))


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    values = [dict(zip(HEADER.strip().split(","), row, strict=True)) for row in ROWS]
    lines = [json.dumps(values[0]), "", "{broken", json.dumps(values[1] | {"time": 2})]
    path.write_text("\n".join(lines))
    read = read_file(path, ImportOptions(format="table"))
    assert rows(read) == [ROWS[0], [None] * 4, ROWS[1]]
    assert read.broken == {1: "not a JSON object of texts and numbers: '{broken'"}
    assert read.places([0, 1, 2]) == [f"{path}:{line}" for line in (1, 3, 4)]
    text = "\n".join(json.dumps(value, ensure_ascii=False) for value in values)
    for encoding in ("utf-8", "cp1252", "utf-16"):
        path.write_bytes(text.encode(encoding))
        read = read_file(path, ImportOptions(format="table"))
        assert rows(read) == ROWS and read.places([2]) == [f"{path}:3"]


def test_parquet_numbers_are_names_and_dates_stay_dates(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = pa.array([1, 2], pa.timestamp("us", "UTC"))
    table = pa.table(
        {"subject": [7, None], "relation": [1, 2], "object": ["a", "b"], "time": times}
    )
    pq.write_table(table, path)
    read = read_file(path, ImportOptions(format="table"))
    assert [column.type for column in read.columns] == [pa.string()] * 3 + [pa.timestamp("s")]
    assert read.columns[0].to_pylist() == ["7", None] and read.places([1]) == [f"{path}: row 2"]
    pq.write_table(table.set_column(0, "subject", [[[1], [2]]]), path)
    wrong = {"path": path, "column": "subject", "type": "list<element: int64>"}
    with raises(DataError, "table_reader.column_type", **wrong):
        read_file(path, ImportOptions(format="table"))


def test_coded_events_are_read_with_the_levels_of_the_import(tmp_path: Path) -> None:
    path = tmp_path / "icews.tab"
    lines = [
        ICEWS_HEADER,
        icews_row("Ann", "Make a visit", "Bob", "2014-01-31"),
        icews_row("", "Make a visit", "Bob", "2014-01-31"),
        icews_row("Bob", "Host a visit", "Ann", "2014-02-01"),
    ]
    path.write_text("\n".join(lines))
    read = read_file(path, ImportOptions())
    assert [row[:3] for row in rows(read)] == [
        ["Ann", "Make a visit", "Bob"],
        ["Bob", "Host a visit", "Ann"],
    ]
    assert [str(day) for day in read.columns[3].to_pylist()] == ["2014-01-31", "2014-02-01"]
    assert read.places([1]) == [f"{path}: event 2"]
    assert str(read.skipped[0]) == message("bad_rows.one", reason="no subject", path=path, line=3)
    path.write_text(gdelt_row("ANN", "0311", "BOB", "20150218"))
    read = read_file(path, ImportOptions(format="gdelt", relation_level="root"))
    assert rows(read)[0][1] == "03" and str(rows(read)[0][3]) == "2015-02-18"
