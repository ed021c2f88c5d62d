"""What candidates score that no fact speaks for: by relation, whatever else a query asks."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import Ranges
from tempograph.models.pointer.copying import Copying
from tempograph.models.sparse_scores import Rest, find_cells


class RelationPrior:
    """score(o) = P0[o] + P[r, o] + v_r log(1 + N(o)) if (r, o) occurs in train, else P0[o].

    N counts the facts of the relation, unless only those of voting candidates count.
    """

    def __init__(self, entity: Tensor, source: Copying) -> None:
        assert source.prior is not None
        self.entity, self.prior, self.index = entity, source.prior, source.fact_index
        self.v = (source.shared_gain + source.gain)[:, 2]
        self.counts_all = not len(source.bins.row_count)

    def keys(self, relation: Tensor) -> Tensor:
        """The keys of relations [n] in the index, [n]."""
        return self.index.find_keys(relation)

    def pairs(self, relation: Tensor, candidate: Tensor) -> Tensor:
        """The positions of (relation, candidate) pairs [n] in the index, -1 for none, [n]."""
        size = len(self.entity)
        return find_cells(self.index.candidate_keys, self.keys(relation) * size + candidate)

    def ranges(self, relation: Tensor) -> Ranges:
        """The positions of the pairs of relations [n]."""
        key = self.keys(relation)
        return Ranges(self.index.candidate_start[key], self.index.candidate_start[key + 1])

    def of_pairs(self, relation: Tensor, pair: Tensor) -> Tensor:
        """The scores of pairs [n], which occur, of relations [n]."""
        scores = self.entity.index_select(0, self.index.candidates[pair])
        scores = scores + self.prior.index_select(0, pair)
        if not self.counts_all:
            return scores
        counts = self.index.candidate_count[pair].to(scores.dtype)
        return scores + self.v.index_select(0, relation) * counts.log1p()

    def at(self, relation: Tensor, candidate: Tensor, pair: Tensor) -> Tensor:
        """The scores of candidates [n] of relations [n] with these pairs, -1 for none."""
        known = (pair >= 0).nonzero()[:, 0]
        scores = self.entity.index_select(0, candidate)
        more = self.of_pairs(relation[known], pair[known])
        return scores.index_copy(0, known, more)

    def log_sums(self, relation: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
        """Shift m and the sum over all entities of exp(score / temperature - m), [n] each.

        In double precision: some of the terms are taken out again.
        """
        relations, inverse = torch.unique(relation, return_inverse=True)
        row, pair = self.ranges(relations).expand()
        score = self.of_pairs(relations[row], pair).double() / temperature
        entity = self.entity.double() / temperature
        highest = entity.detach().max()
        shift = highest.expand(len(relations)).scatter_reduce(0, row, score.detach(), "amax")
        total = torch.exp(entity - highest).sum() * torch.exp(highest - shift)
        without = entity.index_select(0, self.index.candidates[pair])
        change = torch.exp(score - shift[row]) - torch.exp(without - shift[row])
        return shift[inverse], total.index_add(0, row, change).index_select(0, inverse)


class SortedPrior:
    """The scores of a `RelationPrior`, sorted once for all queries until the weights change."""

    def __init__(self, prior: RelationPrior) -> None:
        self.prior, self.index = prior, prior.index
        key = torch.repeat_interleave(
            torch.arange(len(self.index.values), device=prior.entity.device),
            self.index.candidate_start.diff()[:-1],
        )
        every = torch.arange(len(key), device=key.device)
        self.score = prior.of_pairs(self.index.values[key], every)
        """The score of each pair, [pairs]."""
        self.entity = prior.entity.detach()
        self.entity_order = torch.argsort(self.entity, descending=True, stable=True)
        self.entity_sorted = self.entity[self.entity_order]
        self.pair_order = _order_within(key, self.score)
        self.pair_sorted = self.score[self.pair_order]
        own = self.entity[self.index.candidates]
        self.pair_entity_sorted = own[_order_within(key, own)]


class RelationRest(Rest):
    """The scores of `SortedPrior` for queries with relations [rows]."""

    def __init__(self, scores: SortedPrior, relation: Tensor) -> None:
        self.scores, self.relation = scores, relation
        self.ranges = scores.prior.ranges(relation)

    def at(self, row: Tensor, candidate: Tensor) -> Tensor:
        pair = self.scores.prior.pairs(self.relation[row], candidate)
        entity = self.scores.entity[candidate]
        return torch.where(pair >= 0, self.scores.score[pair.clamp(min=0)], entity)

    def count(self, value: Tensor) -> tuple[Tensor, Tensor]:
        every = Ranges(
            torch.zeros_like(self.relation), torch.full_like(self.relation, len(self.scores.entity))
        )
        above, at_least = torch.zeros(2, len(value), dtype=torch.int64, device=value.device)
        for sorted_scores, ranges, sign in (
            (self.scores.entity_sorted, every, 1),
            (self.scores.pair_entity_sorted, self.ranges, -1),
            (self.scores.pair_sorted, self.ranges, 1),
        ):
            above.add_(count_descending(sorted_scores, ranges, value, equal=False), alpha=sign)
            at_least.add_(count_descending(sorted_scores, ranges, value, equal=True), alpha=sign)
        return above, at_least - above

    def best(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        scores, index = self.scores, self.scores.index
        count = min(count, len(scores.entity))
        every = scores.entity_order[:count].expand(len(self.relation), -1)
        row = torch.arange(len(self.relation), device=every.device)[:, None].expand_as(every)
        pair = scores.prior.pairs(self.relation[row.flatten()], every.flatten())
        # Those that occur with the relation come from the other list.
        alone = scores.entity_sorted[:count].masked_fill((pair >= 0).view_as(every), -torch.inf)
        position = self.ranges.start[:, None] + torch.arange(count, device=every.device)
        inside = position < self.ranges.stop[:, None]
        position = position.clamp(max=len(scores.score) - 1)
        own = scores.pair_sorted[position].masked_fill(~inside, -torch.inf)
        named = index.candidates[scores.pair_order[position]]
        best = torch.cat([own, alone], 1).topk(count, 1)
        # Candidates that are in neither list are at most as good as the last of all entities.
        sure = best.values >= scores.entity_sorted[count - 1]
        if count == len(scores.entity):
            sure = torch.ones_like(sure)
        return best.values, torch.cat([named, every], 1).gather(1, best.indices), sure

    def log_sums(self, temperature: float) -> tuple[Tensor, Tensor]:
        return self.scores.prior.log_sums(self.relation, temperature)


def count_descending(scores: Tensor, ranges: Ranges, value: Tensor, *, equal: bool) -> Tensor:
    """How many scores of each range, in which they descend, are above a value, [n].

    With `equal`, those that equal it count as well.
    """
    low, high = ranges.start.clone(), ranges.stop.clone()
    if not len(scores):
        return torch.zeros_like(low)
    for _ in range(len(scores).bit_length()):
        middle = (low + high) // 2
        here = scores[middle.clamp(max=len(scores) - 1)]
        before = (here >= value if equal else here > value) & (middle < high)
        low, high = torch.where(before, middle + 1, low), torch.where(before, high, middle)
    return low - ranges.start


def _order_within(key: Tensor, scores: Tensor) -> Tensor:
    """The order of scores, descending within each key; keys ascend."""
    order = torch.argsort(scores, descending=True, stable=True)
    return order[torch.argsort(key[order], stable=True)]
