"""What-if questions: facts that are added and removed, later time steps, wrong facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pytest

import tempograph
from messages import message, raises
from predicting import GRAPH, SETTINGS, entity_scores, sample_scores
from tempograph import Predictor
from tempograph.data.fact_ids import to_fact_ids
from tempograph.data.graph import rows_in
from tempograph.data.importers.later_steps import extend_times
from tempograph.data.synthetic.world import make_world
from tempograph.errors import DataError, QueryError

pytest_plugins = ("predictor_fixtures",)

GRID = {"graph": "demo", "count": 20, "first": "2030-01-01", "last": "2030-01-20"}


def test_removing_added_facts_restores_the_model(predictor: Predictor) -> None:
    before, answers = sample_scores(predictor), predictor.objects(0, 0, 9)
    new = [("2030-01-22", 3), ("2030-01-05", 4)]
    rows = [(GRAPH.entities[0], GRAPH.relations[0], GRAPH.entities[o], label) for label, o in new]
    rows = [
        row
        for row in rows
        if not rows_in(to_fact_ids(extend_times(GRAPH, [row[3]])[0], [row]), GRAPH.train).any()
    ]
    predictor.add(rows)
    assert len(predictor.graph.train) == len(GRAPH.train) + len(rows)
    if predictor.model.uses_train_facts:
        assert sample_scores(predictor) != before
    predictor.remove(rows)
    assert sample_scores(predictor) == before and predictor.objects(0, 0, 9) == answers
    gone = [tuple(GRAPH.describe(fact).values()) for fact in GRAPH.train[:3]]
    predictor.remove(gone)
    assert len(predictor.graph.train) == len(GRAPH.train) - 3
    predictor.add(gone[:1])
    predictor.add(gone[1:])
    assert sample_scores(predictor) == before and predictor.graph is GRAPH


@pytest.mark.parametrize("model", ["pointer", "ted"])
def test_repeated_train_facts_are_kept(model: str) -> None:
    twice = replace(GRAPH, train=np.concatenate([GRAPH.train, GRAPH.train[:40]]))
    predictor = Predictor(tempograph.train(twice, model, device="cpu", overrides=SETTINGS[model]))
    before = sample_scores(predictor)
    other = np.array([[0, 0, 3, 5]])
    assert not rows_in(other, twice.train).any()
    predictor.add(np.concatenate([other, other]))
    assert len(predictor.graph.train) == len(twice.train) + 1
    predictor.remove(other)
    assert predictor.graph is predictor.run.graph and sample_scores(predictor) == before


@pytest.mark.parametrize("model", ["pointer", "ted", "temp-gru"])
def test_a_similar_fact_makes_an_answer_more_plausible(model: str) -> None:
    """The pair interacts often: one more such fact makes the answer more plausible."""
    graph = make_world(entities=30, relations=6, steps=40, facts=1500).graph
    settings = {
        "temp-gru": ["model.dim=16", "model.window=4", "train.epochs=40", "train.validate_every=20"]
    }
    run = tempograph.train(graph, model, device="cpu", overrides=settings.get(model, []))
    predictor, better = Predictor(run), 0
    for fact in graph.test[:20]:
        s, r, o, t = fact.tolist()
        near = t + 1 if t + 1 < len(graph.times) else t - 1
        if model != "ted":
            near = t
        beside = (s, r, o, near)
        if rows_in(np.array([beside]), graph.train)[0]:
            continue
        before = entity_scores(predictor.model, s, r, t)
        predictor.add(np.array([beside]))
        after = entity_scores(predictor.model, s, r, t)
        predictor.remove(np.array([beside]))
        better += (after[o] - max(after)) > (before[o] - max(before)) or after[o] == max(after)
    assert better >= 15


def test_facts_at_later_steps_can_be_added_and_queried(predictor: Predictor) -> None:
    before = predictor.objects(0, 0, "2030-01-23", evidence=0)
    assert any("3 days after the last known fact" in note for note in before.notes)
    predictor.add([(0, 0, 1, "2030-01-23"), (1, 0, 2, date(2030, 1, 22))])
    assert predictor.graph.times[-3:] == ("2030-01-21", "2030-01-22", "2030-01-23")
    completion = predictor.objects(0, 0, "2030-01-23", evidence=2)
    assert completion.answers and any(
        "after 2030-01-20, the last step of training" in note for note in completion.notes
    )
    assert (
        next(answer for answer in completion.answers if answer.name == GRAPH.entities[1]).known
        == "train"
    )
    predictor.remove([(0, 0, 1, "2030-01-23")])
    assert predictor.graph.times[-1] == "2030-01-22"


def first_fact(name: str, **values: object) -> str:
    return message("fact_ids.fact", row=0, problem=message(name, **values))


OFF_GRID = message("graph.not_on_grid", time="2029-01-01", **GRID)
WRONG_FACTS = {
    "unknown entity": (
        [("Nobody", 0, 1, 0)],
        first_fact("suggestions.unknown", kind="entity", value="Nobody"),
    ),
    "unknown relation": (
        [(0, "vists", 1, 0)],
        first_fact("suggestions.did_you_mean", kind="relation", value="vists", names="'visits'"),
    ),
    "an id out of range": ([(0, 0, 99, 0)], first_fact("graph.no_id", value=99, last=11)),
    "three parts": ([(0, 0, 1)], message("fact_ids.four_parts", row=0, value=(0, 0, 1))),
    "no name": ([(0, 0, None, 0)], first_fact("table_reader.empty", column="object")),
    "a blank time": ([(0, 0, 1, " ")], first_fact("table_reader.empty", column="time")),
    "a list for a name": (
        [([0], 0, 0, 0)],
        first_fact("id_lookup.not_a_name", column="subject", value=[0]),
    ),
}


@pytest.mark.parametrize(("facts", "expected"), WRONG_FACTS.values(), ids=WRONG_FACTS)
def test_strict_methods_refuse_wrong_facts(
    ted_predictor: Predictor, facts: list[tuple[object, ...]], expected: str
) -> None:
    for act in (ted_predictor.add, ted_predictor.remove, ted_predictor.score):
        with pytest.raises((QueryError, DataError)) as caught:
            act(facts, strict=True)  # type: ignore[arg-type]
        assert str(caught.value) == expected
    assert ted_predictor.graph is GRAPH


def test_times_off_the_grid_are_refused(ted_predictor: Predictor) -> None:
    early = [(0, 0, 1, "2029-01-01")]
    for act in (ted_predictor.add, ted_predictor.remove, ted_predictor.score):
        with raises(QueryError, "fact_ids.fact", row=0, problem=OFF_GRID):
            act(early, strict=True)
    far = message("time_grid.far", time="3030-01-01", steps="365,223", last="2030-01-20")
    with raises(QueryError, "fact_ids.fact", row=0, problem=far):
        ted_predictor.add([(0, 0, 1, "3030-01-01")], strict=True)
    assert ted_predictor.graph is GRAPH


def test_facts_must_be_absent_to_be_added_and_present_to_be_removed(
    ted_predictor: Predictor,
) -> None:
    predictor = ted_predictor
    there = [tuple(GRAPH.train[0].tolist())]
    present, absent = (
        f"({', '.join(GRAPH.describe(facts[0]).values())})" for facts in (GRAPH.train, GRAPH.test)
    )
    problem = message("scenario.present", fact=present)
    with raises(QueryError, "fact_ids.fact", row=0, problem=problem):
        predictor.add(there, strict=True)
    problem = message("scenario.absent", fact=absent)
    with raises(QueryError, "fact_ids.fact", row=0, problem=problem):
        predictor.remove(GRAPH.test[:1], strict=True)
    columns = "'subject', 'relation', 'object'"
    with raises(DataError, "column_guessing.no_table_column", part="time", columns=columns):
        predictor.score(pa.table({"subject": ["a"], "relation": ["b"], "object": ["c"]}))
