"""Guessing the columns of a table from their names."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from messages import message, raises
from tempograph import load_dataset
from tempograph.data.importers.column_guessing import (
    TableColumns,
    guess_columns,
    resolve_columns,
    resolve_table_columns,
)
from tempograph.data.importers.options import ImportOptions
from tempograph.errors import DataError


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["subject", "relation", "object", "time"], ["subject", "relation", "object", "time"]),
        (["actor", "action", "target", "date"], ["actor", "action", "target", "date"]),
        (["date", "from", "to", "type"], ["from", "type", "to", "date"]),
        (
            ["Event Date", "Source Name", "Event Type", "Target Name"],
            ["Source Name", "Event Type", "Target Name", "Event Date"],
        ),
        (
            ["Actor1", "Actor2", "Predicate", "Timestamp"],
            ["Actor1", "Predicate", "Actor2", "Timestamp"],
        ),
        (
            ["SENDER_ID", "receiver_id", "created time", "edge"],
            ["SENDER_ID", "edge", "receiver_id", "created time"],
        ),
        (["source", "from", "to", "type", "date"], ["from", "type", "to", "date"]),
        (
            ["source", "actor", "action", "recipient", "date"],
            ["actor", "action", "recipient", "date"],
        ),
        (
            ["actor1", "actor2", "source", "source scale", "event", "date"],
            ["actor1", "event", "actor2", "date"],
        ),
        (
            ["subject", "actor", "relation", "object", "time", "date"],
            ["subject", "relation", "object", "time"],
        ),
        (
            ["actor", "action", "target", "event date", "year"],
            ["actor", "action", "target", "event date"],
        ),
    ],
)
def test_columns_are_guessed_from_their_names(names: list[str], expected: list[str]) -> None:
    assert list(guess_columns(Path("x.csv"), names, ImportOptions()).values()) == expected


def test_a_given_column_is_not_guessed() -> None:
    names = ["actor", "action", "target", "date", "kind"]
    assert guess_columns(Path("x.csv"), names, ImportOptions(relation="kind"))["relation"] == "kind"


def test_a_missing_column_is_an_error() -> None:
    columns = "'who', 'did', 'when'"
    with raises(
        DataError, "column_guessing.no_column", path="x.csv", part="object", columns=columns
    ):
        guess_columns(Path("x.csv"), ["who", "did", "when"], ImportOptions(relation="did"))


@pytest.mark.parametrize(
    ("names", "fitting"),
    [
        (["date", "source", "actor", "action", "target"], {"subject": "'source' and 'actor'"}),
        (["date", "actor", "action", "type", "target"], {"relation": "'action' and 'type'"}),
        (["day", "month", "year", "who", "what", "whom"], {"time": "'day' and 'month' and 'year'"}),
        (
            ["date", "source name", "source country", "event", "type", "target name"],
            {"subject": "'source name' and 'source country'", "relation": "'event' and 'type'"},
        ),
    ],
)
def test_ambiguous_columns_are_an_error(names: list[str], fitting: dict[str, str]) -> None:
    with pytest.raises(DataError) as caught:
        guess_columns(Path("x.csv"), names, ImportOptions())
    questions = [
        message("column_guessing.two_columns", part=part, columns=columns)
        for part, columns in fitting.items()
    ]
    assert str(caught.value) == f"x.csv: {'; '.join(questions)}"


def test_a_given_column_resolves_an_ambiguity() -> None:
    names = ["date", "source", "actor", "action", "target"]
    assert guess_columns(Path("x.csv"), names, ImportOptions(subject="actor"))["subject"] == "actor"


def test_headers_of_every_kind_of_table(tmp_path: Path) -> None:
    rows = {"actor": ["a"], "action": ["b"], "target": ["c"], "date": ["2024-01-01"]}
    pq.write_table(pa.table(rows), tmp_path / "e.parquet")
    (tmp_path / "e.tsv").write_text("\t".join(rows) + "\n")
    (tmp_path / "e.csv.gz").write_bytes(
        gzip.compress((",".join(rows) + "\r\n").encode("utf-8-sig"))
    )
    (tmp_path / "late.csv").write_text("\n\n" + ",".join(rows) + "\n")
    for name in ("e.parquet", "e.tsv", "e.csv.gz", "late.csv"):
        options, table = resolve_columns([tmp_path / name], ImportOptions())
        assert list(table.columns.values()) == list(rows) and options.columns == tuple(rows)
        assert table.guessed and not table.unused


def table_of(folder: Path, header: str, **options: str) -> TableColumns:
    (folder / "e.csv").write_text(header + "\n")
    return resolve_columns([folder / "e.csv"], ImportOptions(**options))[1]  # type: ignore[arg-type]


def test_columns_that_are_not_used_are_named(tmp_path: Path) -> None:
    table = table_of(tmp_path, "id,subject,relation,object,time,note")
    assert table.notes() == [message("column_guessing.unused", columns="'id', 'note'")]
    guessed, unused = table_of(tmp_path, "actor,action,target,date,note").notes()
    assert "subject from 'actor'" in guessed and "'note'" in unused
    assert not table_of(tmp_path, "subject,relation,object,time").notes()
    (guessed,) = table_of(tmp_path, "subject,relation,object,valid_from,valid_to").notes()
    assert guessed.endswith("--subject, --relation, --object, --start and --end")


@pytest.mark.parametrize(
    ("start", "end"),
    [("start", "end"), ("start_date", "end_date"), ("valid from", "valid_to"), ("since", "until")],
)
def test_an_end_that_is_not_used_is_said(tmp_path: Path, start: str, end: str) -> None:
    table = table_of(tmp_path, f"subject,relation,object,{end},{start}", time=start)
    assert table.columns["time"] == start
    assert table.notes()[-1] == message("column_guessing.end", column=end, start=start)


@pytest.mark.parametrize(
    ("names", "bounds"),
    [
        ("subject relation object start end", "start end"),
        ("actor action target end start", "start end"),
        ("person,role,org,start_date,end_date", "start_date,end_date"),
        ("subject,relation,object,valid from,valid_to", "valid from,valid_to"),
        ("subject,relation,object,occurs since,occurs until", "occurs since,occurs until"),
        ("subject,relation,object,begin,until", "begin,until"),
        ("subject,relation,object,StartDate,EndDate", "StartDate,EndDate"),
        (
            "subject,relation,object,start time (P580),end time (P582)",
            "start time (P580),end time (P582)",
        ),
        ("subject,relation,object,from,to", "from,to"),
        ("subject,relation,object,created date,start,end", "start,end"),
    ],
)
def test_starts_and_ends_are_guessed(names: str, bounds: str) -> None:
    sign = "," if "," in names else " "
    given = {"subject": "person", "relation": "role", "object": "org"} if "role" in names else {}
    found = guess_columns(Path("x.csv"), names.split(sign), ImportOptions(**given))
    assert [found["start"], found["end"]] == bounds.split(sign) and "time" not in found


@pytest.mark.parametrize(
    "names",
    [
        "from,to,type,date",
        "who,what,whom,since",
        "subject,relation,object,date,start station,end station",
        "subject,relation,object,time,to",
    ],
)
def test_other_columns_are_no_start_and_end(names: str) -> None:
    assert "time" in guess_columns(Path("x.csv"), names.split(","), ImportOptions())


def test_a_start_or_an_end_may_be_given() -> None:
    names = ["subject", "relation", "object", "date", "retired", "until"]

    def bounds(**given: str) -> list[str]:
        found = guess_columns(Path("x.csv"), names, ImportOptions(**given))  # type: ignore[arg-type]
        return [found["start"], found["end"]]

    assert bounds(end="retired") == ["date", "retired"]
    assert bounds(start="date") == ["date", "until"]
    assert bounds(start="date", end="retired") == ["date", "retired"]
    with raises(DataError, "column_guessing.no_column", path="x.csv", part="end", columns="'s'"):
        guess_columns(Path("x.csv"), ["s"], ImportOptions("s", "s1", "s2", start="s3"))


def test_a_time_beside_start_and_end_is_a_question() -> None:
    names = ["subject", "relation", "object", "time", "start", "end"]
    bounds = {"start": "'start'", "end": "'end'"}
    with raises(DataError, "column_guessing.time_or_bounds", path="x.csv", time="'time'", **bounds):
        guess_columns(Path("x.csv"), names, ImportOptions())
    assert "end" in guess_columns(Path("x.csv"), names, ImportOptions(start="start", end="end"))


def test_first_lines_that_are_no_header(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    for text in ("", "\n", "\n \n"):
        path.write_text(text)
        with raises(DataError, "table_header.empty", path=path):
            resolve_columns([path], ImportOptions(format="table"))
    with raises(DataError, "table_header.one_field", path=path, line="actor action target date"):
        table_of(tmp_path, "actor action target date")
    with raises(DataError, "column_guessing.no_header", path=path, columns="'a', 'r', 'b', '7'"):
        table_of(tmp_path, "a,r,b,7")


def test_a_column_that_is_there_twice_is_named(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("actor,action,target,date,date\na,r,b,2024-01-01,2024-01-01\n")
    with raises(DataError, "csv_reader.repeated_column", path=path, count=2, column="date"):
        load_dataset(path)


def test_an_end_that_is_not_used_can_be_named() -> None:
    names = ["subject", "relation", "object", "date", "end"]
    _, table = resolve_table_columns(names, ImportOptions())
    way_out = "ImportOptions(start='date', end='end') reads facts that hold until their end"
    assert table.notes()[-1].endswith(f"column 'date'; {way_out}")
    given = ImportOptions(start="date", end="end")
    options, table = resolve_table_columns(names, given)
    assert options.fact_columns == tuple(names) and table.notes() == []
