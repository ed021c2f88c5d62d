"""Contributions of voting facts to those candidates of each query that are laid out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tempograph.nn.votes import (
    VoteBins,
    VoteRanges,
    VoteWeights,
    counted_removals,
    counting_rows,
    largest_at,
    voting_facts,
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


def named_candidates(
    bins: VoteBins, ranges: VoteRanges, every_candidate: bool
) -> tuple[Tensor, Tensor]:
    """Queries and the candidates of facts that may vote, or of every fact of the key, [n] each.

    Those of removed facts are among them.
    """
    index = bins.fact_index
    query, position = ranges.facts.expand()
    queries, named = [query], [index.rows[position, 2]]
    if every_candidate:
        every, pair = ranges.candidates.expand()
        queries, named = [query, every], [*named, index.candidates[pair]]
    which, column = (ranges.removed < len(index.time)).nonzero().unbind(1)
    return (
        torch.cat([*queries, column]),
        torch.cat([*named, index.rows[ranges.removed[which, column], 2]]),
    )


def cell_contributions(
    cells: Cells,
    bins: VoteBins,
    ranges: VoteRanges,
    weights: VoteWeights,
    fact_mask: Tensor | None,
    pair: Tensor | None = None,
) -> Tensor:
    """u log(1 + c S) + v log(1 + N) + prior of each cell, [cells]; see `add_contributions_torch`.

    pair: the position of each cell's candidate among those of its key, -1 for none, if known.
    """
    index, removed = bins.fact_index, ranges.removed
    query, position = voting_facts(ranges, index, fact_mask)
    weight = weights_at(bins, ranges, weights, query, position)
    cell = cells.find(query, index.rows[position, 2])
    sums = weight.new_zeros(len(cells.key)).index_add(0, cell, weight)
    if len(bins.row_count):
        row_query, row = counting_rows(ranges, index)
        cell = cells.find(row_query, index.rows[row, 2])
        count = largest_at(cell, bins.row_count[row], len(cells.key))
    else:
        pair = _pairs(cells, bins, ranges) if pair is None else pair
        count = torch.where(pair >= 0, index.candidate_count[pair.clamp(min=0)], 0)
    which, column = counted_removals(ranges, index).nonzero().unbind(1)
    cell = cells.find(column, index.rows[removed[which, column], 2])
    count = count.index_add(0, cell, -torch.ones_like(cell)).clamp(min=0).to(sums.dtype)
    u, log_c, v = weights.coefficients.index_select(0, cells.query).unbind(1)
    contribution = u * torch.log1p(torch.exp(log_c) * sums) + v * torch.log1p(count)
    if weights.prior is None or pair is None:
        return contribution
    known = (pair >= 0).nonzero()[:, 0]
    return contribution.index_add(0, known, weights.prior.index_select(0, pair[known]))


def _pairs(cells: Cells, bins: VoteBins, ranges: VoteRanges) -> Tensor:
    """The position of each cell's candidate among those of its key, -1 for none, [cells]."""
    query, position = ranges.candidates.expand()
    cell = cells.find(query, bins.fact_index.candidates[position])
    return torch.full_like(cells.key, -1).index_copy(0, cell, position)
