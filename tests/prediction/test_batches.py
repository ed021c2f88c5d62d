"""Batches with wrong rows: the others are scored, added or removed, and the wrong ones returned."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tempograph
from frames import FORMS, Columns, pandas
from live_service import Answerer
from messages import message
from predicting import GRAPH, sample_scores
from tempograph import ImportOptions, Predictor, QueryError, TempographWarning
from tempograph.data.graph import COLUMNS

pytest_plugins = ("predictor_fixtures",)

OFF_GRID = message(
    "graph.not_on_grid",
    time="1999-01-01",
    graph=GRAPH.name,
    count=20,
    first=GRAPH.times[0],
    last=GRAPH.times[-1],
)


def batch(facts: np.ndarray) -> tuple[list[tuple[Any, ...]], dict[int, str]]:
    """Rows in names of which every third is right, and what is wrong with the others."""
    rows, errors = [], dict[int, str]()
    for fact in facts:
        subject, relation, object_, time = GRAPH.describe(fact).values()
        rows += [
            (subject, relation, object_, time),
            ("Nobody at all", relation, "No one either", time),
            (subject, relation, object_, "1999-01-01"),
        ]
    for row in range(0, len(rows), 3):
        errors[row + 1] = message("suggestions.unknown", kind="entity", value="Nobody at all")
        errors[row + 2] = OFF_GRID
    rows += [(None, *rows[0][1:]), (*rows[0][:1], "vists", *rows[0][2:])]
    errors[len(rows) - 2] = message("table_reader.empty", column="subject")
    wrong = {"kind": "relation", "value": "vists", "names": "'visits'"}
    errors[len(rows) - 1] = message("suggestions.did_you_mean", **wrong)
    return rows, errors


@pytest.mark.parametrize("ranks", [True, False])
def test_wrong_facts_have_an_error_and_no_scores(answerer: Answerer, ranks: bool) -> None:
    rows, errors = batch(GRAPH.test[:4])
    right = [row for number, row in enumerate(rows) if number not in errors]
    expected = answerer.score(right, ranks=ranks)
    table = answerer.score(rows, ranks=ranks)
    assert table.schema.equals(expected.schema)
    found = table.to_pylist()
    assert {number: row["error"] for number, row in enumerate(found) if row["error"]} == errors
    for row, wanted in zip(
        (row for row in found if not row["error"]), expected.to_pylist(), strict=True
    ):
        # Rounding depends on which facts are scored together.
        assert row == {
            name: pytest.approx(value, rel=1e-4, abs=1e-4) if isinstance(value, float) else value
            for name, value in wanted.items()
        }
    for number in errors:
        assert tuple(found[number][name] for name in COLUMNS) == rows[number]
        numbers = (value for name, value in found[number].items() if name not in COLUMNS)
        assert [value for value in numbers if value is not None] == [errors[number]]
    with pytest.raises(QueryError) as caught:
        answerer.score(rows, ranks=ranks, strict=True)
    if isinstance(answerer, Predictor):
        assert str(caught.value) == message("fact_ids.fact", row=1, problem=errors[1])
    else:
        assert str(caught.value).startswith("facts.1.subject: there is no subject 'Nobody at all'")


@pytest.mark.parametrize("form", ["pandas", "polars", "arrow", "tuples", "dicts"])
def test_wrong_facts_of_every_form(ted_answerer: Answerer, form: str) -> None:
    rows, errors = batch(GRAPH.test[:2])
    columns: Columns = dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    texts = ted_answerer.score(FORMS[form](columns))["error"].to_pylist()
    assert {number: text for number, text in enumerate(texts) if text} == errors


def test_ids_out_of_range_are_reported_row_by_row(ted_predictor: Predictor) -> None:
    ids = np.array([[0, 0, 1, 2], [0, 0, 99, 2], [0, -1, 1, 2], [0, 0, 1, 20]])
    first, *others = ted_predictor.score(ids).to_pylist()
    (expected,) = ted_predictor.score(ids[:1]).to_pylist()
    assert first == expected
    assert [row["error"] for row in others] == [
        message("graph.no_id", value=99, last=11),
        "there is no relation -1; ids run from 0 to 3",
        "there is no time step 20; ids run from 0 to 19",
    ]
    # What is known of a wrong fact is named.
    assert [others[0][name] for name in COLUMNS] == [
        *(GRAPH.entities[0], GRAPH.relations[0], "99", GRAPH.times[2])
    ]
    frame = pandas().DataFrame(ids, columns=list(COLUMNS)).astype({"object": "float"})
    frame.loc[3, "object"] = np.nan
    again = ted_predictor.score(frame).to_pylist()
    assert again[0] == first
    assert again[3]["error"] == others[2]["error"], "of two errors, that of the value comes first"


def test_no_fact_may_be_right(ted_predictor: Predictor) -> None:
    (row,) = ted_predictor.score([("Nobody", "visits", 0, 0)]).to_pylist()
    assert row["error"] == message("suggestions.unknown", kind="entity", value="Nobody")
    with pytest.warns(TempographWarning):
        assert len(ted_predictor.add([("Nobody", "visits", 0, 0)])) == 1
    assert ted_predictor.graph is GRAPH and len(ted_predictor.add([])) == 0


def test_right_facts_are_added_and_removed_and_the_others_returned(predictor: Predictor) -> None:
    before = sample_scores(predictor)
    rows, errors = batch(GRAPH.test[:4])
    present = "({})".format(", ".join(GRAPH.describe(GRAPH.train[0]).values()))
    rows.append(tuple(GRAPH.train[0].tolist()))
    errors[len(rows) - 1] = message("scenario.present", fact=present)
    kinds = "4 with an unknown entity, 4 with a time that is not on the grid, 1 with an empty value"
    with pytest.warns(TempographWarning) as caught:
        rejected = predictor.add(rows)
    count = {"failed": 11, "rows": 15, "done": "added"}
    start = message("row_errors.count", kinds=kinds, **count)
    assert str(caught[0].message).startswith(f"{start}, 1 with an unknown relation, ")
    assert str(caught[0].message).endswith(f"; the first is fact 1: {errors[1]}")
    assert caught[0].filename == __file__
    assert rejected.column_names == ["row", *COLUMNS, "error"]
    assert dict(zip(rejected["row"].to_pylist(), rejected["error"].to_pylist(), strict=True)) == (
        errors
    )
    assert len(predictor.graph.train) == len(GRAPH.train) + 4
    if predictor.model.uses_train_facts:
        assert sample_scores(predictor) != before
    # The last row is a train fact, which `remove` would take away.
    with pytest.warns(TempographWarning, match=r"^10 of 14 rows cannot be removed: 4 with "):
        rejected = predictor.remove(rows[:-1])
    assert rejected["row"].to_pylist() == sorted(errors)[:-1]
    assert predictor.graph is GRAPH and sample_scores(predictor) == before
    with pytest.warns(TempographWarning, match=r"\) is not among the facts that the model uses$"):
        rejected = predictor.remove(GRAPH.test[:1])
    assert [tuple(row[name] for name in COLUMNS) for row in rejected.to_pylist()] == rows[:1]


def test_strict_changes_are_all_or_none(ted_predictor: Predictor) -> None:
    rows, errors = batch(GRAPH.test[:4])
    for change in (ted_predictor.add, ted_predictor.remove):
        facts = rows if change == ted_predictor.add else [GRAPH.train[0].tolist(), *rows]
        with pytest.raises(QueryError, match=r"^fact \d+: "):
            change(facts, strict=True)
        assert ted_predictor.graph is GRAPH
    right = [row for number, row in enumerate(rows) if number not in errors]
    assert len(ted_predictor.add(right, strict=True)) == 0
    assert len(ted_predictor.graph.train) == len(GRAPH.train) + 4


def test_nothing_changes_where_the_warning_is_an_error(ted_predictor: Predictor) -> None:
    rows, _ = batch(GRAPH.test[:4])
    with pytest.raises(TempographWarning):
        ted_predictor.add(rows)
    assert ted_predictor.graph is GRAPH


def test_later_steps_of_rejected_facts_are_not_added(ted_predictor: Predictor) -> None:
    rows = [(0, 0, 1, "2030-01-22"), ("Nobody", 0, 1, "2030-02-22"), (0, 0, 1, "3030-01-01")]
    with pytest.warns(TempographWarning, match="^2 of 3 rows cannot be added: "):
        rejected = ted_predictor.add(rows)
    assert ted_predictor.graph.times[-1] == "2030-01-22"
    far = message("time_grid.far", time="3030-01-01", steps="365,223", last="2030-01-20")
    assert rejected["error"].to_pylist()[1] == far


@pytest.fixture
def imported(tmp_path: Path) -> Predictor:
    """A model of events with columns that no one could guess, and names to be cleaned."""
    rows = ["p;q;r;s"]
    for day in range(1, 29):
        rows += [f"Ann;meets;Bob;{day:02d}/01/2024", f"José;calls;Cai ;{day:02d}/01/2024"]
        rows += [f"Jose;calls;Ann;{day:02d}/01/2024"]
    (tmp_path / "events.csv").write_text("\n".join(rows), encoding="utf-8")
    options = ImportOptions("p", "q", "r", "s", valid_share=0, test_share=0)
    settings = {"options": options, "overrides": ["model.sigma=1"], "out": tmp_path / "run"}
    tempograph.train(tmp_path / "events.csv", "ted", device="cpu", **settings)  # type: ignore[arg-type]
    return Predictor(tmp_path / "run")


NFD = unicodedata.normalize("NFD", "José")
BATCH = {"p": ["Ann", f" {NFD}"], "q": ["meets", "calls "], "r": ["Bob", "Cai"]}
BATCH |= {"s": ["03/01/2024", "04/01/2024"]}
NAMES = [("Ann", "meets", "Bob", "2024-01-03"), ("José", "calls", "Cai", "2024-01-04")]


@pytest.mark.parametrize("form", ["file", "parquet", "pandas", "arrow", "dicts", "tuples"])
def test_a_batch_is_read_as_the_import(imported: Predictor, form: str, tmp_path: Path) -> None:
    given: Any
    if form == "file":
        given = tmp_path / "new.csv"
        lines = ["p|q|r|s", *("|".join(row) for row in zip(*BATCH.values(), strict=True))]
        given.write_text("\n".join(lines), encoding="utf-8")
    elif form == "parquet":
        given = str(tmp_path / "new.parquet")
        pa.parquet.write_table(pa.table(BATCH), given)
    elif form == "tuples":
        given = list(zip(*BATCH.values(), strict=True))
    else:
        given = FORMS[form](BATCH)
    table = imported.score(given)
    assert table["error"].null_count == 2, table["error"]
    assert [tuple(row[name] for name in COLUMNS) for row in table.to_pylist()] == NAMES
    imported.remove(given, strict=True)
    assert len(imported.graph.train) == 82
    imported.add(given, strict=True)
    assert len(imported.graph.train) == 84
    if form in ("pandas", "arrow", "dicts"):
        questions = FORMS[form]({name: BATCH[name] for name in "pqs"})
        answers = imported.ask(questions, top=1, strict=True)
        assert answers["object"].to_pylist() == ["Bob", "Cai"]


def test_other_columns_are_guessed_with_a_warning(imported: Predictor) -> None:
    guessed = pa.table(dict(zip(("who", "verb", "whom", "when"), BATCH.values(), strict=True)))
    guessed = guessed.set_column(3, "when", [["2024-01-03", "2024-01-04"]])
    with pytest.warns(TempographWarning) as caught:
        table = imported.score(guessed)
    assert [tuple(row[name] for name in COLUMNS) for row in table.to_pylist()] == NAMES
    start = message("batch_options.other", source="the table", columns="'p', 'q', 'r', 's'")
    assert str(caught[0].message).startswith(f"{start}; columns: subject from 'who'")
    assert caught[0].filename == __file__
    # The columns of a result need no guess, and options win.
    assert imported.score(table).equals(table)
    options = ImportOptions("who", "verb", "whom", "when")
    assert imported.score(guessed, options=options).equals(table)
    options = ImportOptions(time_format="%m/%d/%Y")
    times = imported.score(pa.table(BATCH | {"s": ["01/03/2024"] * 2}), options=options)["time"]
    assert times.to_pylist() == ["2024-01-03"] * 2
