"""What-if questions: facts that are added and removed, later time steps, wrong facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pytest

import tempograph
from predicting import GRAPH, SETTINGS, entity_scores, sample_scores
from tempograph import Predictor
from tempograph.data.fact_ids import to_fact_ids
from tempograph.data.graph import rows_in
from tempograph.data.importers.time_grid import extend_times
from tempograph.data.synthetic.world import make_world
from tempograph.errors import DataError, QueryError

pytest_plugins = ("predictor_fixtures",)


def test_removing_added_facts_restores_the_model(predictor: Predictor) -> None:
    before, answers = sample_scores(predictor), predictor.objects(0, 0, 9)
    new = [("2030-01-22", 3), ("2030-01-05", 4)]
    rows = [(GRAPH.entities[0], GRAPH.relations[0], GRAPH.entities[o], label) for label, o in new]
    rows = [
        row
        for row in rows
        if not rows_in(to_fact_ids(extend_times(GRAPH, [row[3]]), [row]), GRAPH.train).any()
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
    with pytest.raises(QueryError, match="'2030-01-23' is not on the time grid"):
        predictor.objects(0, 0, "2030-01-23")
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


WRONG_FACTS = {
    "unknown entity": ([("Nobody", 0, 1, 0)], "fact 0: there is no entity 'Nobody'"),
    "unknown relation": (
        [(0, "vists", 1, 0)],
        "fact 0: there is no relation 'vists'; did you mean 'visits'",
    ),
    "a time before the first": (
        [(0, 0, 1, "2029-01-01")],
        "'2029-01-01' is not on the time grid of demo",
    ),
    "a far time": (
        [(0, 0, 1, "3030-01-01")],
        "365,223 steps after the last one, 2030-01-20; is it a typo?",
    ),
    "an id out of range": ([(0, 0, 99, 0)], "fact 0: there is no entity 99; ids run from 0 to 11"),
    "three parts": ([(0, 0, 1)], "fact 0 must be a subject, a relation, an object and a time"),
    "no name": ([(0, 0, None, 0)], "fact 0: the object must be a name or an id, found None"),
    "a list for a name": (
        [([0], 0, 0, 0)],
        r"fact 0: the subject must be a name or an id, found \[0\]",
    ),
}


@pytest.mark.parametrize(("facts", "message"), WRONG_FACTS.values(), ids=WRONG_FACTS)
def test_wrong_facts_are_refused_with_one_line(
    ted_predictor: Predictor, facts: list[tuple[object, ...]], message: str
) -> None:
    predictor = ted_predictor
    for ask in (predictor.add, predictor.remove, predictor.score):
        if ask != predictor.add and "typo" in message:
            continue
        with pytest.raises((QueryError, DataError), match=message.replace("?", r"\?")) as caught:
            ask(facts)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
    assert predictor.graph is GRAPH
    there = [tuple(GRAPH.train[0].tolist())]
    with pytest.raises(QueryError, match="is already among the facts"):
        predictor.add(there)
    with pytest.raises(QueryError, match="is not among the facts that the model uses"):
        predictor.remove(GRAPH.test[:1])
    with pytest.raises(DataError, match=".time. is missing"):
        predictor.score(pa.table({"subject": ["a"], "relation": ["b"], "object": ["c"]}))
