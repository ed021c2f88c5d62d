"""Answers to single queries: probabilities, ranks of times, names and notes."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest
import torch

import tempograph
from graphs import make_graph
from live_service import Answerer
from messages import raises
from predicting import GRAPH, entity_scores, slow_share
from tempograph import Predictor
from tempograph.errors import ConfigError, QueryError

pytest_plugins = ("predictor_fixtures",)


@pytest.mark.parametrize("new", [False, True])
def test_probabilities_equal_a_loop_over_candidates(
    predictor: Predictor, answerer: Answerer, new: bool
) -> None:
    subject, relation, _, time = GRAPH.test[0].tolist()
    scores = entity_scores(predictor.model, subject, relation, time)
    known = {o for s, r, o, t in GRAPH.all_facts.tolist() if (s, r, t) == (subject, relation, time)}
    completion = answerer.objects(subject, relation, time, top=len(scores), new=new)
    assert known and new != any(answer.known for answer in completion.answers)
    for answer in completion.answers:
        own = GRAPH.entities.index(answer.name)
        assert (answer.known is not None) == (own in known)
        rivals = [
            score
            for other, score in enumerate(scores)
            if other != own and not (new and other in known)
        ]
        assert answer.score == pytest.approx(scores[own], rel=1e-4, abs=1e-4)
        share = slow_share(predictor, scores[own], rivals)
        assert answer.probability == pytest.approx(share, rel=1e-3)
        assert answer.rank == 1 + sum(score > scores[own] for score in rivals)
    ruled_out = sum(score == -math.inf for score in scores)
    total = sum(answer.probability for answer in completion.answers)
    assert total == pytest.approx(1) if not ruled_out else 0 < total < 1


def test_names_ids_and_dates_give_the_same_answers(answerer: Answerer) -> None:
    subject, relation, object_, time = GRAPH.test[0].tolist()
    names = (
        GRAPH.entities[subject],
        GRAPH.relations[relation],
        date.fromisoformat(GRAPH.times[time]),
    )
    by_name, by_id = answerer.objects(*names), answerer.objects(subject, relation, time)
    assert replace(by_name, answers=()) == replace(by_id, answers=())
    for one, other in zip(by_name.answers, by_id.answers, strict=True):
        assert (one.rank, one.name) == (other.rank, other.name)
        # On some processors, the last bits depend on where in memory the operands are, and in a
        # service on how candidates are divided into units of work.
        assert one.score == pytest.approx(other.score, rel=1e-5)
        assert one.probability == pytest.approx(other.probability, rel=1e-5)
        for fact, same in zip(one.evidence, other.evidence, strict=True):
            assert replace(fact, effect=None) == replace(same, effect=None)
            assert fact.effect == pytest.approx(same.effect, rel=1e-4, abs=1e-5)
    fact = GRAPH.describe(GRAPH.test[0])
    rows = [
        fact,
        tuple(fact.values()),
        (subject, relation, object_, time),
        (*names[:2], object_, names[2]),
    ]
    table = answerer.score(pa.Table.from_pylist([fact] * 4))
    assert answerer.score(rows).equals(table) and answerer.score(GRAPH.test[[0] * 4]).equals(table)


@pytest.mark.parametrize("asked", ["relation", "time"])
@pytest.mark.parametrize("new", [False, True])
def test_relations_and_times_are_ranked_by_heads(
    ted_predictor: Predictor, ted_answerer: Answerer, asked: str, new: bool
) -> None:
    subject, relation, object_, time = GRAPH.train[0].tolist()
    if asked == "time":
        found = ted_answerer.times(subject, relation, object_, top=30, first=2, last=16, new=new)
        names, allowed = GRAPH.times, set(range(2, 17))
        same = {
            t for *triple, t in GRAPH.all_facts.tolist() if triple == GRAPH.train[0, :3].tolist()
        }
    else:
        found = ted_answerer.relations(subject, object_, time, top=30, new=new)
        names, allowed = GRAPH.relations, set(range(4))
        same = {
            r for s, r, o, t in GRAPH.all_facts.tolist() if (s, o, t) == (subject, object_, time)
        }
    head = ted_predictor.run.questions.heads().head(asked)  # type: ignore[arg-type]
    scores = head.scores(torch.tensor([[subject, relation, object_, time]]))[0].double()
    kept = sorted(allowed - same if new else allowed, key=lambda each: -float(scores[each]))
    assert [answer.name for answer in found.answers] == [names[each] for each in kept]
    temperature, uniform = ted_predictor.run.questions.calibrator(asked)  # type: ignore[arg-type]
    softmax = torch.softmax(scores[kept] / temperature, 0)
    expected = (1 - uniform) * softmax + uniform / len(kept)
    shares = [answer.probability for answer in found.answers]
    assert shares == pytest.approx(expected.tolist(), rel=1e-5)
    assert sum(shares) == pytest.approx(1)
    assert {names.index(answer.name) for answer in found.answers if answer.known} == (
        set() if new else same & allowed
    )


@pytest.mark.parametrize("asked", ["relation", "time"])
def test_effects_on_relations_and_times_are_those_of_removing_the_fact(
    ted_predictor: Predictor, asked: str
) -> None:
    subject, relation, object_, time = GRAPH.test[0].tolist()
    parts = (subject, relation, object_) if asked == "time" else (subject, object_, time)
    ask = ted_predictor.times if asked == "time" else ted_predictor.relations
    found = ask(*parts, top=2, evidence=4)
    assert found.evidence
    for answer in found.answers:
        for fact in answer.evidence:
            row = (fact.subject, fact.relation, fact.object, fact.time)
            ted_predictor.remove([row])
            without = {each.name: each.score for each in ask(*parts, top=30, evidence=0).answers}
            ted_predictor.add([row])
            assert fact.effect == pytest.approx(answer.score - without[answer.name], abs=1e-4)


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


def test_unknown_names_are_refused(ted_answerer: Answerer) -> None:
    for parts in (("Nobody", 0, 0), (0, "vists", 0), (99, 0, 0), (0, 0, "1999-01-01"), (0, 0, 20)):
        with pytest.raises(QueryError):
            ted_answerer.objects(*parts)
    with pytest.raises(QueryError, match="did you mean 'visits'"):
        ted_answerer.objects(0, "vists", 0)
    with pytest.raises(ConfigError, match="^top must be at least 1, found 0$"):
        ted_answerer.objects(0, 0, 0, top=0)
    with pytest.raises(ConfigError, match="^side must be object or subject, found 'time'$"):
        ted_answerer.why(0, 0, 0, 0, side="time")
    with pytest.raises(QueryError, match="^the period from 5 to 3 "):
        ted_answerer.times(0, 0, 1, first=5, last=3)


def test_a_query_with_two_missing_parts_is_refused(ted_predictor: Predictor) -> None:
    with raises(QueryError, "scenario.three_parts"):
        ted_predictor.objects(None, 0, 0)  # type: ignore[arg-type]
