"""How far probabilities can be trusted: calibrated on valid, and reliability in bins."""

from __future__ import annotations

import math
from typing import Final, NamedTuple, NotRequired

import torch
from torch import Tensor
from typing_extensions import TypedDict  # That of typing has no schema before Python 3.12.

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import TemporalGraph
from tempograph.data.known_parts import KnownParts
from tempograph.data.timeline import fact_queries
from tempograph.device import memory_budget
from tempograph.evaluation.asked_steps import events_of
from tempograph.evaluation.evaluator import query_batches, with_scorers
from tempograph.evaluation.history import with_history
from tempograph.evaluation.probabilities import (
    Calibrator,
    Confidence,
    fit_calibrator,
    smallest_share,
)
from tempograph.evaluation.question_evaluator import question_batches
from tempograph.evaluation.reliability import ReliabilityRow, calibration_error, reliability
from tempograph.models.base import Model
from tempograph.models.heads.question_head import QuestionHead
from tempograph.typing import Progress, Protocol, Split

_MAX_FACTS: Final = 2000


class Calibration(TypedDict):
    """The JSON object `calibration` in results.json; `_before` is with temperature 1."""

    temperature: float
    uniform: NotRequired[float]
    """The uniform share of the probabilities; earlier versions, without it, had none."""
    split: Split
    facts: int
    log_loss: float
    log_loss_before: float
    calibration_error: float
    calibration_error_before: float
    reliability: list[ReliabilityRow]
    note: str


class ScoredQuestions(NamedTuple):
    """Scores [n, candidates] of questions, other known answers at -inf, and the answers [n]."""

    scores: Tensor
    answer: Tensor
    eligible: Tensor
    """How many candidates are not known to be right as well, [n]."""
    fact: Tensor
    """The number of the fact behind each question, [n]."""

    def take(self, index: Tensor) -> ScoredQuestions:
        """The questions at an index."""
        return ScoredQuestions(*(column[index] for column in self))

    def fit(self) -> Calibrator:
        """The calibrator with the lowest log loss."""
        return fit_calibrator(self.scores, self.answer, self.eligible)

    def confidence(self, calibrator: Calibrator) -> Confidence:
        """How sure the questions are of their best candidates."""
        return calibrator.confidence(self.scores, self.answer, self.eligible)


def calibrate(scored: ScoredQuestions) -> Calibration:
    """Fit probabilities to scored questions of valid, and measure their reliability.

    Log loss and reliability are cross-fitted: each half of the facts is measured with the
    calibrator of the other half.
    """
    half = scored.fact % 2
    halves = [scored.take(half == number) for number in (0, 1)]
    measured = [
        one.confidence((other if len(other.answer) else one).fit())
        for one, other in zip(halves, reversed(halves), strict=True)
        if len(one.answer)
    ]
    confidence = Confidence(*(torch.cat(column) for column in zip(*measured, strict=True)))
    before = scored.confidence(Calibrator(1.0, smallest_share(len(scored.answer))))
    table, table_before = reliability(*confidence[:3]), reliability(*before[:2])
    calibrator = scored.fit()
    return {
        "temperature": calibrator.temperature,
        "uniform": calibrator.uniform,
        "split": "valid",
        "facts": len(torch.unique(scored.fact)),
        "log_loss": float(-confidence.log_prob.mean()),
        "log_loss_before": float(-before.log_prob.mean()),
        "calibration_error": calibration_error(table),
        "calibration_error_before": calibration_error(table_before),
        "reliability": table,
        "note": "cross-fitted: each half is measured with the probabilities of the other half",
    }


def calibrator_of(calibration: Calibration | None) -> Calibrator:
    """The calibrator behind a stored calibration; without one, a plain softmax."""
    if calibration is None:
        return Calibrator()
    return Calibrator(calibration["temperature"], calibration.get("uniform", 0.0))


@torch.inference_mode()
def score_valid(
    model: Model, graph: TemporalGraph, protocol: Protocol, progress: Progress | None = None
) -> ScoredQuestions:
    """Both queries of facts spread evenly over valid, objects first.

    A fact that holds for a while is asked about at one of its steps.
    """
    model = with_history(model, graph, "valid", protocol)
    chosen = _spread(graph, len(graph.entities), model.device)
    facts = events_of(torch.from_numpy(graph.valid)[chosen]).to(model.device)
    known = KnownAnswers.from_train_and_valid(graph, model.device)
    cross_fitted = model.cross_fitted("valid", len(graph.valid))
    if cross_fitted is not None:
        cross_fitted = cross_fitted._replace(scorer=cross_fitted.scorer[chosen.to(model.device)])
    queries, answer = fact_queries(facts, known.num_relations)
    scores = torch.empty(len(answer), len(graph.entities), device=model.device)
    batches = query_batches(model, queries, known, progress=progress)
    for index, score in with_scorers(batches, model, cross_fitted):
        scores[index] = score(queries.take(index)).float()
    row, entity = known(queries)
    other = entity != answer[row]
    fact = torch.arange(len(answer), device=model.device) % len(facts)
    return _exclude(scores, answer, (row[other], entity[other]), fact)


@torch.inference_mode()
def score_valid_questions(head: QuestionHead, graph: TemporalGraph) -> ScoredQuestions:
    """The questions of a head about facts spread evenly over valid.

    A fact that holds for a while is asked about at one of its steps.
    """
    device = head.timeline.device
    chosen = _spread(graph, head.num_candidates, device)
    facts = events_of(torch.from_numpy(graph.valid)[chosen].to(device))
    every = torch.cat([head.timeline.rows, torch.from_numpy(graph.valid).to(device)])
    known = KnownParts(every, head.timeline.sizes, head.column)
    batches = question_batches(head, facts)
    scores = torch.cat([head.scores(batch).float() for batch in batches])
    fact = torch.arange(len(facts), device=device)
    return _exclude(scores, facts[:, head.column], known.others(facts), fact)


def _spread(graph: TemporalGraph, candidates: int, device: torch.device) -> Tensor:
    """Positions of facts spread evenly over valid whose scores fit the memory budget."""
    affordable = max(1, memory_budget("calibration", device) // (8 * candidates))
    count = min(len(graph.valid), _MAX_FACTS, affordable)
    return torch.linspace(0, len(graph.valid) - 1, count, dtype=torch.float64).round().long()


def _exclude(
    scores: Tensor, answer: Tensor, others: tuple[Tensor, Tensor], fact: Tensor
) -> ScoredQuestions:
    scores[others] = -math.inf
    excluded = torch.bincount(others[0], minlength=len(answer))
    return ScoredQuestions(scores, answer, scores.shape[1] - excluded, fact)
