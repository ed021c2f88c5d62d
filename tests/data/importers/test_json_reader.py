"""JSON lines are tables: their import equals that of the same rows as text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from messages import message, raises
from tempograph.data.importers import json_reader
from tempograph.data.importers.bad_rows import SkipCounter
from tempograph.data.importers.column_guessing import resolve_columns
from tempograph.data.importers.importer import ImportResult, import_files
from tempograph.data.importers.json_blocks import read_alike
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
@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "a.jsonl.gz"])
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
        with patch.object(json_reader, "_BLOCK", 300):
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
    with raises(DataError, "json_reader.no_objects", path=path):
        read(write(path, "[", GOOD + ",", "]"))
    columns = "'subject', 'relation', 'object', 'time'"
    with raises(DataError, "csv_reader.no_column", path=path, column="when", columns=columns):
        read(write(path, GOOD), time="when")


ODD_LINES = [
    *(GOOD.replace("1}", value) for value in ('"1"}', "1.0}", "1e3}", "-0}", "true}", "null}")),
    *(GOOD.replace('"a"', value) for value in ("7", '"a\\tb"', '"\\ud83d\\ude00"', '"a\tb"')),
    *(GOOD.replace('"a"', value) for value in ("9" * 30, "9" * 5000, '"\\ud800"', "NaN")),
    *(GOOD.replace('"a"', f'"a", {more}') for more in ('"x": {"y": []}', '"subject": "b"', '"z":')),
    *(GOOD + GOOD, GOOD.replace(",", ",\n"), GOOD.replace(",", ",\r"), GOOD[:-1], "{}", "", "  "),
    *('{"x":', "[", GOOD.replace("a", "\u00e9"), GOOD.replace(", ", ",\u00a0", 1), f"{GOOD} x"),
    '{"time": 1, "object": "b", "relation": "r", "subject": null}',
]


@given(
    st.lists(st.sampled_from([*[GOOD] * len(ODD_LINES), *ODD_LINES]), min_size=1, max_size=12),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([100, 1 << 20]),
)
@example([GOOD, '{"x":', GOOD + GOOD], "\n", 1 << 20)
def test_blocks_equal_their_slow_twin(lines: list[str], end: str, block: int) -> None:
    """Arrow reads the same rows and finds the same faults as Python, line by line."""

    def found(alike: object) -> tuple[list[object], list[str]]:
        rows: list[object] = []
        errors = []
        for skips in (SkipCounter(), None):
            with (
                patch.object(json_reader, "read_alike", alike),
                patch.object(json_reader, "_BLOCK", block),
            ):
                try:
                    for columns, numbers, _ in json_reader.read_json_lines(
                        path, ["subject", "relation", "object", "time"], "utf-8", skips
                    ):
                        texts = zip(*(column.to_pylist() for column in columns), strict=True)
                        rows += [(number, *row) for number, row in zip(numbers, texts, strict=True)]
                except DataError as error:
                    errors.append(str(error))
            if skips:
                errors += map(str, skips.rows())
        return rows, errors

    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        # Bytes that are not UTF-8 stand where they are not used, and where they are.
        text = end.join([GOOD, *lines]).encode().replace(b"\xc3\xa9", b"\xff")
        path.write_bytes(text)
        assert found(json_reader.read_alike) == found(lambda *_: None)


def test_a_block_of_objects_that_are_alike_is_read_by_arrow() -> None:
    columns = ["subject", "time"]
    lines = [{"subject": f"Zo\u00eb {row}", "time": row, "note": [row]} for row in range(30)]
    lines[3].pop("subject")
    for end in ("\n", "\r\n"):
        block = end.join(json.dumps(line, ensure_ascii=False) for line in lines).encode()
        for text in (block, block + end.encode()):
            texts = read_alike(text, columns)
            assert texts is not None
            assert texts[0].to_pylist() == [line.get("subject") for line in lines]
            assert texts[1].to_pylist() == [str(line["time"]) for line in lines]
    for other in ('{"subject": 3}', "{}{}", "[]", "", " {}", '{"subject": "\\ud800"}'):
        assert read_alike(block + f"\n{other}\n".encode(), columns) is None


def test_half_a_character_is_not_text(tmp_path: Path) -> None:
    half = GOOD.replace('"a"', '"\\ud800"')
    path = write(tmp_path / "a.jsonl", *[GOOD] * 30, half)
    with raises(DataError, "json_reader.not_an_object", path=path, line=31, value=half[:60]):
        read(path)
    imported = read(path, skip_bad=True)
    assert imported.account() == "31 rows = 1 facts + 29 duplicates + 1 bad"
