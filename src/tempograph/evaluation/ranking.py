"""From scores to filtered ranks to metrics: pure functions that know no model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.errors import ConfigError
from tempograph.models.sparse_scores import SparseScores

Metrics = dict[str, float]
"""`mrr`, `mr` and `hits@k` for each k, Hits as fractions of 1."""
MAX_STEP_HITS: Final = 10
"""Hits@k of facts that are asked about at several steps are counted up to this k."""


class Ranks(NamedTuple):
    """The rank of each answer, [n] each: the mean over its ties, the best and the worst of them."""

    realistic: Tensor
    optimistic: Tensor
    pessimistic: Tensor

    def cpu(self) -> Ranks:
        """The same on the CPU."""
        return Ranks(*(column.cpu() for column in self))


@dataclass(frozen=True, eq=False)
class StepMeans:
    """What the ranks of n answers come to, each asked for at several steps: means over its steps.

    `metrics` takes them in place of ranks, so that long facts do not weigh more than short ones.
    """

    rank: Tensor
    """[n]."""
    reciprocal: Tensor
    """[n]."""
    hits: Tensor
    """Hits@1, Hits@2 and so on, [n, MAX_STEP_HITS]."""

    @staticmethod
    def zeros(count: int, device: torch.device) -> StepMeans:
        """Sums of nothing yet."""
        rank = torch.zeros(count, dtype=torch.float64, device=device)
        return StepMeans(rank, rank.clone(), rank.new_zeros(count, MAX_STEP_HITS))

    def add(self, row: Tensor, ranks: Tensor) -> None:
        """Add the ranks [m] of answers [m] at one step each."""
        ranks = ranks.double()
        cutoffs = torch.arange(1, MAX_STEP_HITS + 1, device=ranks.device)
        self.rank.index_add_(0, row, ranks)
        self.reciprocal.index_add_(0, row, ranks.reciprocal())
        self.hits.index_add_(0, row, (ranks[:, None] <= cutoffs).double())

    def over(self, steps: Tensor) -> StepMeans:
        """Means from sums over so many steps of each answer, [n]."""
        return StepMeans(self.rank / steps, self.reciprocal / steps, self.hits / steps[:, None])

    def __getitem__(self, index: Tensor | slice) -> StepMeans:
        return StepMeans(self.rank[index], self.reciprocal[index], self.hits[index])

    def __len__(self) -> int:
        return len(self.rank)

    def cpu(self) -> StepMeans:
        """The same on the CPU."""
        return StepMeans(self.rank.cpu(), self.reciprocal.cpu(), self.hits.cpu())


class StepRanks(NamedTuple):
    """Means over steps of the three ranks of each answer, and how many steps each has, [n]."""

    realistic: StepMeans
    optimistic: StepMeans
    pessimistic: StepMeans
    steps: Tensor

    def cpu(self) -> StepRanks:
        """The same on the CPU."""
        realistic, optimistic, pessimistic, steps = self
        return StepRanks(realistic.cpu(), optimistic.cpu(), pessimistic.cpu(), steps.cpu())

    @property
    def ranks(self) -> Ranks:
        """The mean ranks."""
        return Ranks(self.realistic.rank, self.optimistic.rank, self.pessimistic.rank)


def filtered_ranks(scores: Tensor, answer: Tensor, known: tuple[Tensor, Tensor]) -> Ranks:
    """The rank of each answer among the candidates that are not also true.

    This is where the filter is applied: `known` comes from `data.filters.KnownAnswers`, by default
    the other answers that are true at the same time step.

    scores [queries, candidates], answer [queries]; `known` holds distinct pairs (query, known
    answer), [pairs] each. An answer is never filtered from its own query.
    """
    answer_score = scores.gather(1, answer[:, None])
    row, candidate = known
    others = candidate != answer[row]
    greater, equal = filtered_counts(scores, answer_score, (row[others], candidate[others]))
    return ranks_from_counts(greater, equal - 1)


def filtered_counts(
    scores: Tensor, answer_score: Tensor, removed: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """How many candidates score more than the answer, and how many as much, [queries] each.

    scores [queries, candidates], answer_score [queries, 1]; distinct pairs (query, candidate) that
    are `removed` do not count.
    """
    refuse_nan(scores)
    # Short integers add up several times as fast on a CPU.
    greater = (scores > answer_score).sum(1, dtype=torch.int32).long()
    equal = (scores == answer_score).sum(1, dtype=torch.int32).long()
    row, candidate = removed
    score, threshold = scores[row, candidate], answer_score[row, 0]
    greater.index_add_(0, row, (score > threshold).to(greater.dtype), alpha=-1)
    equal.index_add_(0, row, (score == threshold).to(equal.dtype), alpha=-1)
    return greater, equal


def sparse_ranks(scores: SparseScores, answer: Tensor, known: tuple[Tensor, Tensor]) -> Ranks:
    """`filtered_ranks` from the candidates that differ from the rest, and the rest."""
    return ranks_from_counts(*scores.counts(answer, known))


def sampled_ranks(scores: Tensor, answer: Tensor, negatives: Tensor) -> Ranks:
    """The rank of each answer among some candidates only.

    scores [queries, candidates], answer [queries], negatives [queries, count]. Sampled ranks are
    better than ranks among all candidates, and not comparable with them.
    """
    answer_score, others = scores.gather(1, answer[:, None]), scores.gather(1, negatives)
    refuse_nan(torch.cat([answer_score, others], dim=1))
    return ranks_from_counts((others > answer_score).sum(1), (others == answer_score).sum(1))


def metrics(ranks: Tensor | StepMeans, hits: Iterable[int] = (1, 3, 10)) -> Metrics:
    """MRR, mean rank and Hits@k for each k.   ranks [n], or their means over steps."""
    cutoffs = list(hits)
    check_cutoffs(cutoffs, isinstance(ranks, StepMeans))
    if isinstance(ranks, StepMeans):
        values = {"mrr": ranks.reciprocal.mean(), "mr": ranks.rank.mean()}
        values |= {f"hits@{k}": ranks.hits[:, k - 1].mean() for k in cutoffs}
        return {name: float(value) for name, value in values.items()}
    ranks = ranks.double()
    values = {"mrr": ranks.reciprocal().mean(), "mr": ranks.mean()}
    values |= {f"hits@{k}": (ranks <= k).double().mean() for k in cutoffs}
    return {name: float(value) for name, value in values.items()}


def check_cutoffs(cutoffs: Sequence[int], over_steps: bool) -> None:
    """Raise ConfigError if Hits@k cannot be counted for a k.

    over_steps: whether facts hold for a while, so that each is asked about at several steps.
    """
    if any(k < 1 for k in cutoffs):
        raise ConfigError(f"Hits@k needs k of at least 1, found {min(cutoffs)}")
    if over_steps and any(k > MAX_STEP_HITS for k in cutoffs):
        raise ConfigError(
            f"Hits@k of facts that hold for a while needs k of at most {MAX_STEP_HITS}, "
            f"found {max(cutoffs)}"
        )


def refuse_nan(scores: Tensor) -> None:
    """Raise FloatingPointError if a score is NaN."""
    # A NaN compares false with everything and would silently rank first.
    if torch.isnan(scores).any():
        raise FloatingPointError("a score is NaN, so its rank is undefined")


def ranks_from_counts(greater: Tensor, equal: Tensor) -> Ranks:
    """The ranks of answers with so many candidates above them and tied with them, [n] each."""
    optimistic = greater + 1
    pessimistic = optimistic + equal
    return Ranks((optimistic + pessimistic).double() / 2, optimistic, pessimistic)
