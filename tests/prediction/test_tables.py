"""Facts and questions in tables, and answers as tables of Arrow, pandas and polars."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import tempograph
from frames import FORMS, Stream, fact_columns, pandas, polars
from messages import raises
from predicting import GRAPH
from tempograph import ConfigError, DataError, ImportOptions, Predictor, QueryError, ResultTable
from tempograph.data.result_table import Tabular

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


LABEL = GRAPH.times[4]
TIMES: dict[str, Callable[[], Any]] = {
    "text": lambda: LABEL,
    "text with an hour": lambda: f"{LABEL}T17:30",
    "date": lambda: date.fromisoformat(LABEL),
    "datetime": lambda: datetime.fromisoformat(f"{LABEL}T17:30"),
    "datetime64 of days": lambda: np.datetime64(LABEL),
    "datetime64 of nanoseconds": lambda: np.datetime64(f"{LABEL}T17:30", "ns"),
    "Timestamp": lambda: pandas().Timestamp(f"{LABEL}T17:30"),
    "Timestamp with a zone": lambda: pandas().Timestamp(f"{LABEL}T20:00", tz="Asia/Tokyo"),
    "id": lambda: np.int64(4),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_of_every_type_are_understood_everywhere(predictor: Predictor, kind: str) -> None:
    time = TIMES[kind]()
    fact = (GRAPH.entities[0], GRAPH.relations[0], GRAPH.entities[1])
    subject, relation, object_ = fact
    calls: dict[str, Callable[[Any], Any]] = {
        "objects": lambda when: predictor.objects(subject, relation, when, top=3),
        "subjects": lambda when: predictor.subjects(relation, object_, when, top=3),
        "why": lambda when: predictor.why(*fact, when),
        "times": lambda when: predictor.times(*fact, first=when, last=when),
        "missing": lambda when: predictor.missing(first=when, last=when, top=3),
        "score": lambda when: predictor.score([(*fact, when)]),
        "score, dicts": lambda when: predictor.score([dict(zip(TEST, (*fact, when), strict=True))]),
        "ask": lambda when: predictor.ask(
            [{"subject": subject, "relation": relation, "time": when}]
        ),
    }
    if predictor.model.name != "ted":
        calls["relations"] = lambda when: predictor.relations(subject, object_, when, top=3)
    for name, call in calls.items():
        found, expected = call(time), call(LABEL)
        same = found.equals(expected) if isinstance(found, ResultTable) else found == expected
        assert same, name
    known = predictor.score([(*fact, LABEL)])["known"][0].as_py()
    if known != "train":
        predictor.add([(*fact, time)])
        assert predictor.score([(*fact, LABEL)])["known"][0].as_py() == "train"
        predictor.remove([(*fact, time)])


def test_times_off_the_grid_are_refused(ted_predictor: Predictor) -> None:
    grid = {"graph": GRAPH.name, "count": 20, "first": GRAPH.times[0], "last": GRAPH.times[-1]}
    with raises(QueryError, "graph.not_on_grid", time="NaT", **grid):
        ted_predictor.objects(0, 0, np.datetime64("NaT"))
    with raises(QueryError, "graph.not_on_grid", time="2029-02-03T00:00:00", **grid):
        ted_predictor.objects(0, 0, np.datetime64("2029-02-03"))


def test_the_missing_time_of_pandas_is_refused(ted_predictor: Predictor) -> None:
    with pytest.raises(QueryError, match="^'NaT' is not on the time grid"):
        ted_predictor.objects(0, 0, pandas().NaT)


def results(predictor: Predictor) -> dict[str, Tabular]:
    missing = predictor.missing(first=3, last=5, top=4)
    assert not isinstance(missing, int)
    relations = {} if predictor.model.name == "ted" else {"r": predictor.relations(0, 1, 4, top=2)}
    return relations | {
        "objects": predictor.objects(0, 0, 4, top=3),
        "times": predictor.times(0, 0, 1, top=2),
        "scores": predictor.score(GRAPH.test[:4]),
        "scores without ranks": predictor.score(GRAPH.test[:4], ranks=False),
        "no scores": predictor.score([]),
        "missing": missing,
        "surprising": predictor.surprising(top=5),
        "evaluation": tempograph.evaluate(predictor.run, "test"),
    }


def test_results_are_tables_of_arrow_pandas_and_polars(predictor: Predictor) -> None:
    for name, result in results(predictor).items():
        table = result.to_arrow()
        assert pa.table(result).equals(table), name
        assert table.column_names[:4] == list(TEST), name
        assert {str(table.schema.field(part).type) for part in TEST} == {"string"}, name
        rows = table.to_pylist()
        frame = polars().DataFrame(result)
        assert result.to_polars().equals(frame) and frame.to_dicts() == rows, name
        columns = result.to_pandas()
        assert list(columns.columns) == table.column_names and len(columns) == len(table), name
        for part in TEST:
            assert columns[part].tolist() == table[part].to_pylist(), name
        assert all(columns[each].dtype.kind in "fi" for each in columns if each.endswith("score"))


def test_answers_as_a_table(predictor: Predictor) -> None:
    completion = predictor.objects(0, 0, 4, top=3)
    rows = completion.to_arrow().to_pylist()
    for row, answer in zip(rows, completion.answers, strict=True):
        assert row == {
            **{"subject": completion.subject, "relation": completion.relation},
            **{"object": answer.name, "time": completion.time},
            **{"asked": "object", "answer": answer.name, "rank": answer.rank},
            **{"score": answer.score, "probability": answer.probability, "known": answer.known},
            **{"why": answer.why, "evidence_count": answer.evidence_count},
        }
    scored = predictor.score(completion.to_arrow())
    assert scored["object_score"].to_pylist() == pytest.approx([row["score"] for row in rows])


def test_ranks_as_a_table(ted_predictor: Predictor) -> None:
    evaluation = tempograph.evaluate(ted_predictor.run, "test")
    table, ids = evaluation.to_arrow(), evaluation.table()
    assert table["rank"].equals(ids["rank"]) and table["side"].equals(ids["side"])
    for row, fact in zip(table.to_pylist(), np.tile(GRAPH.test, (2, 1)), strict=True):
        assert {part: row[part] for part in TEST} == GRAPH.describe(fact)


def test_a_result_table_is_still_an_arrow_table(ted_predictor: Predictor) -> None:
    table = ted_predictor.score(GRAPH.test[:4])
    arrow = table.to_arrow()
    assert table.equals(arrow) and table.equals(ted_predictor.score(Stream(arrow)))
    assert len(table) == 4 and table["subject"].equals(arrow["subject"])
    assert table.slice(0, 2).equals(arrow.slice(0, 2)) and table.schema == arrow.schema
    with pytest.raises(AttributeError):
        _ = table._nothing


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named(
    ted_predictor: Predictor, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with raises(ConfigError, "result_table.not_installed", package=package):
        getattr(ted_predictor.objects(0, 0, 4), f"to_{package}")()


def test_results_are_short_when_printed(ted_predictor: Predictor) -> None:
    assert repr(ted_predictor) == (
        "Predictor(ted on demo: 12 entities, 4 relations, 20 steps, 300 facts)"
    )
    assert repr(ted_predictor.run) == repr(ted_predictor).replace("Predictor", "Run")
    assert repr(ted_predictor.run.graph).startswith("TemporalGraph(demo: 12 entities")
    completion = ted_predictor.objects(0, 0, 4, top=2)
    best = completion.answers[0]
    assert repr(completion) == (
        f"Completion({completion.question}: 2 answers, the best {best.name!r})"
    )
    assert ": 1 answer, the best " in repr(ted_predictor.objects(0, 0, 4, top=1))
    assert repr(best) == f"Answer(1, {best.name!r}, {best.probability:.1%})"
    assert repr(ted_predictor.score([])) == (
        "ResultTable(0 rows: subject, relation, object, time, known, object_score, "
        "object_probability, object_rank, subject_score, subject_probability, subject_rank, error)"
    )
    evaluation = tempograph.evaluate(ted_predictor.run, "test")
    mrr = evaluation.summary()["metrics"]["mrr"]
    assert repr(evaluation).startswith(f"Evaluation(ted on demo, test: 30 facts, MRR {mrr:.3f},")
