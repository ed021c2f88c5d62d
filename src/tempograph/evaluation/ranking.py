"""From scores to filtered ranks to metrics: pure functions that know no model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.errors import ConfigError
from tempograph.models.sparse_scores import SparseScores

Metrics = dict[str, float]
"""`mrr`, `mr` and `hits@k` for each k, Hits as fractions of 1."""


class Ranks(NamedTuple):
    """The rank of each answer, [n] each: the mean over its ties, the best and the worst of them."""

    realistic: Tensor
    optimistic: Tensor
    pessimistic: Tensor

    def cpu(self) -> Ranks:
        """The same on the CPU."""
        return Ranks(*(column.cpu() for column in self))


def filtered_ranks(scores: Tensor, answer: Tensor, known: tuple[Tensor, Tensor]) -> Ranks:
    """The rank of each answer among the candidates that are not also true.

    This is where the filter is applied: `known` comes from `data.filters.KnownAnswers`, by default
    the other answers that are true at the same time step.

    scores [queries, candidates], answer [queries]; `known` holds distinct pairs (query, known
    answer), [pairs] each. An answer is never filtered from its own query.
    """
    answer_score = scores.gather(1, answer[:, None])
    _refuse_nan(scores)
    # Short integers add up several times as fast on a CPU.
    greater = (scores > answer_score).sum(1, dtype=torch.int32).long()
    equal = (scores == answer_score).sum(1, dtype=torch.int32).long() - 1

    row, candidate = known
    others = candidate != answer[row]
    row, candidate = row[others], candidate[others]
    removed, threshold = scores[row, candidate], answer_score[row, 0]
    greater.index_add_(0, row, (removed > threshold).to(greater.dtype), alpha=-1)
    equal.index_add_(0, row, (removed == threshold).to(equal.dtype), alpha=-1)

    return _ranks(greater, equal)


def sparse_ranks(scores: SparseScores, answer: Tensor, known: tuple[Tensor, Tensor]) -> Ranks:
    """`filtered_ranks` from the candidates that differ from the rest, and the rest."""
    return _ranks(*scores.counts(answer, known))


def sampled_ranks(scores: Tensor, answer: Tensor, negatives: Tensor) -> Ranks:
    """The rank of each answer among some candidates only.

    scores [queries, candidates], answer [queries], negatives [queries, count]. Sampled ranks are
    better than ranks among all candidates, and not comparable with them.
    """
    answer_score, others = scores.gather(1, answer[:, None]), scores.gather(1, negatives)
    _refuse_nan(torch.cat([answer_score, others], dim=1))
    return _ranks((others > answer_score).sum(1), (others == answer_score).sum(1))


def metrics(ranks: Tensor, hits: Iterable[int] = (1, 3, 10)) -> Metrics:
    """MRR, mean rank and Hits@k for each k.   ranks [n]."""
    cutoffs = list(hits)
    if any(k < 1 for k in cutoffs):
        raise ConfigError(f"Hits@k needs k of at least 1, found {min(cutoffs)}")
    ranks = ranks.double()
    values = {"mrr": ranks.reciprocal().mean(), "mr": ranks.mean()}
    values |= {f"hits@{k}": (ranks <= k).double().mean() for k in cutoffs}
    return {name: float(value) for name, value in values.items()}


def _refuse_nan(scores: Tensor) -> None:
    # A NaN compares false with everything and would silently rank first.
    if torch.isnan(scores).any():
        raise FloatingPointError("a score is NaN, so its rank is undefined")


def _ranks(greater: Tensor, equal: Tensor) -> Ranks:
    """The ranks of answers with so many candidates above them and tied with them, [n] each."""
    optimistic = greater + 1
    pessimistic = optimistic + equal
    return Ranks((optimistic + pessimistic).double() / 2, optimistic, pessimistic)
