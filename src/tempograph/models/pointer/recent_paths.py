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
        votes = self.votes(queries, sample)
        weight = self._weights(votes, relation, queries.time) * votes.counts
        cell = votes.step_query[:, None] * scores.shape[1] + votes.end
        sums = weight.new_zeros(scores.numel()).index_add(0, cell.flatten(), weight.flatten())
        u, log_c = (self.shared_gain + self.gain).index_select(0, relation)[:, :, None].unbind(1)
        return torch.addcmul(scores, u, torch.log1p(log_c.exp() * sums.view_as(scores)))

    def votes(self, queries: PathQueries, sample: VoteSample | None) -> PathVotes:
        """All paths of the queries, with a sample those of train facts in its mask.

        None leads back to the entity of its query.
        """
        fact_mask = None if sample is None else sample.fact_mask
        position, counts = self._latest(queries, fact_mask)
        query, place = counts.nonzero(as_tuple=True)
        first = position[query, place]
        middle = PathQueries(self.index.answer[first], queries.time[query], queries.left_out[query])
        second, counts = self._latest(middle, fact_mask)
        end = self.index.answer[second]
        return PathVotes(query, first, second, end, counts & (end != queries.entity[query, None]))

    def at_cells(
        self, cells: Cells, slots: Tensor, votes: PathVotes, relation: Tensor, queries: PathQueries
    ) -> Tensor:
        """The contributions that `forward` adds, to candidates that are laid out, [cells].

        slots: the cell of each path.
        """
        weight = self._weights(votes, relation, queries.time)[votes.counts]
        sums = weight.new_zeros(len(cells.key)).index_add(0, slots, weight)
        u, log_c = (self.shared_gain + self.gain).index_select(0, relation[cells.query]).unbind(1)
        return u * torch.log1p(log_c.exp() * sums)

    def _weights(self, votes: PathVotes, asked: Tensor, time: Tensor) -> Tensor:
        """The weights of places of paths for queries with relations [n] and times [n]."""
        query = votes.step_query
        of_first = self._exponents(0, votes.step_fact, asked[query], time[query])
        of_second = self._exponents(1, votes.second, asked[query, None], time[query, None])
        return torch.exp(of_first[:, None] + of_second)

    def _exponents(self, step: int, position: Tensor, asked: Tensor, now: Tensor) -> Tensor:
        """A[r, r'] + B[t - t'] for facts at positions, as one step of a path, [*positions]."""
        by_relation, by_time = self.shared_relation[step], self.shared_time[step]
        relation = self.index.relation[position]
        # Only the past is in the index; its bins come before the one in the middle.
        gap = gap_bin(self.index.time[position] - now, self.num_steps)
        gap = (gap + (self.num_bins - num_gap_bins(self.num_steps)) // 2).clamp(min=0)
        if self.by_relation is not None:
            relation = asked * len(by_relation) + relation
            by_relation = (by_relation + self.by_relation[step]).flatten()
        by_time = (by_time + self.by_time[step]).flatten()
        gap = asked * self.num_bins + gap
        exponents = by_relation.index_select(0, relation.flatten()) + by_time.index_select(
            0, gap.flatten()
        )
        return exponents.view(position.shape)

    def _latest(self, queries: PathQueries, fact_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Positions of the latest facts of entities before times, and which count, [n, places]."""
        index, key = self.index, self.index.find_keys(queries.entity)
        removed = index.positions_of(key, queries.left_out.clamp(min=0))
        removed = torch.where(queries.left_out[:, None] < 0, len(index.time), removed)
        rows = index.nearest_rows(key, queries.time, self.max_facts, removed)
        # Ranges may hold removed facts.
        places = torch.arange(self.max_facts + removed.shape[1], device=key.device)
        position = rows.start[:, None] + places
        counts = position < rows.stop[:, None]
        for each in removed.unbind(1):
            counts &= position != each[:, None]
        position = position.clamp(max=max(0, len(index.time) - 1))
        if fact_mask is not None:
            counts &= fact_mask[index.fact_id[position]]
        return position, counts

    def fact_contributions(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """Train facts on paths to a candidate, and their contributions, [facts] each.

        Half of a path's contribution goes to each of its two facts.
        """
        asked = self.look_up(query)
        votes = self.votes(asked, None)
        step, place = (votes.counts & (votes.end == candidate)).nonzero(as_tuple=True)
        weight = self._weights(votes, query.relation, query.time)[step, place]
        u, log_c = (self.shared_gain + self.gain[query.relation[0]]).unbind()
        total = weight.sum().clamp(min=1e-30)
        share = u * torch.log1p(log_c.exp() * total) * weight / total / 2
        facts = torch.cat([votes.step_fact[step], votes.second[step, place]])
        return self.index.fact_id[facts], share.repeat(2)
