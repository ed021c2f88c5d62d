"""Many questions at once, in bounded memory: scores, probabilities and ranks of facts from both sides."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import fact_queries
from tempograph.evaluation.evaluator import query_batches
from tempograph.evaluation.ranking import filtered_ranks
from tempograph.models.base import Model
from tempograph.typing import Progress


class Found(NamedTuple):
    """What a model makes of facts: objects first, then subjects, [2n] each."""

    score: Tensor
    log_probability: Tensor | None
    rank: Tensor


def log_shares(scores: Tensor, known: tuple[Tensor, Tensor], temperature: float) -> Tensor:
    """The logarithm of softmax(scores / temperature), each candidate among those not known to be right, [n, entities].

    Known holds distinct (question, candidate) pairs. A known candidate is compared with those that are not known and
    itself, as if it alone were to be found.
    """
    shares = scores.to(torch.float64, copy=True).div_(temperature)
    row, candidate = known
    own = shares[row, candidate]
    shares[row, candidate] = -math.inf
    total = torch.logsumexp(shares, 1)
    shares.sub_(total[:, None])
    shares[row, candidate] = -torch.nn.functional.softplus(total[row] - own)
    return shares


@torch.inference_mode()
def ask_facts(
    model: Model,
    facts: Tensor,
    known: KnownAnswers,
    temperature: float | None,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Found:
    """Both questions of each fact [n, 4]; other known answers are taken out, as they are in an evaluation."""
    queries, answer = fact_queries(facts, known.num_relations)
    score, share, rank = (
        torch.empty(len(answer), dtype=torch.float64, device=facts.device) for _ in range(3)
    )
    for index in query_batches(model, queries, known, budget, progress):
        asked, right = queries.take(index), answer[index]
        scores, pairs = model.scores(asked), known(asked)
        rank[index] = filtered_ranks(scores, right, pairs).realistic
        own = scores.gather(1, right[:, None])[:, 0].double()
        score[index] = own
        if temperature is not None:
            row, candidate = pairs
            scores[row, candidate] = -math.inf
            rest = scores.scatter_(1, right[:, None], -math.inf).div_(temperature)
            share[index] = -torch.nn.functional.softplus(
                torch.logsumexp(rest, 1).double() - own / temperature
            )
    return Found(score, None if temperature is None else share, rank)


@torch.inference_mode()
def score_facts(
    model: Model,
    facts: Tensor,
    known: KnownAnswers,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """The scores of facts [n, 4] as answers to both their questions, objects first, and of nothing else, [2n]."""
    queries, answer = fact_queries(facts, known.num_relations)
    score = torch.empty(len(answer), dtype=torch.float64, device=facts.device)
    for index in query_batches(model, queries, known, budget, progress):
        score[index] = model.answer_scores(queries.take(index), answer[index]).double()
    return score
