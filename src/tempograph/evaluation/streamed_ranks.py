"""Exact filtered ranks among many candidates, which are scored in blocks within the memory budget.

No step holds the scores of a query against all entities: what ranks and probabilities need of them,
counts, a maximum and a logsumexp, adds up over blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import Queries
from tempograph.device import memory_budget
from tempograph.evaluation.probabilities import TOP, Calibrator, Confidence
from tempograph.evaluation.ranking import Ranks, filtered_counts, ranks_from_counts
from tempograph.models.base import Model
from tempograph.typing import Progress

_FEW_QUERIES: Final = 128
"""Queries that are too few for a fast product with the vectors of all entities."""
_MAX_QUERIES: Final = 2048
"""Queries for which the vectors of a block are worth reading."""


def needs_blocks(model: Model, known: KnownAnswers, budget: int | None) -> bool:
    """Whether only few queries fit the budget with all candidates, and the model scores blocks."""
    blocks = model.scores_blocks and model.shards is None
    return blocks and _cells(model, budget) < _FEW_QUERIES * known.num_entities


def rank_in_blocks(
    model: Model,
    queries: Queries,
    answer: Tensor,
    known: KnownAnswers,
    budget: int | None = None,
    progress: Progress | None = None,
    calibrator: Calibrator | None = None,
) -> tuple[Ranks, Confidence | None]:
    """The rank of each answer [n] and, with a calibrator, how sure the queries are of their best.

    The budget is in bytes; by default that of ranking.
    """
    cells, parts, done = _cells(model, budget), list[_Totals](), 0
    size = max(1, min(len(answer), _MAX_QUERIES, math.isqrt(cells)))
    for index in torch.split(torch.arange(len(answer), device=answer.device), size):
        totals = _Totals.start(model, queries.take(index), answer[index], calibrator)
        totals.add_blocks(model, known, max(1, cells // size))
        parts.append(totals)
        done += len(index)
        if progress is not None:
            progress(done, len(answer))
    ranks = [ranks_from_counts(part.greater, part.equal) for part in parts]
    joined = Ranks(*(torch.cat(column) for column in zip(*ranks, strict=True)))
    if calibrator is None:
        return joined, None
    sure = [part.confidence(calibrator) for part in parts]
    return joined, Confidence(*(torch.cat(column) for column in zip(*sure, strict=True)))


def blocks(known: tuple[Tensor, Tensor], count: int, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks of candidates 0 to count - 1, each with the positions of its known pairs.

    known: pairs (query, candidate), sorted by candidate.
    """
    candidate = known[1]
    starts = torch.arange(0, count + size, size, device=candidate.device).clamp(max=count)
    bounds = torch.searchsorted(candidate, starts).tolist()
    for number, start in enumerate(range(0, count, size)):
        ids = torch.arange(start, min(start + size, count), device=candidate.device)
        yield ids, torch.arange(bounds[number], bounds[number + 1], device=candidate.device)


@dataclass
class _Totals:
    """What is known of n queries after some blocks, [n] each."""

    queries: Queries
    answer: Tensor
    score: Tensor
    """The scores of the answers, [n, 1]."""
    greater: Tensor
    equal: Tensor
    temperature: float | None
    """What scores are divided by in `total`; None if only ranks are asked for."""
    best: Tensor
    best_score: Tensor
    total: Tensor
    """logsumexp of the scores of candidates that are not also true, divided by the temperature."""
    eligible: Tensor
    """Candidates that are not also true."""

    @staticmethod
    def start(
        model: Model, queries: Queries, answer: Tensor, calibrator: Calibrator | None
    ) -> _Totals:
        """The scores of the answers, before any block."""
        distinct, column = torch.unique(answer, return_inverse=True)
        score = model.candidate_scores(queries, distinct).gather(1, column[:, None])
        none, low = torch.zeros_like(answer), torch.full_like(score[:, 0], -math.inf)
        temperature = None if calibrator is None else calibrator.temperature
        return _Totals(
            queries, answer, score, none, none, temperature, none, low, low.double(), none
        )

    def add_blocks(self, model: Model, known: KnownAnswers, size: int) -> None:
        """Add all candidates, in blocks of this size."""
        row, candidate = known(self.queries)
        others = candidate != self.answer[row]
        row, candidate = row[others], candidate[others]
        count = known.num_entities
        self.eligible = count - torch.bincount(row, minlength=len(self.answer))
        # An answer is not above or level with itself, however its score is rounded in a block.
        own = torch.arange(len(self.answer), device=row.device)
        row, candidate = torch.cat([row, own]), torch.cat([candidate, self.answer])
        candidate, order = candidate.sort()
        row = row[order]
        for ids, part in blocks((row, candidate), count, size):
            scores = model.candidate_scores(self.queries, ids)
            removed = row[part], candidate[part] - ids[0]
            greater, equal = filtered_counts(scores, self.score, removed)
            self.greater, self.equal = self.greater + greater, self.equal + equal
            if self.temperature is not None:
                also_true = candidate[part] != self.answer[row[part]]
                scores[removed[0][also_true], removed[1][also_true]] = -math.inf
                self._add_probabilities(scores, ids, self.temperature)

    def _add_probabilities(self, scores: Tensor, ids: Tensor, temperature: float) -> None:
        value, position = scores.max(1)
        better = value > self.best_score
        self.best = torch.where(better, ids[position], self.best)
        self.best_score = torch.where(better, value, self.best_score)
        total = torch.logsumexp(scores / temperature, 1).double()
        self.total = torch.logaddexp(self.total, total)

    def confidence(self, calibrator: Calibrator) -> Confidence:
        """How sure the queries are of their best candidates."""
        scores = torch.cat([self.best_score[:, None], self.score], dim=1)
        log_probs = calibrator.log_probs_of(scores, self.total, self.eligible)
        return Confidence(
            log_probs[:, 0].exp(), self.best == self.answer, self.greater < TOP, log_probs[:, 1]
        )


def _cells(model: Model, budget: int | None) -> int:
    """Scores of pairs (query, candidate) that fit the budget in bytes."""
    if budget is None:
        budget = memory_budget("ranking", model.device)
    return max(1, budget // model.bytes_per_candidate)
