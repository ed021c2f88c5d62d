"""How far probabilities can be trusted: a temperature fitted on valid, and how often sure answers are right."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import fact_queries
from tempograph.device import memory_budget
from tempograph.evaluation.evaluator import cross_fitted_scores
from tempograph.evaluation.reliability import calibration_error, reliability
from tempograph.models.base import Model
from tempograph.typing import Progress

_FIRST: Final = 10
_MOST_FACTS: Final = 2000
_RANGE: Final = (-6.0, 6.0)
"""Between which logarithms the temperature is looked for."""


class Asked(NamedTuple):
    """Questions with scores [n, entities], other right answers at -inf, and the right answer, [n]."""

    scores: Tensor
    answer: Tensor

    def take(self, which: Tensor) -> Asked:
        """Some of the questions."""
        return Asked(self.scores[which], self.answer[which])


def calibrate(
    model: Model, graph: TemporalGraph, progress: Progress | None = None
) -> dict[str, Any]:
    """The temperature with the lowest log loss on valid, and how reliable it makes the probability of the best answer.

    Probabilities are softmax(scores / temperature) over the candidates that are not known to be right as well. The loss
    and the reliability are cross-fitted: each half of the facts is judged at the temperature of the other half.
    """
    asked = _ask(model, graph, progress)
    half = (
        torch.arange(len(asked.answer), device=asked.answer.device) % (len(asked.answer) // 2) % 2
    )
    halves = [asked.take(half == number) for number in (0, 1)]
    confidence, right, among, losses = [], [], [], []
    for judged, other in zip(halves, reversed(halves), strict=True):
        if not len(judged.answer):
            continue
        temperature = fit_temperature(*(other if len(other.answer) else judged))
        shares = torch.log_softmax(judged.scores / temperature, 1)
        best = shares.max(1)
        confidence.append(best.values.exp())
        own = shares.gather(1, judged.answer[:, None])
        right.append(best.indices == judged.answer)
        among.append((shares > own).sum(1) < _FIRST)
        losses.append(-own)
    table = reliability(torch.cat(confidence), torch.cat(right), torch.cat(among))
    plain = torch.log_softmax(asked.scores, 1)
    before = reliability(plain.max(1).values.exp(), plain.argmax(1) == asked.answer)
    return {
        "temperature": fit_temperature(*asked),
        "split": "valid",
        "facts": len(asked.answer) // 2,
        "log_loss": float(torch.cat(losses).double().mean()),
        "log_loss_before": float(-plain.gather(1, asked.answer[:, None]).double().mean()),
        "calibration_error": calibration_error(table),
        "calibration_error_before": calibration_error(before),
        "reliability": table,
        "note": "cross-fitted: each half is judged at the temperature of the other half",
    }


def fit_temperature(scores: Tensor, answer: Tensor) -> float:
    """The temperature that makes softmax(scores / temperature) lose least.   scores [n, entities], answer [n].

    The loss is convex in 1 / temperature: its slope, the mean score expected less the score of the answer, rises.
    """
    usual = torch.nan_to_num(scores, neginf=0.0)
    own = scores.gather(1, answer[:, None]).mean()
    low, high = (-bound for bound in reversed(_RANGE))
    while high - low > 1e-4:
        middle = (low + high) / 2
        expected = (torch.softmax(scores * math.exp(middle), 1) * usual).sum(1).mean()
        low, high = (low, middle) if expected > own else (middle, high)
    return math.exp(-(low + high) / 2)


@torch.inference_mode()
def _ask(model: Model, graph: TemporalGraph, progress: Progress | None) -> Asked:
    """Both questions of facts of valid, spread evenly over it, objects first."""
    room = max(1, memory_budget("calibration", model.device) // (8 * len(graph.entities)))
    count = min(len(graph.valid), _MOST_FACTS, room)
    chosen = torch.linspace(0, len(graph.valid) - 1, count, dtype=torch.float64).round().long()
    facts = torch.from_numpy(graph.valid)[chosen].to(model.device)
    known = KnownAnswers.from_train_and_valid(graph, model.device)
    cross_fitted = model.cross_fitted("valid", len(graph.valid))
    if cross_fitted is not None:
        cross_fitted = cross_fitted._replace(scorer=cross_fitted.scorer[chosen.to(model.device)])
    queries, answer = fact_queries(facts, known.num_relations)
    scores = torch.empty(len(answer), len(graph.entities), device=model.device)
    for index, score in cross_fitted_scores(
        model, queries, known, progress=progress, cross_fitted=cross_fitted
    ):
        scores[index] = score(queries.take(index)).float()
    row, other = known(queries)
    wrong = other != answer[row]
    scores[row[wrong], other[wrong]] = -math.inf
    return Asked(scores, answer)
