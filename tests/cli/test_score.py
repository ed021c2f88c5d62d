"""The command score: it reads a file as `fit` did, and reports wrong rows one by one."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from coded import ICEWS_HEADER, icews_row
from conftest import Call, as_json
from messages import message

pytestmark = pytest.mark.usefixtures("short_fits", "no_drawings")

NFD = unicodedata.normalize("NFD", "José")
UNKNOWN = message("suggestions.did_you_mean", kind="entity", value="Anne", names="'Ann'")


@pytest.fixture
def run(call: Call) -> Path:
    """A run on a file with columns that cannot be guessed, European dates and semicolons."""
    rows = ["p;q;r;s"]
    for day in range(1, 29):
        rows += [f"Ann;meets;Bob;{day:02d}/01/2024", f"José;calls;Cai ;{day:02d}/01/2024"]
        rows += [f"Jose;calls;Ann;{day:02d}/01/2024"]
    Path("events.csv").write_text("\n".join(rows), encoding="utf-8")
    columns = ("--subject", "p", "--relation", "q", "--object", "r", "--time", "s")
    code, _, err = call("fit", "events.csv", *columns, "--model", "ted", "--out", "run")
    assert code == 0, err
    return Path("run")


def names(facts: list[dict[str, object]]) -> list[list[object]]:
    return [[fact[part] for part in ("subject", "relation", "object", "time")] for fact in facts]


def test_a_file_is_read_as_the_import(call: Call, run: Path) -> None:
    lines = ["p,q,r,s", "Ann,meets,Bob,03/01/2024", f" {NFD}, calls,Cai,04/01/2024"]
    Path("new.csv").write_text("\n".join(lines), encoding="utf-8")
    facts = as_json(call("score", "run", "new.csv", "--json"))["facts"]
    assert names(facts) == [
        ["Ann", "meets", "Bob", "2024-01-03"],
        ["José", "calls", "Cai", "2024-01-04"],
    ]
    assert all(fact["known"] and fact["error"] is None for fact in facts)


def test_options_win(call: Call, run: Path) -> None:
    Path("new.csv").write_text("p,q,r,s,subject\nAnn,meets,Bob,01/03/2024,Jose\n")
    given = ("--month-first", "--subject", "subject")
    facts = as_json(call("score", "run", "new.csv", *given, "--json"))["facts"]
    assert names(facts) == [["Jose", "meets", "Bob", "2024-01-03"]]
    Path("new.txt").write_text(f" {NFD}^calls^Cai^04.01.2024\n", encoding="utf-8")
    given = ("--no-header", "--delimiter", "^", "--time-format", "%d.%m.%Y")
    given += ("--subject", "0", "--relation", "1", "--object", "2", "--time", "3")
    facts = as_json(call("score", "run", "new.txt", *given, "--json"))["facts"]
    assert names(facts) == [["José", "calls", "Cai", "2024-01-04"]]
    code, _, err = call("score", "run", "new.txt", *given, "--keep-names", "--strict")
    assert code == 2 and err.startswith("error: new.txt:1: there is no entity")


def test_other_columns_are_guessed_with_a_note(call: Call, run: Path) -> None:
    Path("new.csv").write_text("who,verb,whom,when\nAnn,meets,Bob,2024-01-03\n")
    code, out, err = call("score", "run", "new.csv")
    assert code == 0 and "Ann, meets, Bob" in out
    start = message("batch_options.other", source="new.csv", columns="'p', 'q', 'r', 's'")
    assert f"note: {start}; columns: subject from 'who', " in err
    assert "name them with --subject, --relation, --object and --time\n" in err
    # The files that other commands write need no guess.
    call("missing", "run", "--out", "missing.parquet")
    assert as_json(call("score", "run", "missing.parquet", "--json"))["facts"]


def test_a_column_that_is_not_there_is_one_error(call: Call, run: Path) -> None:
    Path("new.csv").write_text("p,q,r,s\nAnn,meets,Bob,2024-01-03\n")
    code, out, err = call("score", "run", "new.csv", "--subject", "pp")
    assert code == 2 and out == "" and err.count("\n") == 1
    assert err.startswith("error: new.csv: there is no column 'pp' among 'p', 'q', 'r', 's'")


def test_periods_are_written_as_other_times(call: Call, run: Path) -> None:
    """The import has the day first."""
    period = ("--first", "02/01/2024", "--last", "20/01/2024", "--top", "5")
    same = ("--first", "2024-01-02", "--last", "2024-01-20", "--top", "5")
    found = as_json(call("missing", "run", *period, "--json"))
    assert found == as_json(call("missing", "run", *same, "--json"))


def test_wrong_rows_are_reported_and_the_others_scored(call: Call, run: Path) -> None:
    lines = [
        *("p;q;r;s", "Ann;meets;Bob;03/01/2024", "", "Anne;meets;Bob;03/01/2024"),
        *("Ann;meets;Anne;03/01/2024", "Ann;;Bob;03/01/2024", "Ann;meets;Bob"),
        *("Ann;meets;Bob;03/01/2034", "Jose;calls;Ann;05/01/2024"),
    ]
    Path("new.csv").write_text("\n".join(lines))
    code, out, err = call("score", "run", "new.csv", "--out", "scored.parquet")
    assert code == 0 and "2 of 7 facts scored by ted" in out
    kinds = (
        "2 with an unknown entity, 1 with an empty value, 1 with a line that cannot be read, "
        "1 with a time that is not on the grid"
    )
    count = message("row_errors.count", failed=5, rows=7, done="scored", kinds=kinds)
    empty = message("table_reader.empty", column="relation")
    assert err.endswith(
        f"warning: {count}\n  new.csv:4: {UNKNOWN}\n  new.csv:6: {empty}\n"
        "  new.csv:7: wrong number of columns: 'Ann;meets;Bob'\n"
    )
    table = pq.read_table("scored.parquet")
    errors = table["error"].to_pylist()
    assert [bool(error) for error in errors] == [False, *[True] * 5, False]
    assert errors[1] == errors[2] == UNKNOWN and errors[3] == empty
    assert table["object_rank"].null_count == 5 and table["subject"].to_pylist()[1] == "Anne"
    code, out, err = call("score", "run", "new.csv", "--json")
    facts = json.loads(out)["facts"]
    assert code == 0 and [fact["error"] for fact in facts] == errors
    assert err.startswith(f"warning: {count}\n")
    code, out, err = call("score", "run", "new.csv", "--strict", "--out", "strict.parquet")
    assert code == 2 and out == "" and err == f"error: new.csv:4: {UNKNOWN}\n"
    assert not Path("strict.parquet").exists()


def test_coded_events_are_scored_as_they_were_imported(call: Call) -> None:
    days = [f"2014-01-{day:02d}" for day in range(1, 29)]
    rows = [icews_row("Ann", "Make a visit", "Bob", day, "0421") for day in days]
    Path("events.tab").write_text("\n".join([ICEWS_HEADER, *rows]))
    fitted = call("fit", "events.tab", "--relation-level", "base", "--model", "ted", "--out", "run")
    assert fitted[0] == 0, fitted[2]
    rows = [
        icews_row("Ann", "Make a visit", "Bob", "2014-01-05", "0421"),
        icews_row("", "Make a visit", "Bob", "2014-01-05", "0421"),
        icews_row("Ann", "Make a visit", "Bop", "2014-01-05", "0421"),
    ]
    Path("new.tab").write_text("\n".join([ICEWS_HEADER, *rows]))
    code, out, err = call("score", "run", "new.tab")
    assert code == 0 and "Ann, 042, Bob" in out
    skipped = message("bad_rows.one", reason="no subject", path="new.tab", line=3)
    assert f"note: skipped, {skipped}\n" in err and "  new.tab: event 2: there is no entity" in err


def test_help_says_where_options_come_from(call: Call) -> None:
    _, out, _ = call("score", "--help")
    words = " ".join(out.replace("│", " ").split())
    assert "Column with the subject; by default as in the import of the run, or else" in words
    assert "--strict" in out and "--day-first" in out and "--no-header" in out
