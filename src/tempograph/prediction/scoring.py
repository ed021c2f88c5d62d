"""Scores, probabilities and ranks of many facts, as objects and as subjects, in bounded memory."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from tempograph.data.timeline import fact_queries
from tempograph.evaluation.evaluator import query_batches
from tempograph.evaluation.ranking import filtered_ranks
from tempograph.prediction.scenario import Scenario
from tempograph.typing import Progress

SIDES: Final = ("object", "subject")
"""The sides of a fact that are predicted, in the order of all results."""


class FactScores(NamedTuple):
    """Scores of n facts as answers to their object queries, then to their subject queries, [2n]."""

    score: Tensor
    log_probability: Tensor | None = None
    rank: Tensor | None = None

    def columns(self) -> dict[str, Any]:
        """The columns of an Arrow table: score, probability and rank of each side."""
        columns: dict[str, Any] = {}
        for index, side in enumerate(SIDES):
            columns[f"{side}_score"] = _half(self.score, index)
            if self.rank is not None:
                probability: Any = [None] * (len(self.score) // 2)
                if self.log_probability is not None:
                    probability = _half(self.log_probability.exp(), index)
                columns[f"{side}_probability"] = pa.array(probability, pa.float64())
                columns[f"{side}_rank"] = _half(self.rank, index)
        return columns


def _half(values: Tensor, index: int) -> np.ndarray:
    half: np.ndarray = values.chunk(2)[index].cpu().numpy()
    return half


def log_probabilities(scores: Tensor, known: tuple[Tensor, Tensor], temperature: float) -> Tensor:
    """Log softmax of scores / temperature over the candidates not known to be right, [n, entities].

    `known` holds distinct (query, candidate) pairs. A known candidate competes with the unknown
    ones, not with other known ones.
    """
    log_probs = scores.to(torch.float64, copy=True).div_(temperature)
    row, candidate = known
    own = log_probs[row, candidate]
    log_probs[row, candidate] = -math.inf
    total = torch.logsumexp(log_probs, 1)
    log_probs.sub_(total[:, None])
    log_probs[row, candidate] = -torch.nn.functional.softplus(total[row] - own)
    return log_probs


@torch.inference_mode()
def score_facts(
    scenario: Scenario,
    facts: Tensor,
    budget: int | None = None,
    progress: Progress | None = None,
    ranks: bool = True,
) -> FactScores:
    """Score, probability and filtered rank of facts [n, 4] as answers to both their queries.

    Without ranks only scores: a model that can does not score other candidates then.
    """
    model, known = scenario.model, scenario.known
    temperature = scenario.temperature if ranks else None
    queries, answer = fact_queries(facts, known.num_relations)
    score, log_probability, rank = (
        torch.empty(len(answer), dtype=torch.float64, device=facts.device) for _ in range(3)
    )
    for index in query_batches(model, queries, known, budget, progress):
        batch, right = queries.take(index), answer[index]
        if not ranks:
            score[index] = model.answer_scores(batch, right).double()
            continue
        scores, pairs = model.scores(batch), known(batch)
        rank[index] = filtered_ranks(scores, right, pairs).realistic
        own = scores.gather(1, right[:, None])[:, 0].double()
        score[index] = own
        if temperature is not None:
            scores[pairs] = -math.inf
            others = scores.scatter_(1, right[:, None], -math.inf).div_(temperature)
            log_probability[index] = -torch.nn.functional.softplus(
                torch.logsumexp(others, 1).double() - own / temperature
            )
    return FactScores(
        score, None if temperature is None else log_probability, rank if ranks else None
    )
