"""The command update: it reads a file as `fit` did, reports what changed, and refuses bad rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import tempograph
from coded import ICEWS_HEADER, icews_row
from conftest import Call, as_json
from messages import message
from tempograph import ImportOptions
from updating import files_of

HEADER = "who;what;whom;day"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a file with semicolons and European dates; tests copy it."""
    folder = tmp_path_factory.mktemp("fitted")
    rows = [HEADER]
    for day in range(1, 29):
        rows += [f"Ann;meets;Bob;{day:02d}/01/2024", f"Bob;calls;Cai;{day:02d}/01/2024"]
    (folder / "events.csv").write_text("\n".join(rows), encoding="utf-8")
    options = ImportOptions(subject="who", relation="what", object="whom", time="day")
    events, out = folder / "events.csv", folder / "run"
    tempograph.fit(events, out=out, options=options, model="ted", progress=False)
    return out


@pytest.fixture
def run(call: Call, fitted: Path) -> Path:
    """The run, and a file of the day after it, in the current folder."""
    shutil.copytree(fitted, "run")
    write("day.csv", "Ann;meets;Bob;29/01/2024", "Zoe;meets; Bob;29/01/2024")
    return Path("run")


def write(name: str, *rows: str) -> None:
    Path(name).write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")


def test_a_day_enters_a_run(call: Call, run: Path) -> None:
    code, out, err = call("update", "run", "day.csv")
    assert code == 0 and err == ""
    assert out.splitlines() == [
        "2 rows = 2 new facts + 0 known + 0 repeated + 0 bad.",
        "New entities: 1, Zoe.",
        "New steps: 1, 2024-01-29.",
        "One update since the figures were measured added 2 facts, 1 entity and 1 step, up to "
        "2024-01-29; answers use them, the figures do not.",
    ]
    asked = ("complete", "run", "--subject", "Zoe", "--relation", "meets", "--time", "2024-01-29")
    answers = as_json(call(*asked, "--json"))["answers"]
    assert [answer["name"] for answer in answers if answer["known"]] == ["Bob"]
    again = as_json(call("update", "run", "day.csv", "--json"))
    assert (again["facts"], again["known"], again["run"]) == (0, 2, "run")
    code, out, err = call("update", "run", "day.csv")
    assert code == 0 and out.endswith("run is as it was.\n")


def test_json_says_what_changed(call: Call, run: Path) -> None:
    write("mixed.csv", "Zoe;hugs;Bob;30/01/2024", "Ann;meets;Bob;01/01/2024", "Ann;;Bob;30/01/2024")
    found = as_json(call("update", "run", "mixed.csv", "--skip-bad", "--max-bad", "1", "--json"))
    assert {name: found[name] for name in ("rows", "facts", "known", "repeated")} == {
        **{"rows": 3, "facts": 1, "known": 1, "repeated": 0}
    }
    assert found["skipped"] == [
        {
            "reason": "an empty value",
            "rows": 1,
            "first": "mixed.csv:4",
            "examples": [{"value": "Ann, , Bob, 30/01/2024", "at": "mixed.csv:4"}],
        }
    ]
    assert found["entities"] == {"added": 1, "examples": ["Zoe"]}
    assert found["relations"] == {"added": 1, "examples": ["hugs"]}
    assert found["steps"] == {"added": 2, "examples": ["2024-01-29", "2024-01-30"]}
    assert found["updates"]["number"] == 1 and "the figures do not" in found["measured"]


def test_evaluate_says_what_the_figures_rest_on(call: Call, run: Path) -> None:
    before = as_json(call("evaluate", "run", "--json"))
    call("update", "run", "day.csv")
    after = as_json(call("evaluate", "run", "--json"))
    note = "measured with the data and weights from before the run was updated"
    assert after["note"] == note and after["metrics"] == before["metrics"]
    code, out, _ = call("evaluate", "run")
    assert code == 0 and note in out
    stored = json.loads((run / "results.json").read_text())
    assert stored["updates"]["facts"] == 2 and stored["test"]["note"] == note
    assert "One update since the figures were measured" in (run / "README.md").read_text()
    code, out, _ = call("evaluate", "run", "--ask", "relation")
    assert code == 0 and note in out
    assert as_json(call("evaluate", "run", "--ask", "relation", "--json"))["note"] == note


BAD = {
    "an empty name": (("Ann;;Bob;29/01/2024",), "day2.csv:2: the relation is empty"),
    "an unreadable date": (("Ann;meets;Bob;soon",), "day2.csv:2: 'soon' is not on the time grid"),
    "an early date": (("Ann;meets;Bob;01/01/1990",), "day2.csv:2: '01/01/1990' is not on the time"),
    "a broken line": (("Ann;meets;Bob",), "day2.csv:2: wrong number of columns: 'Ann;meets;Bob'"),
}


@pytest.mark.parametrize(("rows", "problem"), BAD.values(), ids=BAD)
def test_a_bad_row_stops_the_update(
    call: Call, run: Path, rows: tuple[str, ...], problem: str
) -> None:
    write("day2.csv", *rows, "Ann;meets;Bob;29/01/2024")
    files = files_of(run)
    code, out, err = call("update", "run", "day2.csv")
    assert code == 2 and out == "" and err.startswith(f"error: {problem}")
    assert err.endswith("; --skip-bad skips such rows; nothing was changed\n")
    assert files_of(run) == files
    code, out, err = call("update", "run", "day2.csv", "--skip-bad", "--max-bad", "0.5")
    assert code == 0 and "note: skipped, " in err and "1 new facts + 0 known" in out


def test_wrong_arguments_are_explained(call: Call, run: Path) -> None:
    files = files_of(run)
    Path("other.csv").write_text("a,b\n1,2\n")
    code, _, err = call("update", "run", "other.csv")
    assert code == 2 and "other.csv" in err and "no column" in err
    code, _, err = call("update", "run", "nothing.csv")
    assert code == 2 and "nothing.csv" in err
    code, _, err = call("update", "nowhere", "day.csv")
    assert code == 2 and err == f"error: {message('run_folder.no_run', path='nowhere')}\n"
    code, _, err = call("update", "run", "day.csv", "--out", "day.csv")
    assert code == 2 and err == f"error: {message('io.exists', path='day.csv')}\n"
    code, _, err = call("update", "run", "day.csv", "--time", "nope")
    assert code == 2 and "nope" in err
    assert files_of(run) == files


def test_another_folder_and_training(call: Call, run: Path) -> None:
    files = files_of(run)
    code, out, _ = call("update", "run", "day.csv", "--out", "new", "--train")
    assert code == 0 and out.endswith("Written to new.\n") and files_of(run) == files
    # TED has no weights to train.
    assert as_json(call("update", "new", "day.csv", "--train", "3", "--json"))["trained"] == []
    settings = ("model.dim=4", "train.epochs=1", "--device", "cpu", "--out", "complex")
    assert call("train", "run/dataset", "--model", "complex", *settings)[0] == 0
    arguments = ("update", "complex", "day.csv", "--device", "cpu", "--day-first")
    columns = ("--subject", "who", "--relation", "what", "--object", "whom", "--time", "day")
    code, out, err = call(*arguments, "--train", *columns)
    assert code == 0 and "Trained for an epoch on all facts: complex." in out, err
    found = as_json(call(*arguments, *columns, "--train", "2", "--json"))
    assert found["trained"] == ["complex"] and found["updates"]["epochs"] == 3


def test_coded_events_are_read_as_they_were_imported(call: Call) -> None:
    days = [f"2014-01-{day:02d}" for day in range(1, 29)]
    rows = [icews_row("Ann", "Make a visit", "Bob", day, "0421") for day in days]
    Path("events.tab").write_text("\n".join([ICEWS_HEADER, *rows]))
    assert call("fit", "events.tab", "--model", "ted", "--out", "run")[0] == 0
    rows = [
        icews_row("Ann", "Make a visit", "Bob", "2014-02-01", "0421"),
        icews_row("", "Make a visit", "Bob", "2014-02-01", "0421"),
    ]
    Path("new.tab").write_text("\n".join([ICEWS_HEADER, *rows]))
    code, out, err = call("update", "run", "new.tab")
    assert code == 0 and "2 rows = 1 new facts + 0 known + 0 repeated + 1 bad." in out
    skipped = message("bad_rows.one", reason="no subject", path="new.tab", line=3)
    assert err == f"note: skipped, {skipped}\n"
