"""Scores, probabilities and ranks of many facts, as objects and as subjects, in bounded memory."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.sorted_ranges import Ranges
from tempograph.data.spans import EVENT_COLUMNS
from tempograph.data.timeline import Queries, fact_queries
from tempograph.evaluation.asked_steps import FactsAtSteps
from tempograph.evaluation.evaluator import query_batches
from tempograph.evaluation.probabilities import Calibrator
from tempograph.evaluation.ranking import filtered_ranks
from tempograph.models.base import Model
from tempograph.typing import Progress


class FactScores(NamedTuple):
    """Scores of n facts as answers to their object queries, then to their subject queries, [2n]."""

    score: Tensor
    log_probability: Tensor | None = None
    rank: Tensor | None = None


@torch.inference_mode()
def score_facts(
    model: Model,
    facts: Tensor,
    known: KnownAnswers,
    calibrator: Calibrator | None,
    budget: int | None = None,
    progress: Progress | None = None,
) -> FactScores:
    """Score, probability and filtered rank of facts [n, 4 or 6] as answers to both their queries.

    Other known answers are left out. Without a calibrator there are only scores: a model that can
    does not score other candidates then. Of facts that hold for a while, these are means over their
    steps.
    """
    if facts.shape[1] > EVENT_COLUMNS:
        return _mean_scores(model, facts, known, calibrator, budget, progress)
    queries, answer = fact_queries(facts, known.num_relations)
    score, log_probability, rank = (
        torch.empty(len(answer), dtype=torch.float64, device=facts.device) for _ in range(3)
    )
    for index in query_batches(model, queries, known, budget, progress):
        batch, right = queries.take(index), answer[index]
        if calibrator is None:
            score[index] = model.answer_scores(batch, right).double()
            continue
        scores, (row, candidate) = model.scores(batch), known(batch)
        rank[index] = filtered_ranks(scores, right, (row, candidate)).realistic
        score[index] = scores.gather(1, right[:, None])[:, 0].double()
        other = candidate != right[row]
        scores[row[other], candidate[other]] = -math.inf
        eligible = scores.shape[1] - torch.bincount(row[other], minlength=len(index))
        log_probs = calibrator.some_log_probs(scores, right[:, None], eligible)
        log_probability[index] = log_probs[:, 0]
    return FactScores(score) if calibrator is None else FactScores(score, log_probability, rank)


def _mean_scores(
    model: Model,
    facts: Tensor,
    known: KnownAnswers,
    calibrator: Calibrator | None,
    budget: int | None,
    progress: Progress | None,
) -> FactScores:
    """`score_facts` at each step of facts [n, 6], as means over the steps of each fact."""
    asked, count, done = FactsAtSteps(facts, known), len(facts), 0
    sums = torch.zeros(3, 2 * count, dtype=torch.float64, device=facts.device)

    def advance(queries: int, _: int) -> None:
        if progress is not None:
            progress(done + queries, asked.num_queries)

    for pairs in asked:
        found = score_facts(model, pairs.events(facts), known, calibrator, budget, advance)
        row = torch.cat([pairs.fact, pairs.fact + count])
        for total, column in zip(sums, found, strict=True):
            if column is not None:
                total.index_add_(0, row, column)
        done += len(row)
    score, log_probability, rank = sums / (facts[:, 4] - facts[:, 3] + 1).repeat(2)
    return FactScores(score) if calibrator is None else FactScores(score, log_probability, rank)


@torch.inference_mode()
def unfiltered_log_probs(
    facts: Tensor, model: Model, calibrator: Calibrator, budget: int | None = None
) -> Tensor:
    """Log probabilities of the objects and of the subjects of facts [n, 4], [n, 2].

    No known answer is left out, so facts that share a query share its scores.
    """
    timeline = model.timeline
    nothing = KnownAnswers(timeline.facts[:0], timeline.sizes)
    asked, answer = fact_queries(facts, timeline.num_relations)
    distinct, query = torch.unique(torch.stack(asked, dim=1), dim=0, return_inverse=True)
    queries = Queries(*distinct.T.contiguous())
    order = torch.argsort(query, stable=True)
    start = torch.searchsorted(query[order], torch.arange(len(distinct) + 1, device=query.device))
    found = torch.empty(len(answer), dtype=torch.float64, device=facts.device)
    for index in query_batches(model, queries, nothing, budget):
        log_probs = calibrator.log_probs(model.scores(queries.take(index)))
        row, position = Ranges(start[index], start[index + 1]).expand()
        found[order[position]] = log_probs[row, answer[order[position]]]
    return found.view(2, -1).T.contiguous()


def entity_log_probs(
    facts: Tensor,
    model: Model,
    known: KnownAnswers,
    calibrator: Calibrator,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """Log probabilities of the objects and of the subjects of facts [n, 4], [n, 2].

    Other known answers are left out.
    """
    found = score_facts(model, facts, known, calibrator, budget, progress)
    log_probability = found.log_probability
    assert log_probability is not None
    return log_probability.view(2, -1).T.contiguous()
