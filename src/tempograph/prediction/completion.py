"""Completion of one query: choose the best candidates, explain them and put names to ids."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tempograph.data.graph import COLUMNS, TemporalGraph
from tempograph.errors import ConfigError
from tempograph.models.base import Evidence
from tempograph.prediction.answers import Answer, Completion, EvidenceFact
from tempograph.prediction.explanation import explain
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.prediction.scoring import log_probabilities, score_facts
from tempograph.typing import Progress


@torch.inference_mode()
def score_candidates(scenario: Scenario, fact: Fact) -> Tensor:
    """Scores of all candidates for the missing subject, relation or object, [candidates]."""
    if fact[1] < 0:
        return scenario.model.relation_scores(fact[0], fact[2], fact[3])
    return scenario.model.scores(scenario.query(fact))[0]


@torch.inference_mode()
def score_relations(scenario: Scenario, fact: Fact) -> tuple[Tensor, Tensor | None]:
    """Scores and log probabilities of all relations for a fact without one, [relations]."""
    scores = score_candidates(scenario, fact)
    return scores, _relation_log_probs(scenario, scores)


def _relation_log_probs(scenario: Scenario, scores: Tensor) -> Tensor | None:
    return torch.log_softmax(scores.double(), 0) if scenario.model.probabilistic else None


@torch.inference_mode()
def score_times(
    scenario: Scenario, fact: Fact, period: range, progress: Progress | None = None
) -> tuple[Tensor, Tensor | None]:
    """Scores and log probabilities of all time steps for a fact without one, [steps].

    Steps outside the period are impossible.
    """
    facts = torch.tensor([(*fact[:3], step) for step in period], device=scenario.model.device)
    ranked = score_facts(scenario, facts, progress=progress)
    values = ranked.score if ranked.log_probability is None else ranked.log_probability
    scores = torch.full((len(scenario.graph.times),), -math.inf, dtype=torch.float64)
    scores[list(period)] = values.view(2, -1).mean(0).cpu()
    return scores, None if ranked.log_probability is None else torch.log_softmax(scores, 0)


@torch.inference_mode()
def complete(
    scenario: Scenario,
    fact: Fact,
    scores: Tensor,
    top: int,
    max_evidence: int,
    candidate: int | None = None,
) -> Completion:
    """The best answers, or one candidate, for a fact with a missing entity or relation.

    `scores` [candidates] are those of all candidates.
    """
    model, part = scenario.model, fact.index(-1)
    best = best_candidates(scores, top) if candidate is None else [candidate]
    log_probs = None
    if part == 1:
        log_probs = _relation_log_probs(scenario, scores)
    elif (temperature := scenario.temperature) is not None:
        known = scenario.known(scenario.query(fact))
        log_probs = log_probabilities(scores[None].to(model.device), known, temperature)[0].cpu()
    if not max_evidence:
        evidence = [Evidence("not requested", scenario.timeline.facts[:0]) for _ in best]
    elif part == 1:
        query = scenario.query
        evidence = [model.evidence(query((fact[0], r, -1, fact[3])), fact[2]) for r in best]
    else:
        evidence = explain(
            model, scenario.timeline, scenario.query(fact), best, by_magnitude=candidate is not None
        )
    return _completion(scenario, fact, best, scores.cpu(), log_probs, evidence, max_evidence)


@torch.inference_mode()
def complete_time(
    scenario: Scenario,
    fact: Fact,
    period: range,
    top: int,
    max_evidence: int,
    progress: Progress | None = None,
) -> Completion:
    """The best time steps of a period for a fact with a missing time."""
    model, (subject, relation, object_, _) = scenario.model, fact
    scores, log_probs = score_times(scenario, fact, period, progress)
    best = best_candidates(scores, top)
    evidence = [
        model.evidence(scenario.query((subject, relation, -1, step)), object_) for step in best
    ]
    return _completion(scenario, fact, best, scores, log_probs, evidence, max_evidence)


def best_candidates(scores: Tensor, top: int) -> list[int]:
    """The candidates with the highest scores [candidates] that are possible at all, best first."""
    if top < 1:
        raise ConfigError(f"top must be at least 1, found {top}")
    best = scores.topk(min(top, len(scores)))
    possible: list[int] = best.indices[best.values > -math.inf].tolist()
    return possible


def _completion(
    scenario: Scenario,
    fact: Fact,
    best: list[int],
    scores: Tensor,
    log_probs: Tensor | None,
    evidence: Sequence[Evidence],
    max_evidence: int,
) -> Completion:
    """Candidates, their scores and their evidence in names."""
    graph, part = scenario.graph, fact.index(-1)
    names = (graph.entities, graph.relations, graph.entities, graph.times)
    known = graph.known_answers(fact, part)
    answers = tuple(
        Answer(
            rank=1 + int((scores > scores[candidate]).sum()),
            name=names[part][candidate],
            score=float(scores[candidate]),
            probability=None if log_probs is None else math.exp(float(log_probs[candidate])),
            known=known.get(candidate),
            why=each.reason,
            evidence=_named_facts(graph, each, max_evidence),
            evidence_count=len(each.facts) if each.total is None else each.total,
        )
        for candidate, each in zip(best, evidence, strict=True)
    )
    subject, relation, object_, time = (
        None if id_ < 0 else column[id_] for id_, column in zip(fact, names, strict=True)
    )
    notes = _notes(scenario, fact, answers, scores)
    return Completion(subject, relation, object_, time, COLUMNS[part], answers, notes)


def _named_facts(graph: TemporalGraph, evidence: Evidence, limit: int) -> tuple[EvidenceFact, ...]:
    """The first facts of the evidence in names."""
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


def _notes(
    scenario: Scenario, fact: Fact, answers: tuple[Answer, ...], scores: Tensor
) -> tuple[str, ...]:
    """What a reader should know about the answers."""
    graph, model, run = scenario.graph, scenario.model, scenario.run
    notes = [
        f"'{graph.entities[entity]}' is in no train fact, so its answers have little evidence"
        for entity in (fact[0], fact[2])
        if entity >= 0 and not np.any(graph.train[:, [0, 2]] == entity)
    ]
    possible = int((scores > -math.inf).sum())
    if possible < len(scores) and len(answers) == possible:
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
    if not model.uses_train_facts and any(answer.evidence for answer in answers):
        notes.append(
            f"{model.name} does not use train facts when it answers, so none has an effect; the "
            "nearest are shown"
        )
    if not model.probabilistic:
        notes.append(f"the scores of {model.name} are not probabilities")
    if not run.results.finished:
        notes.append("the training of this run is not finished; tempograph resume continues it")
    return tuple(notes)
