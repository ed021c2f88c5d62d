"""Facts and questions in tables, and answers as tables of Arrow, pandas and polars."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import tempograph
from frames import FORMS, fact_columns, pandas
from messages import raises
from predicting import GRAPH
from tempograph import DataError, ImportOptions, Predictor, QueryError

pytest_plugins = ("predictor_fixtures",)

TEST = fact_columns(GRAPH, GRAPH.test[:7])


@pytest.mark.parametrize("form", FORMS)
def test_facts_of_every_form_are_scored(ted_predictor: Predictor, form: str) -> None:
    expected = ted_predictor.score(GRAPH.test[:7])
    assert ted_predictor.score(FORMS[form](TEST)).equals(expected)


@pytest.mark.parametrize("form", FORMS)
def test_facts_of_every_form_are_added_and_removed(ted_predictor: Predictor, form: str) -> None:
    facts = FORMS[form](fact_columns(GRAPH, GRAPH.test[:3]))
    ted_predictor.add(facts)
    assert len(ted_predictor.graph.train) == len(GRAPH.train) + 3
    ted_predictor.remove(facts)
    assert ted_predictor.graph is GRAPH


def test_a_file_is_scored_and_its_columns_are_guessed_or_named(
    ted_predictor: Predictor, tmp_path: Path
) -> None:
    expected = ted_predictor.score(GRAPH.test[:7])
    names = ("who", "verb", "whom", "day")
    table = pa.table(dict(zip(names, TEST.values(), strict=True)))
    pa.csv.write_csv(table, tmp_path / "facts.csv")
    assert ted_predictor.score(tmp_path / "facts.csv").equals(expected)
    table = table.rename_columns(["who", "did", "whom", "day"])
    assert ted_predictor.score(table, options=ImportOptions(relation="did")).equals(expected)
    columns = "'who', 'did', 'whom', 'day'"
    with raises(DataError, "column_guessing.no_table_column", part="relation", columns=columns):
        ted_predictor.score(table)
    days = pa.array([day.strftime("%d/%m/%Y") for day in TEST["time"]])
    european = pa.table(TEST | {"time": days})
    options = ImportOptions(time_format="%d/%m/%Y")
    assert ted_predictor.score(european, options=options).equals(expected)


def test_times_of_every_type_are_understood(ted_predictor: Predictor) -> None:
    label = GRAPH.times[4]
    expected = ted_predictor.objects(0, 0, 4)
    times = [
        label,
        date.fromisoformat(label),
        datetime.fromisoformat(label),
        np.datetime64(label),
        np.datetime64(f"{label}T17:30", "ns"),
        np.int64(4),
    ]
    for time in times:
        assert ted_predictor.objects(0, 0, time) == expected  # type: ignore[arg-type]
        assert len(ted_predictor.times(0, 0, 1, first=time, last=time).answers) == 1  # type: ignore[arg-type]
    grid = {"graph": GRAPH.name, "count": 20, "first": GRAPH.times[0], "last": GRAPH.times[-1]}
    with raises(QueryError, "graph.not_on_grid", time="NaT", **grid):
        ted_predictor.objects(0, 0, np.datetime64("NaT"))
    with raises(QueryError, "graph.not_on_grid", time="2031-02-03", **grid):
        ted_predictor.objects(0, 0, np.datetime64("2031-02-03"))


def test_times_of_pandas_are_understood(ted_predictor: Predictor) -> None:
    label, timestamp = GRAPH.times[4], pandas().Timestamp
    expected = ted_predictor.objects(0, 0, 4)
    assert ted_predictor.objects(0, 0, timestamp(label)) == expected
    assert ted_predictor.objects(0, 0, timestamp(f"{label}T20:00", tz="Asia/Tokyo")) == expected
    with pytest.raises(QueryError, match="^'NaT' is not on the time grid"):
        ted_predictor.objects(0, 0, pandas().NaT)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_fitted(form: str, tmp_path: Path) -> None:
    facts = FORMS[form](fact_columns(GRAPH, GRAPH.all_facts))
    fitted = tempograph.fit(facts, out=tmp_path / "run", model="ted", device="cpu")
    assert fitted.imported.rows == 300 and fitted.evaluation is not None
    assert fitted.columns == {name: name for name in TEST}
    run = tempograph.train(facts, "ted", device="cpu")
    assert run.graph.same_as(fitted.run.graph)


def test_a_graph_is_fitted_as_it_is(tmp_path: Path) -> None:
    fitted = tempograph.fit(GRAPH, out=tmp_path / "run", model="ted", device="cpu")
    assert fitted.run.graph.same_as(GRAPH) and fitted.columns == {}
    few = [("a", "r", "b", "2024-01-01")]
    with pytest.raises(DataError, match="^the table: too few facts, 1, to hold some out"):
        tempograph.fit(few, out=tmp_path / "few", device="cpu")
