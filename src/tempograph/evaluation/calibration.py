"""How far probabilities can be trusted: a temperature fitted on valid, and reliability in bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, NotRequired, TypedDict

import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import fact_queries
from tempograph.device import memory_budget
from tempograph.evaluation.evaluator import query_batches, with_scorers
from tempograph.models.base import Model
from tempograph.typing import Progress, Split

BINS: Final = 10
_TOP: Final = 10
_MAX_FACTS: Final = 2000
_LOG_RANGE: Final = (-6.0, 6.0)
"""The range of the logarithm of the temperature."""

ReliabilityRow = TypedDict(
    "ReliabilityRow",
    {
        "from": float,
        "to": float,
        "questions": int,
        "confidence": float,
        "right": float,
        "among_ten": NotRequired[float],
    },
)
"""One bin of confidence: its bounds, the number of queries, the mean confidence, and how often the
best answer is right, or the right one among the best ten."""


class Calibration(TypedDict):
    """The JSON object `calibration` in results.json; `_before` is with temperature 1."""

    temperature: float
    split: Split
    facts: int
    log_loss: float
    log_loss_before: float
    calibration_error: float
    calibration_error_before: float
    reliability: list[ReliabilityRow]
    note: str


class _Scored(NamedTuple):
    """Scores [n, entities] of queries, other known answers at -inf, and the right answer [n]."""

    scores: Tensor
    answer: Tensor

    def take(self, index: Tensor) -> _Scored:
        return _Scored(self.scores[index], self.answer[index])


def calibrate(model: Model, graph: TemporalGraph, progress: Progress | None = None) -> Calibration:
    """Fit the temperature with the lowest log loss on valid, and measure its reliability.

    Probabilities are softmax(scores / temperature) over the candidates that are not known to be
    right as well. Log loss and reliability are cross-fitted: each half of the facts is measured at
    the temperature of the other half.
    """
    scored = _score_valid(model, graph, progress)
    facts = len(scored.answer) // 2
    half = torch.arange(len(scored.answer), device=scored.answer.device) % facts % 2
    halves = [scored.take(half == number) for number in (0, 1)]
    confidence, right, among, losses = [], [], [], []
    for measured, other in zip(halves, reversed(halves), strict=True):
        if not len(measured.answer):
            continue
        temperature = fit_temperature(*(other if len(other.answer) else measured))
        log_probs = torch.log_softmax(measured.scores / temperature, 1)
        best = log_probs.max(1)
        confidence.append(best.values.exp())
        own = log_probs.gather(1, measured.answer[:, None])
        right.append(best.indices == measured.answer)
        among.append((log_probs > own).sum(1) < _TOP)
        losses.append(-own)
    table = reliability(torch.cat(confidence), torch.cat(right), torch.cat(among))
    before = torch.log_softmax(scored.scores, 1)
    table_before = reliability(before.max(1).values.exp(), before.argmax(1) == scored.answer)
    return {
        "temperature": fit_temperature(*scored),
        "split": "valid",
        "facts": facts,
        "log_loss": float(torch.cat(losses).double().mean()),
        "log_loss_before": float(-before.gather(1, scored.answer[:, None]).double().mean()),
        "calibration_error": calibration_error(table),
        "calibration_error_before": calibration_error(table_before),
        "reliability": table,
        "note": "cross-fitted: each half is judged at the temperature of the other half",
    }


def fit_temperature(scores: Tensor, answer: Tensor) -> float:
    """The temperature with the lowest log loss.   scores [n, entities], answer [n].

    The loss is convex in 1 / temperature: its derivative, the expected score less the score of the
    answer, rises, so that bisection finds its zero.
    """
    finite = torch.nan_to_num(scores, neginf=0.0)
    own = scores.gather(1, answer[:, None]).mean()
    low, high = (-bound for bound in reversed(_LOG_RANGE))
    while high - low > 1e-4:
        middle = (low + high) / 2
        expected = (torch.softmax(scores * math.exp(middle), 1) * finite).sum(1).mean()
        low, high = (low, middle) if expected > own else (middle, high)
    return math.exp(-(low + high) / 2)


def reliability(
    confidence: Tensor, right: Tensor, among: Tensor | None = None, bins: int = BINS
) -> list[ReliabilityRow]:
    """How often the best answer is right, by its probability: a row for each bin with queries.

    confidence, right and among [n]; `among` says whether the right answer is among the best ten.
    """
    bin_of = (confidence * bins).long().clamp(0, bins - 1)
    table = []
    for number in torch.unique(bin_of).tolist():
        inside = bin_of == number
        row: ReliabilityRow = {
            "from": number / bins,
            "to": (number + 1) / bins,
            "questions": int(inside.sum()),
            "confidence": float(confidence[inside].double().mean()),
            "right": float(right[inside].double().mean()),
        }
        if among is not None:
            row["among_ten"] = float(among[inside].double().mean())
        table.append(row)
    return table


def calibration_error(table: Sequence[ReliabilityRow]) -> float:
    """The expected calibration error: the mean of |confidence - accuracy| over all queries."""
    total = sum(row["questions"] for row in table)
    return sum(row["questions"] * abs(row["confidence"] - row["right"]) for row in table) / total


def reliability_cells(table: Sequence[ReliabilityRow]) -> tuple[list[str], list[list[str]]]:
    """The column names and the cells of a reliability table, as people read it."""
    columns = ["probability", "queries", "mean", "first is right"]
    cells = [
        [
            f"{row['from']:.0%} to {row['to']:.0%}",
            f"{row['questions']:,}",
            f"{row['confidence']:.1%}",
            f"{row['right']:.1%}",
            *([f"{row['among_ten']:.1%}"] if "among_ten" in row else []),
        ]
        for row in table
    ]
    return columns + ["right answer in first ten"] * ("among_ten" in table[0]), cells


@torch.inference_mode()
def _score_valid(model: Model, graph: TemporalGraph, progress: Progress | None) -> _Scored:
    """Both queries of facts spread evenly over valid, objects first."""
    affordable = max(1, memory_budget("calibration", model.device) // (8 * len(graph.entities)))
    count = min(len(graph.valid), _MAX_FACTS, affordable)
    chosen = torch.linspace(0, len(graph.valid) - 1, count, dtype=torch.float64).round().long()
    facts = torch.from_numpy(graph.valid)[chosen].to(model.device)
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
    scores[row[other], entity[other]] = -math.inf
    return _Scored(scores, answer)
