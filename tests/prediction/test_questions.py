"""Tables of questions: the answers equal those of one question at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tempograph
from frames import FORMS, fact_columns, pandas
from live_service import Answerer
from messages import message, raises
from predicting import GRAPH
from tempograph import ConfigError, DataError, ImportOptions, Predictor, QueryError
from tempograph.data.graph import COLUMNS

pytest_plugins = ("predictor_fixtures",)

Row = tuple[Any, ...]


def slow_answers(predictor: Predictor, question: Row, top: int) -> list[dict[str, Any]]:
    """The answers to one question, by the method for its kind."""
    subject, relation, object_, time = question
    if subject is None:
        completion = predictor.subjects(relation, object_, time, top, 0)
    elif relation is None:
        completion = predictor.relations(subject, object_, time, top, 0)
    elif object_ is None:
        completion = predictor.objects(subject, relation, time, top, 0)
    else:
        completion = predictor.times(subject, relation, object_, top, 0)
    rows: list[dict[str, Any]] = completion.to_arrow().to_pylist()
    return rows


def ask_about(facts: np.ndarray, parts: tuple[int, ...]) -> list[Row]:
    """Each fact in names with one part missing, the parts in turn."""
    rows = []
    for number, fact in enumerate(facts):
        row: list[Any] = list(GRAPH.describe(fact).values())
        row[parts[number % len(parts)]] = None
        rows.append(tuple(row))
    return rows


def test_answers_equal_those_of_one_question_at_a_time(
    predictor: Predictor, answerer: Answerer
) -> None:
    parts = (2, 0, 3) if predictor.model.name == "ted" else (2, 0, 1, 3)
    questions = ask_about(np.concatenate([GRAPH.test[:9], GRAPH.train[:4]]), parts)
    options = {"budget": 3000} if isinstance(answerer, Predictor) else {}
    table = answerer.ask(questions, top=5, **options)
    assert table.column_names == [
        *("question", "subject", "relation", "object", "time", "asked", "answer", "rank"),
        *("score", "probability", "known", "error"),
    ]
    found = table.to_pylist()
    assert [row["question"] for row in found] == sorted(row["question"] for row in found)
    for number, question in enumerate(questions):
        rows = [row for row in found if row["question"] == number]
        expected = slow_answers(predictor, question, 5)
        if not expected:
            assert [row["error"] for row in rows] == [message("batch_answers.no_evidence")]
            continue
        assert [row["rank"] for row in rows] == [row["rank"] for row in expected]
        for key in ("score", "probability"):
            if expected[0][key] is None:
                assert all(row[key] is None for row in rows)
            else:
                assert [row[key] for row in rows] == pytest.approx(
                    [row[key] for row in expected], rel=1e-4, abs=1e-5
                )
        # Candidates with equal scores may come in another order.
        for key in ("answer", "known", "asked", *COLUMNS):
            first = [row for row in rows if row["rank"] < rows[-1]["rank"]]
            wanted = [row for row in expected if row["rank"] < rows[-1]["rank"]]
            assert sorted(map(str, (row[key] for row in first))) == sorted(
                map(str, (row[key] for row in wanted))
            )
        assert all(row["error"] is None and row["answer"] == row[row["asked"]] for row in rows)


@pytest.mark.parametrize("form", [form for form in FORMS if "index" not in form])
def test_questions_of_every_form(ted_answerer: Answerer, form: str) -> None:
    columns = fact_columns(GRAPH, GRAPH.test[:5])
    expected = ted_answerer.ask(ask_about(GRAPH.test[:5], (2,)), top=3)
    columns["object"] = [None] * 5
    assert ted_answerer.ask(FORMS[form](columns), top=3).equals(expected)


def test_a_column_may_be_absent_or_have_another_name(ted_predictor: Predictor) -> None:
    expected = ted_predictor.ask(ask_about(GRAPH.test[:5], (2,)), top=3)
    table = pa.table(fact_columns(GRAPH, GRAPH.test[:5])).drop_columns(["object"])
    assert ted_predictor.ask(table, top=3).equals(expected)
    named = table.rename_columns({"subject": "who"})
    assert ted_predictor.ask(named, top=3, options=ImportOptions(subject="who")).equals(expected)
    days = [day.strftime("%d/%m/%Y") for day in table["time"].to_pylist()]
    european = table.set_column(2, "time", [[*days[:4], "5.5.2030"]])
    answers = ted_predictor.ask(european, top=3, options=ImportOptions(time_format="%d/%m/%Y"))
    kept = expected.to_arrow().filter(pc.less(expected["question"], 4))
    assert answers.slice(0, len(kept)).equals(kept)
    assert answers["error"].to_pylist()[len(kept) :] == [
        "the time '5.5.2030' does not match the time format '%d/%m/%Y'"
    ]
    repeated = pa.table([*table.columns, table["time"]], names=[*table.column_names, "time"])
    with pytest.raises(DataError, match="^the table: 2 columns are named 'time'; rename all but"):
        ted_predictor.ask(repeated)
    columns = "'who', 'relation', 'time'"
    with raises(DataError, "questions.columns", column="subject", columns=columns):
        ted_predictor.ask(named)


def test_wrong_questions_are_reported_row_by_row(
    ted_predictor: Predictor, ted_answerer: Answerer
) -> None:
    good = ask_about(GRAPH.test[:1], (2,))[0]
    subject, relation, _, time = good
    questions = [
        ("Nobody at all", relation, None, time),
        good,
        (subject, relation, GRAPH.entities[1], time),
        (subject, None, None, time),
        (subject, relation, "", "1999-01-01"),
        (subject, None, GRAPH.entities[1], time),
    ]
    table = ted_answerer.ask(questions, top=2)
    unknown = message("suggestions.unknown", kind="entity", value="Nobody at all")
    grid = {"graph": GRAPH.name, "count": 20, "first": GRAPH.times[0], "last": GRAPH.times[-1]}
    errors = {
        0: unknown,
        2: message("questions.one_missing", count=0),
        3: message("questions.one_missing", count=2),
        4: message("graph.not_on_grid", time="1999-01-01", **grid),
    }
    rows = table.to_pylist()
    assert {row["question"]: row["error"] for row in rows if row["error"]} == errors
    assert [row["rank"] for row in rows if row["question"] == 1 and not row["error"]] == [
        row["rank"] for row in slow_answers(ted_predictor, good, 2)
    ]
    assert rows[0] == dict.fromkeys(rows[0]) | {
        **{"question": 0, "subject": "Nobody at all", "relation": relation},
        **{"time": time, "error": unknown},
    }
    for wrong in (questions, [good, questions[3]]):
        with pytest.raises(QueryError):
            ted_answerer.ask(wrong, strict=True)
    with raises(QueryError, "batch_answers.question", row=0, problem=unknown):
        ted_predictor.ask(questions, strict=True)
    with raises(QueryError, "batch_answers.question", row=1, problem=errors[3]):
        ted_predictor.ask([good, questions[3]], strict=True)
    assert {row["asked"] for row in rows if row["question"] == 5} == {"relation"}
    with pytest.raises(ConfigError, match="^top must be at least 1, found 0$"):
        ted_answerer.ask(questions, top=0)


def test_ids_with_a_missing_one_and_no_questions(ted_predictor: Predictor) -> None:
    frame = pandas().DataFrame(
        {"subject": [0, None], "relation": 1, "object": [None, 3], "time": [4, 5]}
    )
    first, last, relation = GRAPH.entities[0], GRAPH.entities[3], GRAPH.relations[1]
    named = [(first, relation, None, GRAPH.times[4]), (None, relation, last, GRAPH.times[5])]
    expected = ted_predictor.ask(named, top=2)
    assert ted_predictor.ask(frame, top=2).equals(expected)
    none = pa.table({name: pa.array([], pa.string()) for name in COLUMNS})
    assert len(ted_predictor.ask(none)) == 0 == len(ted_predictor.ask([]))
    assert ted_predictor.ask(none).schema.equals(expected.schema)
    with raises(DataError, "questions.nested", part="object", kind="list<item: int64>"):
        ted_predictor.ask([("a", "b", [1], None)])
    for wrong in (True, 0.5):
        (row,) = ted_predictor.ask([(0, 1, None, wrong)]).to_pylist()
        assert row["error"] == message("id_lookup.not_a_name", column="time", value=wrong)


def test_answers_are_questions_and_facts_again(ted_predictor: Predictor) -> None:
    pandas()
    frame = ted_predictor.ask(ask_about(GRAPH.test[:5], (2,)), top=3).to_pandas()
    scored = ted_predictor.score(frame).to_pandas()
    assert scored["object_score"].tolist() == pytest.approx(frame["score"].tolist())
    run = tempograph.train(frame, "ted", device="cpu")
    assert len(run.graph.all_facts) == len(frame[["subject", "relation", "object", "time"]])
