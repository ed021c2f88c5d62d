"""Answers to single queries: probabilities, ranks of times, names and notes."""

from __future__ import annotations

import math
from datetime import date

import pyarrow as pa
import pytest

import tempograph
from graphs import make_graph
from messages import raises
from predicting import GRAPH, slow_side
from tempograph import Predictor
from tempograph.errors import QueryError

pytest_plugins = ("predictor_fixtures",)


def test_probabilities_equal_a_loop_over_candidates(predictor: Predictor) -> None:
    subject, relation, _, time = GRAPH.test[0].tolist()
    completion = predictor.objects(subject, relation, time, top=len(GRAPH.entities))
    for answer in completion.answers:
        fact = (subject, relation, GRAPH.entities.index(answer.name), time)
        score, probability, _ = slow_side(predictor, fact, "object")
        assert answer.score == pytest.approx(score, rel=1e-4, abs=1e-4)
        assert answer.probability == (
            None if probability is None else pytest.approx(probability, rel=1e-3)
        )
    if predictor.temperature is not None:
        unknown = [answer.probability or 0 for answer in completion.answers if answer.known is None]
        assert sum(unknown) == pytest.approx(1)


def test_names_ids_and_dates_give_the_same_answers(predictor: Predictor) -> None:
    subject, relation, object_, time = GRAPH.test[0].tolist()
    names = (
        GRAPH.entities[subject],
        GRAPH.relations[relation],
        date.fromisoformat(GRAPH.times[time]),
    )
    assert predictor.objects(*names) == predictor.objects(subject, relation, time)
    fact = GRAPH.describe(GRAPH.test[0])
    rows = [
        fact,
        tuple(fact.values()),
        (subject, relation, object_, time),
        (*names[:2], object_, names[2]),
    ]
    table = predictor.score(pa.Table.from_pylist([fact] * 4))
    assert predictor.score(rows).equals(table) and predictor.score(GRAPH.test[[0] * 4]).equals(
        table
    )


def test_times_are_ranked_by_both_sides(predictor: Predictor) -> None:
    subject, relation, object_, _ = GRAPH.test[0].tolist()
    period = range(4, 15)
    completion = predictor.times(subject, relation, object_, top=30, first=GRAPH.times[4], last=14)
    assert completion.asked == "time" and completion.time is None and "?" in completion.question
    expected = {}
    for time in period:
        sides = [
            slow_side(predictor, (subject, relation, object_, time), side)
            for side in ("object", "subject")
        ]
        probabilities = [probability for _, probability, _ in sides if probability is not None]
        values = [math.log(value) for value in probabilities] or [score for score, _, _ in sides]
        expected[GRAPH.times[time]] = sum(values) / 2
    expected = {label: value for label, value in expected.items() if value > -math.inf}
    assert {answer.name: answer.score for answer in completion.answers} == pytest.approx(
        expected, rel=1e-3, abs=1e-3
    )
    if predictor.temperature is not None:
        total = sum(math.exp(value) for value in expected.values())
        for answer in completion.answers:
            assert answer.probability == pytest.approx(
                math.exp(expected[answer.name]) / total, rel=1e-3
            )


@pytest.mark.parametrize(
    ("objects", "note_start"), [(1, "only 1 candidate has"), (2, "only 2 candidates have")]
)
def test_a_note_counts_the_candidates_with_evidence_if_few_have_any(
    objects: int, note_start: str
) -> None:
    facts = [(0, 0, 1 + number, number) for number in range(objects)]
    run = tempograph.train(
        make_graph(facts, valid=[(0, 0, 1, 3)], entities=5), "ted", overrides=["model.sigma=1"]
    )
    assert any(
        note.startswith(f"{note_start} any evidence")
        for note in Predictor(run).objects(0, 0, 3).notes
    )


def test_a_query_with_two_missing_parts_is_refused(ted_predictor: Predictor) -> None:
    with raises(QueryError, "scenario.three_parts"):
        ted_predictor.objects(None, 0, 0)  # type: ignore[arg-type]
