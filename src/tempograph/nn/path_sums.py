"""Paths of two facts in a row before a query, and the sums of their weights, in plain PyTorch.

`kernels.path_sums_kernel` computes the sums with one kernel each way on a GPU.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.data.fact_index import FactIndex
from tempograph.data.sorted_ranges import Ranges
from tempograph.data.timeline import Queries, Timeline
from tempograph.nn.gap_bins import gap_bin, num_gap_bins


class PathQueries(NamedTuple):
    """The entity and the time of each query, and the facts of the entity before it, [n] each."""

    entity: Tensor
    time: Tensor
    left_out: Tensor
    """The train fact that the query does without, or -1."""
    start: Tensor
    """The position of the entity's first fact in the index."""
    stop: Tensor
    """The position of its first fact at the time or after it."""

    def pack(self) -> Tensor:
        """All columns in one int32 tensor, [8, n], as high as what other sources look up."""
        return torch.stack([*self, *(torch.zeros_like(self.entity),) * 3]).int()

    @staticmethod
    def unpack(packed: Tensor) -> PathQueries:
        """The inverse of `pack`, also for a selection of columns."""
        return PathQueries(*packed[:5].long())


class PathWeights(NamedTuple):
    """A and B of the first and the second fact of a path."""

    by_relation: Tensor
    """[2, relations of queries, relations of facts], or [2, 1, relations of facts] if shared."""
    by_time: Tensor
    """[2, relations of queries, bins]."""


class PathVotes(NamedTuple):
    """Pairs of facts in a row that lead from a query's entity to a candidate.

    Each first fact has one row of places for second ones: exact sizes would need a GPU sync.
    """

    step_query: Tensor
    """The query of each first fact, [steps]."""
    step_fact: Tensor
    """Position of the first fact (e, r1, x, t1) in the index, [steps]."""
    second: Tensor
    """Position of the second fact (x, r2, o, t2) in the index, [steps, places]."""
    end: Tensor
    """The entity o that it leads to, [steps, places]."""
    counts: Tensor
    """Which places hold a path that counts, [steps, places]."""

    @property
    def query(self) -> Tensor:
        """The query of each path that counts, [votes]."""
        return self.step_query[:, None].expand_as(self.counts)[self.counts]

    @property
    def candidate(self) -> Tensor:
        """The candidate of each path that counts, [votes]."""
        return self.end[self.counts]


class RecentFacts:
    """The facts of a past-only timeline, from which paths are made.

    max_facts: how many of the latest facts of an entity are steps of a path; num_bins: the bins of
    the tables B, which may be of a shorter or a longer time axis.
    """

    def __init__(self, timeline: Timeline, max_facts: int, num_bins: int) -> None:
        self.max_facts = max_facts
        self.index = index = FactIndex(timeline, "entity")
        self.next_key = index.find_keys(index.answer)
        """The key of the entity that each row leads to, [rows]."""
        self.most_rows = int(index.key_start.diff().max())
        """How many rows the largest key has."""
        # Only the past is in the index; its bins come before the one in the middle.
        ago = -torch.arange(timeline.num_steps + 1, device=index.time.device)
        bins = gap_bin(ago, timeline.num_steps)
        self.bin_ago = (bins + (num_bins - num_gap_bins(timeline.num_steps)) // 2).clamp(min=0)
        """The bin of a fact so many steps ago, [steps + 1]."""

    def look_up(self, queries: Queries, left_out: Tensor | None) -> PathQueries:
        """The queries, without the train facts left_out [n]."""
        if left_out is None:
            left_out = torch.full_like(queries.entity, -1)
        key = self.index.find_keys(queries.entity)
        facts = self._facts_before(key, queries.time)
        return PathQueries(queries.entity, queries.time, left_out, *facts)

    def paths(self, queries: PathQueries, fact_mask: Tensor | None) -> PathVotes:
        """All paths of the queries; with a mask, those of train facts in it.

        None leads back to the entity of its query.
        """
        facts = Ranges(queries.start, queries.stop)
        position, counts = self._latest(facts, queries.left_out, fact_mask)
        query, place = counts.nonzero(as_tuple=True)
        first = position[query, place]
        facts = self._facts_before(self.next_key[first], queries.time[query])
        second, counts = self._latest(facts, queries.left_out[query], fact_mask)
        end = self.index.answer[second]
        return PathVotes(query, first, second, end, counts & (end != queries.entity[query, None]))

    def _facts_before(self, key: Tensor, time: Tensor) -> Ranges:
        """The rows of keys [n] before times [n]."""
        return Ranges(self.index.key_start[key], self.index.first_row_at(key, time))

    def _latest(
        self, facts: Ranges, left_out: Tensor, fact_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Positions of the last rows of ranges, and which count, [n, places].

        A train fact that is left out has two rows at most.
        """
        places = torch.arange(self.max_facts + 2, device=left_out.device)
        position = facts.stop[:, None] - 1 - places
        counts = position >= facts.start[:, None]
        position = position.clamp(min=0)
        if not len(self.index.time):
            return position, counts
        fact = self.index.fact_id[position]
        counts &= fact != left_out[:, None]
        counts &= counts.cumsum(1) <= self.max_facts
        if fact_mask is not None:
            counts &= fact_mask[fact]
        return position, counts


def path_weights(
    facts: RecentFacts, weights: PathWeights, votes: PathVotes, asked: Tensor, time: Tensor
) -> Tensor:
    """The weights of places of paths for queries with relations [n] and times [n]."""
    query, (by_relation, by_time) = votes.step_query, weights
    exponents = []
    for step, position in enumerate((votes.step_fact[:, None], votes.second)):
        its_relation, now = asked[query, None], time[query, None]
        ago = (now - facts.index.time[position]).clamp(max=len(facts.bin_ago) - 1)
        relation = facts.index.relation[position]
        if by_relation.shape[1] > 1:
            relation = its_relation * by_relation.shape[2] + relation
        bins = its_relation * by_time.shape[2] + facts.bin_ago[ago]
        exponent = by_relation[step].flatten().index_select(0, relation.flatten())
        exponent = exponent + by_time[step].flatten().index_select(0, bins.flatten())
        exponents.append(exponent.view(position.shape))
    return torch.exp(exponents[0] + exponents[1])


def path_sums_torch(
    facts: RecentFacts,
    weights: PathWeights,
    relation: Tensor,
    queries: PathQueries,
    fact_mask: Tensor | None,
) -> Tensor:
    """The sum of the weights of the paths to each entity, for queries [n], [n, entities].

    Memory grows with the number of paths.
    """
    votes, entities = facts.paths(queries, fact_mask), facts.index.num_entities
    weight = path_weights(facts, weights, votes, relation, queries.time) * votes.counts
    cell = votes.step_query[:, None] * entities + votes.end
    sums = weight.new_zeros(len(relation) * entities)
    return sums.index_add(0, cell.flatten(), weight.flatten()).view(-1, entities)
