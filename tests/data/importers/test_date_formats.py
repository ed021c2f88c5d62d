"""Several date formats in one column, and the order of day and month."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from messages import message, raises
from tempograph.data.importers import csv_reader
from tempograph.data.importers.importer import ImportResult, import_files
from tempograph.data.importers.options import ImportOptions
from tempograph.errors import DataError


def write(path: Path, times: list[str]) -> Path:
    columns = {"subject": [f"a{row}" for row in range(len(times))]}
    columns |= {"relation": ["r"] * len(times), "object": ["b"] * len(times), "time": times}
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        rows = ["\t".join(row) for row in zip(*columns.values(), strict=True)]
        path.write_text("\n".join(["\t".join(columns), *rows]) + "\n")
    return path


def read(*paths: Path, **options: object) -> ImportResult:
    return import_files(list(paths), ImportOptions(**options), "events")  # type: ignore[arg-type]


def times_of(imported: ImportResult) -> list[str]:
    """The time of each row, in the order of the file."""
    graph = imported.graph
    facts = graph.all_facts[graph.all_facts[:, 0].argsort()]
    return [graph.times[time] for *_, time in facts.tolist()]


@pytest.mark.parametrize("name", ["a.tsv", "a.parquet"])
def test_formats_may_be_mixed_in_a_column(tmp_path: Path, name: str) -> None:
    written = {
        "2024-01-31": "2024-01-31",
        "2024/2/1": "2024-02-01",
        "2024.02.02 23:59:59": "2024-02-02",
        "3 February 2024": "2024-02-03",
        "04-feb-2024": "2024-02-04",
        "Feb 5, 2024": "2024-02-05",
        "Sept. 6, 2024": "2024-09-06",
        "07/02/2024 10:15": "2024-02-07",
        "29/02/2024": "2024-02-29",
        "3/15/2024".replace("/", "-"): "2024-03-15",
        "05.05.2024": "2024-05-05",
    }
    imported = read(write(tmp_path / name, list(written)))
    # Subjects are numbered in order of appearance, b after the first.
    assert times_of(imported) == list(written.values())
    assert imported.remarks == (
        message(
            "date_formats.order",
            value="07/02/2024 10:15",
            order="day",
            shown="29/02/2024",
            other="month",
        ),
    )


@pytest.mark.parametrize(
    ("later", "expected"), [("13/02/2024", "2024-02-01"), ("02/13/2024", "2024-01-02")]
)
def test_a_later_date_tells_the_order(tmp_path: Path, later: str, expected: str) -> None:
    """It may be in a later block or file."""
    first = ["01/02/2024", "03/03/2024", "05/02/2024"]
    both = write(tmp_path / "both.tsv", [*first, *["2024-01-01"] * 50, later])
    with patch.object(csv_reader, "_BLOCK", 128):
        assert times_of(read(both))[0] == expected
    files = write(tmp_path / "a.tsv", first), write(tmp_path / "b.tsv", [later])
    assert expected in times_of(read(*files))


def test_an_unknown_order_is_refused_unless_it_is_set(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", ["2024-01-01", "03/03/2024", "01/02/2024", "13.02.2024"])
    problem = message("date_formats.unclear", value="01/02/2024")
    # Skipping such rows is not offered: an option reads them.
    for options in ({}, {"skip_bad": True, "max_bad": 0.5}):
        with raises(DataError, "row_checks.unclear", path=path, line=4, problem=problem):
            read(path, **options)
    assert times_of(read(path, day_first=True))[2] == "2024-02-01"
    option = {"value": "13.02.2024", "option": "--month-first"}
    month_first = message("date_formats.other_order", **option)
    with raises(DataError, "table_reader.line", path=path, line=5, problem=month_first):
        read(path, day_first=False)


def test_dates_of_both_orders_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", ["13/02/2024", "01/02/2024", "02/13/2024"])
    orders = {"day": "13/02/2024", "month": "02/13/2024"}
    problem = message("date_formats.unclear_both", value="01/02/2024", **orders)
    with raises(DataError, "row_checks.unclear", path=path, line=3, problem=problem):
        read(path)
    assert times_of(read(write(path, ["13/02/2024", "02/13/2024"]))) == ["2024-02-13"] * 2


@pytest.mark.parametrize("time", ["31/02/2024", "13/13/2024", "0/1/2024", "2024/13/01", "1/32/24"])
def test_dates_that_do_not_exist_are_refused(tmp_path: Path, time: str) -> None:
    path = write(tmp_path / "a.tsv", ["2024-01-01", time])
    problem = message("time_grid.neither", value=time)
    with raises(DataError, "table_reader.line", path=path, line=3, problem=problem):
        read(path)


@pytest.mark.parametrize(
    ("time", "formats"),
    [
        ("31/12/24", ["%d/%m/%y"]),
        ("12.31.24", ["%m.%d.%y"]),
        ("1-2-24", ["%d-%m-%y", "%m-%d-%y"]),
        ("99/12/31", ["%y/%m/%d"]),
        ("31-Dec-24", ["%d-%b-%y"]),
        ("31/12/24 14:05", ["%d/%m/%y %H:%M"]),
    ],
)
def test_years_of_two_digits_need_a_format(tmp_path: Path, time: str, formats: list[str]) -> None:
    path = write(tmp_path / "a.tsv", [time, time])
    shown = " or ".join(f"--time-format {time_format!r}" for time_format in formats)
    problem = message("date_formats.short_year", value=time, formats=shown)
    with raises(DataError, "table_reader.line", path=path, line=2, problem=problem):
        read(path)
    year = 1999 if "99" in time else 2024
    assert times_of(read(path, time_format=formats[0]))[0].startswith(str(year))


@pytest.mark.parametrize(
    ("time", "time_format"), [("2024-03", "%Y-%m"), ("3/2024", "%m/%Y"), ("Mar 2024", "%b %Y")]
)
def test_months_need_a_format(tmp_path: Path, time: str, time_format: str) -> None:
    path = write(tmp_path / "a.tsv", [time, time])
    named = {"format": f"--time-format {time_format!r}", "granularity": "--granularity month"}
    problem = message("date_formats.no_day", value=time, **named)
    with raises(DataError, "table_reader.line", path=path, line=2, problem=problem):
        read(path)
    assert times_of(read(path, time_format=time_format, granularity="month"))[0] == "2024-03"


def test_text_of_every_kind_tells_the_order(tmp_path: Path) -> None:
    """A Parquet file is read in batches, so the date that tells may be in a later one."""
    times = [*["01/02/2024"] * 100, "13/02/2024"]
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        columns = {"subject": "a", "relation": "r", "object": "b"}
        table = pa.table({name: [value] * 101 for name, value in columns.items()})
        table = table.append_column("time", pa.array(times).cast(kind))
        pq.write_table(table, tmp_path / "a.parquet")
        assert read(tmp_path / "a.parquet").graph.times[0] == "2024-02-01"
