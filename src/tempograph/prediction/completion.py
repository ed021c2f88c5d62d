"""Completion of one query: choose the best candidates, explain them and put names to ids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tempograph.data.graph import COLUMNS, TemporalGraph
from tempograph.errors import ConfigError
from tempograph.models.base import Evidence
from tempograph.prediction.answer import Answer, EvidenceFact
from tempograph.prediction.answers import Completion
from tempograph.prediction.explanation import explain, explain_question
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.typing import Asked


def asked_part(fact: Fact) -> Asked:
    """What a fact with a missing part asks for."""
    part = fact.index(-1)
    return "relation" if part == 1 else "time" if part == 3 else "entity"


@torch.inference_mode()
def score_candidates(scenario: Scenario, fact: Fact) -> Tensor:
    """Scores of all candidates for the missing part of a fact, [candidates]."""
    asked = asked_part(fact)
    if asked == "entity":
        return scenario.model.scores(scenario.query(fact))[0]
    return scenario.heads().head(asked).scores(scenario.question(fact))[0]


@dataclass(frozen=True)
class Ranking:
    """The best candidates for the missing part of a fact, best first, in ids."""

    fact: Fact
    candidates: list[int]
    ranks: list[int]
    scores: list[float]
    probabilities: list[float]
    possible: int
    """Number of candidates that the model does not rule out."""
    ruled_out: int
    """Number of candidates that it rules out."""
    by_magnitude: bool
    """Whether evidence against an answer counts as much as evidence for it."""


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
    evidence = explain_candidates(scenario, ranking, ranking.candidates) if max_evidence else None
    return name_answers(scenario, ranking, evidence, max_evidence)


@torch.inference_mode()
def rank_candidates(
    scenario: Scenario,
    fact: Fact,
    scores: Tensor,
    top: int,
    candidate: int | None = None,
    new: bool = False,
    period: range | None = None,
) -> Ranking:
    """The first part of `complete`: the best candidates, or one, without evidence."""
    scores = scores.double().cpu()
    left_out = _left_out(scenario, fact, new, period)
    if candidate is not None:
        left_out = left_out[left_out != candidate]
    row = torch.zeros_like(left_out)
    calibrator = scenario.calibrator(asked_part(fact))
    log_probs = calibrator.log_probs(scores[None], (row, left_out))[0]
    scores[left_out] = -math.inf
    if candidate is None:
        best = torch.tensor(best_candidates(scores, top), dtype=torch.int64)
        own = scores[best]
        # All candidates with a higher score are among the best themselves.
        ranks = 1 + torch.searchsorted(-own, -own)
    else:
        best = torch.tensor([candidate])
        own = scores[best]
        ranks = 1 + (scores > own).sum()[None]
    possible = int((scores > -math.inf).sum())
    return Ranking(
        fact,
        best.tolist(),
        ranks.tolist(),
        own.tolist(),
        log_probs[best].exp().tolist(),
        possible,
        len(scores) - len(left_out) - possible,
        candidate is not None,
    )


@torch.inference_mode()
def explain_candidates(
    scenario: Scenario, ranking: Ranking, candidates: list[int]
) -> Sequence[Evidence]:
    """The evidence for some candidates of a ranking."""
    asked = asked_part(ranking.fact)
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
    known = scenario.known_splits(fact, part)
    answers = tuple(
        Answer(
            rank=rank,
            name=names[part][each],
            score=score,
            probability=probability,
            known=known.get(each),
            why=found.reason,
            evidence=_named_facts(graph, found, max_evidence),
            evidence_count=len(found.facts) if found.total is None else found.total,
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
    return Completion(subject, relation, object_, time, COLUMNS[part], answers, notes)


def _left_out(scenario: Scenario, fact: Fact, new: bool, period: range | None) -> Tensor:
    """Candidates that are no answers: known ones if only new ones are asked for, and steps."""
    part, size = fact.index(-1), scenario.graph.sizes[fact.index(-1)]
    out = torch.zeros(size, dtype=torch.bool)
    if new:
        out[list(scenario.known_splits(fact, part))] = True
    if period is not None:
        step = torch.arange(size)
        out |= (step < period.start) | (step >= period.stop)
    return out.nonzero()[:, 0]


def best_candidates(scores: Tensor, top: int) -> list[int]:
    """The candidates with the highest scores [candidates] that are possible at all, best first."""
    if top < 1:
        raise ConfigError(f"top must be at least 1, found {top}")
    best = scores.topk(min(top, len(scores)))
    possible: list[int] = best.indices[best.values > -math.inf].tolist()
    return possible


def _named_facts(graph: TemporalGraph, evidence: Evidence, limit: int) -> tuple[EvidenceFact, ...]:
    """The first facts of the evidence in names."""
    if not limit:
        return ()
    rows = evidence.facts[:limit].cpu().numpy()
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
    graph, model, run = scenario.graph, scenario.model, scenario.run
    fact, possible = ranking.fact, ranking.possible
    notes = [
        f"'{graph.entities[entity]}' is in no known fact, so its answers have little evidence"
        for entity in (fact[0], fact[2])
        if entity >= 0 and not graph.in_train[entity]
    ]
    if ranking.ruled_out and len(answers) == possible:
        if possible:
            who = "candidate has" if possible == 1 else "candidates have"
            notes.append(f"only {possible:,} {who} any evidence")
        else:
            notes.append("no candidate has any evidence")
    if fact[3] >= len(run.graph.times):
        notes.append(
            f"'{graph.times[fact[3]]}' is after {run.graph.times[-1]}, the last step of training, "
            "whose weights are used for it"
        )
    if (
        not model.uses_train_facts
        and asked_part(fact) == "entity"
        and any(answer.evidence for answer in answers)
    ):
        notes.append(
            f"{model.name} does not use known facts when it answers, so none has an effect; the "
            "nearest are shown"
        )
    if not len(run.graph.valid):
        notes.append("the probabilities are not calibrated, because the run has no valid facts")
    if not run.results.finished:
        notes.append("the training of this run is not finished; tempograph resume continues it")
    return tuple(notes)
