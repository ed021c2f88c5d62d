"""From scores to filtered ranks to metrics; pure functions that know no model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.errors import ConfigError


class Ranks(NamedTuple):
    """The rank of each answer, [n] each: ties count against it never, always, or by their mean."""

    realistic: Tensor
    optimistic: Tensor
    pessimistic: Tensor


def filtered_ranks(scores: Tensor, target: Tensor, known: tuple[Tensor, Tensor]) -> Ranks:
    """Rank of each target among the candidates not already known to be true; ties share their mean.

    scores [queries, candidates], target [queries]; known holds distinct (query, candidate) pairs, [pairs] each, and may
    hold the target itself, which is never filtered from its own question.
    """
    target_score = scores.gather(1, target[:, None])
    # A NaN compares false with everything and would silently rank first.
    if torch.isnan(scores).any():
        raise FloatingPointError("a score is NaN, so its rank is undefined")
    # Short integers add up several times as fast on a CPU.
    greater = (scores > target_score).sum(1, dtype=torch.int32).long()
    equal = (scores == target_score).sum(1, dtype=torch.int32).long() - 1

    row, candidate = known
    others = candidate != target[row]
    row, candidate = row[others], candidate[others]
    removed, bar = scores[row, candidate], target_score[row, 0]
    greater.index_add_(0, row, (removed > bar).to(greater.dtype), alpha=-1)
    equal.index_add_(0, row, (removed == bar).to(equal.dtype), alpha=-1)

    optimistic = greater + 1
    pessimistic = optimistic + equal
    return Ranks((optimistic + pessimistic).double() / 2, optimistic, pessimistic)


def metrics(ranks: Tensor, hits: Iterable[int] = (1, 3, 10)) -> dict[str, float]:
    """MRR, mean rank and the share of answers ranked k or better, for each k.   ranks [n]."""
    wanted = list(hits)
    if any(k < 1 for k in wanted):
        raise ConfigError(f"Hits@k needs k of at least 1, found {min(wanted)}")
    ranks = ranks.double()
    values = {"mrr": ranks.reciprocal().mean(), "mr": ranks.mean()}
    values |= {f"hits@{k}": (ranks <= k).double().mean() for k in wanted}
    return {name: float(value) for name, value in values.items()}
