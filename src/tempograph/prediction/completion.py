"""Completion of one query: score its candidates, explain the best and put names to ids."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tempograph.data.graph import COLUMNS, TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.models.base import Evidence
from tempograph.prediction.answer import Answer, EvidenceFact
from tempograph.prediction.answers import Completion
from tempograph.prediction.candidate_ranking import Ranking, asked_part, rank_candidates
from tempograph.prediction.explanation import explain, explain_question, spans_of_facts
from tempograph.prediction.period import explain_period
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.prediction.time_notes import time_notes


@torch.inference_mode()
def score_candidates(scenario: Scenario, fact: Fact) -> Tensor:
    """Scores of all candidates for the missing part of a fact, [candidates]."""
    asked = asked_part(fact)
    if asked == "entity":
        return scenario.model.scores(scenario.query(fact))[0]
    return scenario.heads().head(asked).scores(scenario.question(fact))[0]


def complete(
    scenario: Scenario,
    fact: Fact,
    scores: Tensor,
    top: int,
    max_evidence: int,
    *,
    candidate: int | None = None,
    new: bool = False,
    period: range | None = None,
) -> Completion:
    """The best answers, or one candidate, for a fact with a missing part.

    `scores` [candidates] are those of all candidates. With `new`, answers that are known already
    are left out, and steps outside the period are; the probabilities of the others add up to 1.
    """
    ranking = rank_candidates(scenario, fact, scores, top, candidate, new, period)
    return name_and_explain(scenario, ranking, max_evidence)


def name_and_explain(scenario: Scenario, ranking: Ranking, max_evidence: int) -> Completion:
    """The candidates of a ranking in names, each with at most so much evidence."""
    evidence = explain_candidates(scenario, ranking, ranking.candidates) if max_evidence else None
    return name_answers(scenario, ranking, evidence, max_evidence)


@torch.inference_mode()
def explain_candidates(
    scenario: Scenario, ranking: Ranking, candidates: list[int]
) -> Sequence[Evidence]:
    """The evidence for some candidates of a ranking."""
    asked = asked_part(ranking.fact)
    if ranking.last is not None:
        return explain_period(scenario, ranking, candidates)
    if asked == "entity":
        query = scenario.query(ranking.fact)
        model, timeline = scenario.model, scenario.timeline
        return explain(model, timeline, query, candidates, ranking.by_magnitude)
    question = scenario.question(ranking.fact)[0]
    return explain_question(scenario.heads().head(asked), question, candidates)


def name_answers(
    scenario: Scenario, ranking: Ranking, evidence: Sequence[Evidence] | None, max_evidence: int
) -> Completion:
    """The candidates of a ranking in names, each with its evidence, if that was requested."""
    if evidence is None:
        nothing = Evidence("not requested", scenario.timeline.facts[:0])
        evidence = [nothing] * len(ranking.candidates)
    graph, fact = scenario.graph, ranking.fact
    part = fact.index(-1)
    names = (graph.entities, graph.relations, graph.entities, graph.times)
    known = scenario.known_splits(fact, part, ranking.last)
    spans = scenario.known_facts_for(fact, part, ranking.last)
    answers = tuple(
        Answer(
            rank=rank,
            name=names[part][each],
            score=score,
            probability=probability,
            known=known.get(each),
            why=found.reason,
            evidence=named_facts(graph, scenario.timeline, found, max_evidence),
            evidence_count=found.count,
            since=spans[each].start if each in spans else None,
            until=spans[each].end if each in spans else None,
        )
        for each, rank, score, probability, found in zip(
            ranking.candidates,
            ranking.ranks,
            ranking.scores,
            ranking.probabilities,
            evidence,
            strict=True,
        )
    )
    subject, relation, object_, time = (
        None if id_ < 0 else column[id_] for id_, column in zip(fact, names, strict=True)
    )
    notes = _notes(scenario, ranking, answers)
    last = None if ranking.last is None else graph.times[ranking.last]
    return Completion(subject, relation, object_, time, COLUMNS[part], answers, notes, last)


def named_facts(
    graph: TemporalGraph, timeline: Timeline, evidence: Evidence, limit: int
) -> tuple[EvidenceFact, ...]:
    """The first facts of the evidence in names."""
    if not limit:
        return ()
    rows = spans_of_facts(timeline, evidence.facts[:limit]).cpu().numpy()
    shares, effects = (
        [None] * len(rows) if column is None else column[:limit].tolist()
        for column in (evidence.shares, evidence.effects)
    )
    return tuple(
        EvidenceFact(
            **graph.describe(row),
            share=None if share is None or math.isnan(share) else share,
            effect=effect,
        )
        for row, share, effect in zip(rows, shares, effects, strict=True)
    )


def _notes(scenario: Scenario, ranking: Ranking, answers: tuple[Answer, ...]) -> tuple[str, ...]:
    """What a reader should know about the answers."""
    model, possible, notes = scenario.model, ranking.possible, []
    if ranking.ruled_out and len(answers) == possible:
        if possible:
            who = "candidate has" if possible == 1 else "candidates have"
            notes.append(f"only {possible:,} {who} any evidence")
        else:
            notes.append("no candidate has any evidence")
    if (
        not model.uses_train_facts
        and asked_part(ranking.fact) == "entity"
        and any(answer.evidence for answer in answers)
    ):
        notes.append(
            f"{model.name} does not use known facts when it answers, so none has an effect; the "
            "nearest are shown"
        )
    return fact_notes(scenario, ranking.fact, tuple(notes))


def fact_notes(scenario: Scenario, fact: Fact, notes: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What a reader should know about the answers to a question, with what is special to them."""
    graph, run = scenario.graph, scenario.run
    found = time_notes(scenario, fact[3])
    found += [
        f"'{graph.entities[entity]}' is in no known fact, so its answers have little evidence"
        for entity in (fact[0], fact[2])
        if entity >= 0 and not graph.in_train[entity]
    ]
    found += [
        f"'{graph.entities[entity]}' is not among the entities that the model was trained on; its "
        "weights are estimated"
        for entity in (fact[0], fact[2])
        if entity >= run.num_trained_entities
    ]
    found += notes
    if not len(run.graph.valid):
        found.append("the probabilities are not calibrated, because the run has no valid facts")
    if not run.results.finished:
        found.append("the training of this run is not finished; tempograph resume continues it")
    return tuple(found)
