"""Questions over a period: who at any of its steps, and at which of them most likely."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tempograph.device import memory_budget
from tempograph.errors import ConfigError
from tempograph.models.base import Evidence
from tempograph.prediction.candidate_ranking import Ranking
from tempograph.prediction.explanation import explain
from tempograph.prediction.scenario import Fact, Scenario


@dataclass(frozen=True)
class PeriodScores:
    """The highest log probability of each entity at a step of a period, and that step, [entities].

    The first such step, if there are several. An entity that is ruled out at every step has -inf.
    """

    log_prob: Tensor
    step: Tensor
    eligible: int
    """Entities that are not left out."""

    def then(self, later: PeriodScores) -> PeriodScores:
        """The scores over these steps and later ones of the same period."""
        better = later.log_prob > self.log_prob
        log_prob = torch.where(better, later.log_prob, self.log_prob)
        return PeriodScores(log_prob, torch.where(better, later.step, self.step), self.eligible)


@torch.inference_mode()
def score_period(
    scenario: Scenario,
    fact: Fact,
    last: int,
    new: bool = False,
    budget: int | None = None,
    steps: range | None = None,
) -> PeriodScores:
    """Score the entities for the missing part of a fact at each step from its time to `last`.

    With `new`, those that are known at some step of the period are left out. With `steps`, only
    these steps of the period are scored.
    """
    steps = range(fact[3], last + 1) if steps is None else steps
    model, calibrator = scenario.model, scenario.calibrator("entity")
    query, part = scenario.query(fact), fact.index(-1)
    known = list(scenario.known_splits(fact, part, last)) if new else []
    left_out = torch.tensor(known, dtype=torch.int64, device=model.device)
    budget = memory_budget("ranking", model.device) if budget is None else budget
    size = max(1, budget // (model.bytes_per_candidate * len(scenario.graph.entities)))
    count = len(scenario.graph.entities)
    best = torch.full((count,), -math.inf, dtype=torch.float64, device=model.device)
    best_step = torch.full((count,), steps.start, device=model.device)
    for part in torch.arange(steps.start, steps.stop, device=model.device).split(size):
        batch = query.take(torch.zeros_like(part))._replace(time=part)
        scores = model.scores(batch)
        row = torch.arange(len(part), device=model.device).repeat_interleave(len(left_out))
        excluded = (row, left_out.repeat(len(part)))
        log_probs = calibrator.log_probs(scores, excluded)
        log_probs[scores == -math.inf] = -math.inf
        highest = log_probs.max(0)
        better = highest.values > best
        best = torch.where(better, highest.values, best)
        best_step = torch.where(better, part[highest.indices], best_step)
    return PeriodScores(best.cpu(), best_step.cpu(), count - len(left_out))


def rank_period(
    scores: PeriodScores, fact: Fact, last: int, top: int, candidate: int | None = None
) -> Ranking:
    """The best candidates over a period, or the one that is given, by their highest probability."""
    if top < 1:
        raise ConfigError(f"top must be at least 1, found {top}")
    log_prob = scores.log_prob
    possible = int((log_prob > -math.inf).sum())
    if candidate is None:
        best = log_prob.topk(min(top, possible)).indices
    else:
        best = torch.tensor([candidate])
    own = log_prob[best]
    ranks = 1 + (log_prob[None, :] > own[:, None]).sum(1)
    return Ranking(
        fact,
        best.tolist(),
        ranks.tolist(),
        own.tolist(),
        own.exp().tolist(),
        possible,
        scores.eligible - possible,
        candidate is not None,
        last,
        scores.step[best].tolist(),
    )


@torch.inference_mode()
def explain_period(scenario: Scenario, ranking: Ranking, candidates: list[int]) -> list[Evidence]:
    """The evidence for some candidates of a period, each at the step where it is most likely."""
    steps = dict(zip(ranking.candidates, ranking.steps, strict=True))
    found: dict[int, Evidence] = {}
    for step in sorted({steps[each] for each in candidates}):
        own = [each for each in candidates if steps[each] == step]
        query = scenario.query((*ranking.fact[:3], step))
        evidence = explain(scenario.model, scenario.timeline, query, own, ranking.by_magnitude)
        found |= dict(zip(own, evidence, strict=True))
    return [found[each] for each in candidates]
