"""Recent paths: candidates gain by facts of the partners that the query's entity had lately."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from tempograph.data.fact_index import FactIndex
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.pointer.copying import MAX_RELATIONS
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.nn.gap_bins import gap_bin, num_gap_bins
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.nn.sparse_votes import Cells


class PathQueries(NamedTuple):
    """The entity and the time of each query, and the train fact it does without or -1, [n] each."""

    entity: Tensor
    time: Tensor
    left_out: Tensor

    def pack(self) -> Tensor:
        """All columns in one int32 tensor, [8, n], as high as what other sources look up."""
        return torch.stack([*self, *(torch.zeros_like(self.entity),) * 5]).int()

    @staticmethod
    def unpack(packed: Tensor) -> PathQueries:
        """The inverse of `pack`, also for a selection of columns."""
        return PathQueries(*packed[:3].long())


class PathVotes(NamedTuple):
    """Two facts in a row that lead from a query's entity to a candidate."""

    step_query: Tensor
    """The query of each first step, [steps]."""
    step_fact: Tensor
    """Position of its fact (e, r1, x, t1) in the index, [steps]."""
    step: Tensor
    """The first step of each path, [votes]."""
    second: Tensor
    """Position of its second fact (x, r2, o, t2) in the index, [votes]."""
    candidate: Tensor
    """[votes]"""

    @property
    def query(self) -> Tensor:
        """The query of each path, [votes]."""
        return self.step_query[self.step]


class RecentPaths(nn.Module):
    """contribution(o) = u_r log(1 + c_r S(o)), for forecasts

    S(o) sums exp(A1[r, r1] + B1[t - t1] + A2[r, r2] + B2[t - t2]) over paths (e, r1, x, t1),
    (x, r2, o, t2) of two facts before t, each among the latest facts of its entity. The tables A
    and B are sums of a shared one and one for each relation of a query; with many relations, A is
    the shared one.
    """

    def __init__(self, timeline: Timeline, max_facts: int, initial_gain: float) -> None:
        super().__init__()
        self.max_facts = max_facts
        relations, bins = 2 * timeline.num_relations, num_gap_bins(timeline.num_steps)
        self.shared_relation = nn.Parameter(torch.zeros(2, relations))
        self.by_relation: nn.Parameter | None = None
        if relations <= MAX_RELATIONS:
            self.by_relation = nn.Parameter(torch.zeros(2, relations, relations))
        self.shared_time = nn.Parameter(-0.1 * torch.arange(bins).flip(0).float().repeat(2, 1))
        self.by_time = nn.Parameter(torch.zeros(2, relations, bins))
        self.shared_gain = nn.Parameter(torch.tensor([initial_gain, 0.0]))
        self.gain = nn.Parameter(torch.zeros(relations, 2))
        """u and log c of each relation."""
        self.num_bins = bins
        self._index(timeline)

    def _index(self, timeline: Timeline) -> None:
        self.facts, self.num_steps = timeline.facts, timeline.num_steps
        self.index = FactIndex(timeline, "entity")

    def with_timeline(self, timeline: Timeline) -> RecentPaths:
        """The same weights for other facts."""
        twin = copy_sharing_weights(self)
        twin._index(timeline)
        return twin

    def look_up(self, queries: Queries, left_out: Tensor | None = None) -> PathQueries:
        """The queries, without the train facts left_out [n]."""
        none = torch.full_like(queries.entity, -1)
        return PathQueries(queries.entity, queries.time, none if left_out is None else left_out)

    unpack = staticmethod(PathQueries.unpack)

    def forward(
        self,
        scores: Tensor,
        relation: Tensor,
        queries: PathQueries,
        sample: VoteSample | None = None,
    ) -> Tensor:
        """Add the contributions to scores [n, entities] of queries with relations [n].

        With a sample, only train facts in its mask are steps of a path.
        """
        votes = self._votes(queries, None if sample is None else sample.fact_mask)
        weight = self._weights(votes, relation, queries.time)
        cell = votes.query * scores.shape[1] + votes.candidate
        sums = weight.new_zeros(scores.numel()).index_add(0, cell, weight).view_as(scores)
        u, log_c = (self.shared_gain + self.gain).index_select(0, relation)[:, :, None].unbind(1)
        return scores + u * torch.log1p(log_c.exp() * sums)

    def votes(self, queries: PathQueries, sample: VoteSample | None) -> PathVotes:
        """All paths of the queries, with a sample those of train facts in its mask."""
        return self._votes(queries, None if sample is None else sample.fact_mask)

    def at_cells(
        self, cells: Cells, slots: Tensor, votes: PathVotes, relation: Tensor, queries: PathQueries
    ) -> Tensor:
        """The contributions that `forward` adds, to candidates that are laid out, [cells].

        slots: the cell of each path.
        """
        weight = self._weights(votes, relation, queries.time)
        sums = weight.new_zeros(len(cells.key)).index_add(0, slots, weight)
        u, log_c = (self.shared_gain + self.gain).index_select(0, relation[cells.query]).unbind(1)
        return u * torch.log1p(log_c.exp() * sums)

    def _weights(self, votes: PathVotes, asked: Tensor, time: Tensor) -> Tensor:
        """The weight of each path for queries with relations [n] and times [n], [votes]."""
        # Many paths share their first fact.
        query, first = votes.step_query, votes.step_fact
        of_first = self._exponents(0, first, asked[query], time[query])
        of_second = self._exponents(1, votes.second, asked[votes.query], time[votes.query])
        return torch.exp(of_first.index_select(0, votes.step) + of_second)

    def _exponents(self, step: int, position: Tensor, asked: Tensor, now: Tensor) -> Tensor:
        """A[r, r'] + B[t - t'] for facts at positions [m], as one step of a path, [m]."""
        by_relation, by_time = self.shared_relation[step], self.shared_time[step]
        relation = self.index.relation[position]
        # Only the past is in the index; its bins come before the one in the middle.
        gap = gap_bin(self.index.time[position] - now, self.num_steps)
        gap = (gap + (self.num_bins - num_gap_bins(self.num_steps)) // 2).clamp(min=0)
        if self.by_relation is not None:
            relation = asked * len(by_relation) + relation
            by_relation = (by_relation + self.by_relation[step]).flatten()
        by_time = (by_time + self.by_time[step]).flatten()
        return by_relation.index_select(0, relation) + by_time.index_select(
            0, asked * self.num_bins + gap
        )

    def _votes(self, queries: PathQueries, fact_mask: Tensor | None) -> PathVotes:
        """All paths of the queries; none leads back to the entity of its query."""
        query, first = self._latest(queries, fact_mask)
        middle = PathQueries(
            self.index.rows[first, 2], queries.time[query], queries.left_out[query]
        )
        step, second = self._latest(middle, fact_mask)
        candidate = self.index.rows[second, 2]
        onward = (candidate != queries.entity[query[step]]).nonzero()[:, 0]
        return PathVotes(query, first, step[onward], second[onward], candidate[onward])

    def _latest(self, queries: PathQueries, fact_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The query and the position of each of the latest facts of entities before times."""
        index, key = self.index, self.index.find_keys(queries.entity)
        removed = index.positions_of(key, queries.left_out.clamp(min=0))
        removed = torch.where(queries.left_out[:, None] < 0, len(index.time), removed)
        rows = index.nearest_rows(key, queries.time, self.max_facts, removed)
        query, position = rows.expand()
        counts = (position[:, None] != removed[query]).all(1)
        if fact_mask is not None:
            counts &= fact_mask[index.fact_id[position]]
        return query[counts], position[counts]

    def fact_contributions(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """Train facts on paths to a candidate, and their contributions, [facts] each.

        Half of a path's contribution goes to each of its two facts.
        """
        asked = self.look_up(query)
        votes = self._votes(asked, None)
        chosen = (votes.candidate == candidate).nonzero()[:, 0]
        weight = self._weights(votes, query.relation, query.time)[chosen]
        u, log_c = (self.shared_gain + self.gain[query.relation[0]]).unbind()
        total = weight.sum().clamp(min=1e-30)
        share = u * torch.log1p(log_c.exp() * total) * weight / total / 2
        steps = torch.cat([votes.step_fact[votes.step[chosen]], votes.second[chosen]])
        return self.index.fact_id[steps], share.repeat(2)
