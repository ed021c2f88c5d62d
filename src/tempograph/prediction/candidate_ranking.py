"""The best candidates for the missing part of facts, for many questions in one pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tempograph.errors import ConfigError
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.typing import Asked


def asked_part(fact: Fact) -> Asked:
    """What a fact with a missing part asks for."""
    part = fact.index(-1)
    return "relation" if part == 1 else "time" if part == 3 else "entity"


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
    last: int | None = None
    """The last step of the period that is asked about, from the time of the fact on."""
    steps: Sequence[int] = ()
    """The step of the period at which each candidate is most likely."""


def rank_candidates(
    scenario: Scenario,
    fact: Fact,
    scores: Tensor,
    top: int,
    candidate: int | None = None,
    new: bool = False,
    period: range | None = None,
) -> Ranking:
    """The best candidates of one question, or the one that is given, with scores [candidates].

    With `new`, known answers are left out, and outside the period, steps are; the probabilities of
    the others add up to 1.
    """
    left_out = _left_out(scenario, fact, new, period)
    if candidate is not None:
        left_out = left_out[left_out != candidate]
    row = torch.zeros_like(left_out)
    return _rank(scenario, [fact], scores[None], [top], (row, left_out), candidate)[0]


def rank_questions(
    scenario: Scenario,
    facts: Sequence[Fact],
    scores: Tensor,
    tops: Sequence[int],
    new: Sequence[bool],
) -> list[Ranking]:
    """`rank_candidates` for each of n questions for entities, with scores [n, entities]."""
    left_out = [
        (row, candidate)
        for row, fact in enumerate(facts)
        if new[row]
        for candidate in scenario.known_splits(fact, fact.index(-1))
    ]
    pairs = torch.tensor(left_out, dtype=torch.int64).view(-1, 2)
    return _rank(scenario, facts, scores, tops, (pairs[:, 0], pairs[:, 1]))


@torch.inference_mode()
def _rank(
    scenario: Scenario,
    facts: Sequence[Fact],
    scores: Tensor,
    tops: Sequence[int],
    left_out: tuple[Tensor, Tensor],
    candidate: int | None = None,
) -> list[Ranking]:
    """Rank the candidates of questions that ask for the same part of a fact.

    scores [n, candidates]; left_out: distinct pairs (question, candidate).
    """
    if min(tops) < 1:
        raise ConfigError(f"top must be at least 1, found {min(tops)}")
    scores = scores.to("cpu", torch.float64, copy=True)
    scores[left_out] = -math.inf
    candidates = scores.shape[1]
    eligible = candidates - torch.bincount(left_out[0], minlength=len(facts))
    possible = (scores > -math.inf).sum(1)
    if candidate is None:
        own, best = scores.topk(min(max(tops), candidates))
        # All candidates with a higher score are among the best themselves.
        ranks = 1 + torch.searchsorted(-own, -own)
    else:
        best = torch.full((len(facts), 1), candidate)
        own = scores.gather(1, best)
        ranks = 1 + (scores > own).sum(1, keepdim=True)
    calibrator = scenario.calibrator(asked_part(facts[0]))
    probabilities = calibrator.some_log_probs(scores, best, eligible).exp()
    columns = (best, ranks, own, probabilities, possible, eligible)
    return [
        Ranking(
            fact,
            best[:shown],
            ranks[:shown],
            own[:shown],
            probabilities[:shown],
            possible,
            eligible - possible,
            candidate is not None,
        )
        for fact, top, best, ranks, own, probabilities, possible, eligible in zip(
            facts, tops, *(column.tolist() for column in columns), strict=True
        )
        for shown in [min(top, possible) if candidate is None else 1]
    ]


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
