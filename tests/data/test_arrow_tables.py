"""Tables in memory are imported like files, and refused with one line like files."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from frames import FORMS, fact_columns, pandas, polars
from messages import message, raises
from tempograph import DataError, ImportOptions, load_dataset
from tempograph.data.arrow_tables import to_arrow_table
from tempograph.data.importers.any_source import import_facts
from tempograph.data.synthetic.world import make_world

GRAPH = make_world(entities=12, relations=4, steps=20, facts=300).graph
COLUMNS = fact_columns(GRAPH, GRAPH.all_facts)


@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_imported_like_a_file(form: str, tmp_path: Path) -> None:
    pa.csv.write_csv(pa.table(COLUMNS), tmp_path / "events.csv")
    expected = load_dataset(tmp_path / "events.csv")
    assert expected.name == "events" and len(expected.all_facts) == 300
    assert load_dataset(FORMS[form](COLUMNS)).same_as(expected)


def test_a_file_without_a_suffix_does_not_hide_a_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").write_text("not a table")
    assert load_dataset("demo").name == "demo"


def test_columns_are_guessed_or_named() -> None:
    table = pa.table(dict(zip(("who", "did", "whom", "day"), COLUMNS.values(), strict=True)))
    notes: list[str] = []
    imported, columns = import_facts(table, ImportOptions(relation="did"), "x", note=notes.append)
    assert columns.columns == {"subject": "who", "relation": "did", "object": "whom", "time": "day"}
    assert imported.rows == 300 and imported.format == "table"
    assert notes == [
        "columns: subject from 'who', relation from 'did', object from 'whom', time from 'day'; "
        "if that is wrong, name them with ImportOptions(subject=...) and so on"
    ]
    names = "'who', 'did', 'whom', 'day'"
    with raises(DataError, "column_guessing.no_table_column", part="relation", columns=names):
        load_dataset(table)
    with raises(DataError, "csv_reader.no_column", path="the table", column="verb", columns=names):
        load_dataset(table, ImportOptions(relation="verb"))


def test_hours_time_zones_and_missing_times() -> None:
    moments = [datetime(2024, 1, 1, 5), date(2024, 1, 2), np.datetime64("2024-01-02T03", "ns")]
    graph = load_dataset(
        [("a", "r", "b", moment) for moment in moments], ImportOptions(granularity="hour")
    )
    assert {graph.times[step] for step in graph.all_facts[:, 3]} == {
        *("2024-01-01T05", "2024-01-02T00", "2024-01-02T03")
    }
    rows = [("a", "r", "b", "2024-01-01"), ("a", "r", "b", None)]
    assert len(load_dataset(rows, ImportOptions(skip_bad=True, max_bad=1)).all_facts) == 1
    with pytest.raises(DataError) as caught:
        load_dataset(rows)
    assert str(caught.value) == (
        "the table: row 2: the time is empty; fill it in or remove the row; "
        "ImportOptions(skip_bad=True) skips such rows"
    )


def test_messages_about_a_table_name_options_of_python() -> None:
    """A table in memory comes from Python, which has no --max-bad."""
    rows = [("Ann ", "r", "b", "13/02/2024"), ("Ann", "r", "b", "01/02/2024")]
    notes: list[str] = []
    import_facts(rows, ImportOptions(), "x", note=notes.append)
    changed = {"names": "1 entity name", "joined": 1, "changes": "'Ann ' -> 'Ann'"}
    assert notes == [
        "note: " + message("date_formats.table_order", value="01/02/2024", shown="13/02/2024"),
        "note: " + message("name_ids.changed_in_table", **changed),
    ]
    for options in (ImportOptions(), ImportOptions(skip_bad=True, max_bad=0.9)):
        with raises(DataError, "date_formats.table_unclear", row=2, value="01/02/2024"):
            load_dataset([("a", "r", "b", "2024-01-01"), ("a", "r", "b", "01/02/2024")], options)
    reasons = "no readable time: 1 row, 'x' at row 2 of the table"
    counts = {"bad": 1, "rows": 2, "share": "50.0%", "reasons": reasons}
    with raises(DataError, "importer.too_many_bad_in_table", **counts):
        load_dataset([rows[0], ("a", "r", "b", "x")], ImportOptions(skip_bad=True))


UNREADABLE: dict[str, tuple[Any, str]] = {
    "two values": ([("a", "b")], message("arrow_tables.four_parts", row=0, value=("a", "b"))),
    "texts and integers": (
        [("a", "r", "b", 1), ("a", "r", "b", "x")],
        message(
            "arrow_tables.several_kinds",
            column="time",
            reason="Could not convert 'x' with type str: tried to convert to int64",
        ),
    ),
    "no table": (7, message("arrow_tables.unreadable", reason="'int' object is not iterable")),
    "no rows": (
        pa.table({name: pa.array([], pa.string()) for name in COLUMNS}),
        "the table has no rows, so there is nothing to import",
    ),
    "nested": (
        pa.table({**COLUMNS, "subject": [["a"]] * 300}),
        "the table: column 'subject' must hold text, numbers or dates, not list<item: string>",
    ),
}


@pytest.mark.parametrize(("data", "expected"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_not_a_table_of_facts_is_refused(data: Any, expected: str) -> None:
    with pytest.raises(DataError) as caught:
        load_dataset(data)
    assert str(caught.value) == expected


def test_a_format_of_coded_events_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        load_dataset(pa.table(COLUMNS), ImportOptions(format="icews"))
    assert str(caught.value) == "the table has no format; leave out format='icews'"


def test_dataframes_become_plain_columns() -> None:
    frame = pandas().DataFrame({"a": pandas().Categorical(["x", None]), "t": [1, 2]})
    assert to_arrow_table(frame).to_pydict() == {"a": ["x", None], "t": [1, 2]}
    enum = polars().Series(["x", None], dtype=polars().Enum(["x", "y"]))
    table = to_arrow_table(polars().DataFrame({"a": enum, "b": ["u", "v"]}))
    assert table.schema.types == [pa.string(), pa.string()]
    assert table.to_pydict() == {"a": ["x", None], "b": ["u", "v"]}
    with pytest.raises(DataError, match="^the table cannot be read: Duplicate column names"):
        to_arrow_table(pandas().DataFrame([[1, 2]], columns=["a", "a"]))
