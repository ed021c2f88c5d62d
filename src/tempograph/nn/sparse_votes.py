"""Contributions of voting facts to those candidates of each query that are laid out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.nn.votes import (
    VoteBins,
    VoteRanges,
    VoteWeights,
    counted_removals,
    fact_numbers,
    largest_at,
    weights_at,
)


@dataclass(frozen=True, eq=False)
class Cells:
    """The candidates laid out for some queries, ascending by query and candidate."""

    key: Tensor
    """query * entities + candidate, distinct, [cells]."""
    num_entities: int

    @cached_property
    def query(self) -> Tensor:
        """The query of each cell, [cells]."""
        return self.key // self.num_entities

    @cached_property
    def candidate(self) -> Tensor:
        """The candidate of each cell, [cells]."""
        return self.key % self.num_entities

    def find(self, query: Tensor, candidate: Tensor) -> Tensor:
        """The cells of candidates [n] of queries [n], all of which are laid out, [n]."""
        return torch.searchsorted(self.key, query * self.num_entities + candidate)


class VoteRows(NamedTuple):
    """What names candidates of queries: facts that may vote, candidates of the key, removed facts.

    Three lists, one after another: the facts are positions in the index, [rows] each, then
    positions in its candidates, then columns of `VoteRanges.removed`.
    """

    query: Tensor
    position: Tensor
    every_query: Tensor
    every_position: Tensor
    removal: Tensor
    removed_query: Tensor

    @staticmethod
    def of(bins: VoteBins, ranges: VoteRanges, every_candidate: bool) -> VoteRows:
        """The rows of some queries, with all candidates of their keys or only those of facts."""
        every = ranges.candidates if every_candidate else ranges.candidates.take(slice(0, 0))
        removals = (ranges.removed < len(bins.fact_index.time)).nonzero().unbind(1)
        return VoteRows(*ranges.facts.expand(), *every.expand(), *removals)

    def pairs(self, bins: VoteBins, ranges: VoteRanges) -> tuple[Tensor, Tensor]:
        """The query and the candidate of each row of the three lists, [n] each."""
        index = bins.fact_index
        removed = ranges.removed[self.removal, self.removed_query]
        return torch.cat([self.query, self.every_query, self.removed_query]), torch.cat(
            [
                index.answer[self.position],
                index.candidates[self.every_position],
                index.answer[removed],
            ]
        )


def cell_contributions(
    cells: Cells,
    slots: Tensor,
    rows: VoteRows,
    bins: VoteBins,
    ranges: VoteRanges,
    weights: VoteWeights,
    fact_mask: Tensor | None,
    pair: Tensor,
) -> Tensor:
    """u log(1 + c S) + v log(1 + N) + prior of each cell, [cells]; see `add_contributions_torch`.

    slots: the cell of each row. pair: the position of each cell's candidate among those of its
    key, -1 for none, if there is a prior.
    """
    index, num_cells = bins.fact_index, len(cells.key)
    fact_slots, every_slots, removed_slots = torch.split(
        slots, [len(rows.query), len(rows.every_query), len(rows.removed_query)]
    )
    kept = (rows.position != ranges.removed[:, rows.query]).all(0)
    votes = kept if fact_mask is None else kept & fact_mask[index.fact_id[rows.position]]
    number = fact_numbers(ranges, rows.query, rows.position)
    weight = weights_at(bins, ranges.time, weights, rows.query, rows.position, number) * votes
    sums = weight.new_zeros(num_cells).index_add(0, fact_slots, weight)
    if len(bins.row_count):
        known = torch.ones_like(kept) if index.past_only else kept
        count = largest_at(fact_slots, bins.row_count[rows.position] * known, num_cells)
    elif weights.prior is not None:
        count = torch.where(pair >= 0, index.candidate_count[pair.clamp(min=0)], 0)
    else:
        count = torch.zeros_like(cells.key)
        count.index_copy_(0, every_slots, index.candidate_count[rows.every_position])
    counted = counted_removals(ranges, index)[rows.removal, rows.removed_query]
    count = count.index_add(0, removed_slots, counted.long(), alpha=-1).clamp(min=0).to(sums.dtype)
    u, log_c, v = weights.coefficients.index_select(0, cells.query).unbind(1)
    contribution = u * torch.log1p(torch.exp(log_c) * sums) + v * torch.log1p(count)
    if weights.prior is None:
        return contribution
    occurs = (pair >= 0).nonzero()[:, 0]
    return contribution.index_add(0, occurs, weights.prior.index_select(0, pair[occurs]))
