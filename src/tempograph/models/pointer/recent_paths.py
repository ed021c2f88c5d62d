"""Recent paths: candidates gain by facts of the partners that the query's entity had lately."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from tempograph.data.fact_index import FactIndex
from tempograph.data.sorted_ranges import Ranges
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.pointer.copying import MAX_RELATIONS
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.nn.gap_bins import gap_bin, num_gap_bins
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.nn.sparse_votes import Cells


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
        self.index = index = FactIndex(timeline, "entity")
        self.next_key = index.find_keys(index.answer)
        """The key of the entity that each row leads to, [rows]."""
        self.most_rows = int(index.key_start.diff().max())
        """How many rows the largest key has."""
        # Only the past is in the index; its bins come before the one in the middle.
        ago = -torch.arange(timeline.num_steps + 1, device=index.time.device)
        bins = gap_bin(ago, timeline.num_steps)
        self.bin_ago = (bins + (self.num_bins - num_gap_bins(timeline.num_steps)) // 2).clamp(min=0)
        """The bin of a fact so many steps ago, [steps + 1]."""

    def with_timeline(self, timeline: Timeline) -> RecentPaths:
        """The same weights for other facts."""
        twin = copy_sharing_weights(self)
        twin._index(timeline)
        return twin

    def look_up(self, queries: Queries, left_out: Tensor | None = None) -> PathQueries:
        """The queries, without the train facts left_out [n]."""
        if left_out is None:
            left_out = torch.full_like(queries.entity, -1)
        key = self.index.find_keys(queries.entity)
        facts = self._facts_before(key, queries.time)
        return PathQueries(queries.entity, queries.time, left_out, *facts)

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
        fact_mask = None if sample is None else sample.fact_mask
        sums = path_sums(self, relation, queries, fact_mask, scores.shape[1])
        u, log_c = (self.shared_gain + self.gain).index_select(0, relation)[:, :, None].unbind(1)
        return torch.addcmul(scores, u, torch.log1p(log_c.exp() * sums))

    def votes(self, queries: PathQueries, sample: VoteSample | None) -> PathVotes:
        """All paths of the queries, with a sample those of train facts in its mask.

        None leads back to the entity of its query.
        """
        fact_mask = None if sample is None else sample.fact_mask
        facts = Ranges(queries.start, queries.stop)
        position, counts = self._latest(facts, queries.left_out, fact_mask)
        query, place = counts.nonzero(as_tuple=True)
        first = position[query, place]
        facts = self._facts_before(self.next_key[first], queries.time[query])
        second, counts = self._latest(facts, queries.left_out[query], fact_mask)
        end = self.index.answer[second]
        return PathVotes(query, first, second, end, counts & (end != queries.entity[query, None]))

    def at_cells(
        self, cells: Cells, slots: Tensor, votes: PathVotes, relation: Tensor, queries: PathQueries
    ) -> Tensor:
        """The contributions that `forward` adds, to candidates that are laid out, [cells].

        slots: the cell of each path.
        """
        weight = self.weights_of(votes, relation, queries.time)[votes.counts]
        sums = weight.new_zeros(len(cells.key)).index_add(0, slots, weight)
        u, log_c = (self.shared_gain + self.gain).index_select(0, relation[cells.query]).unbind(1)
        return u * torch.log1p(log_c.exp() * sums)

    def weights(self) -> PathWeights:
        """The tables A and B for each relation of a query."""
        by_relation = self.shared_relation[:, None]
        if self.by_relation is not None:
            by_relation = by_relation + self.by_relation
        return PathWeights(by_relation, self.shared_time[:, None] + self.by_time)

    def weights_of(self, votes: PathVotes, asked: Tensor, time: Tensor) -> Tensor:
        """The weights of places of paths for queries with relations [n] and times [n]."""
        query, (by_relation, by_time) = votes.step_query, self.weights()
        shared = by_relation.shape[1] == 1
        exponents = []
        for step, position in enumerate((votes.step_fact[:, None], votes.second)):
            its_relation, now = asked[query, None], time[query, None]
            ago = (now - self.index.time[position]).clamp(max=len(self.bin_ago) - 1)
            relation = self.index.relation[position]
            if not shared:
                relation = its_relation * by_relation.shape[2] + relation
            bins = its_relation * self.num_bins + self.bin_ago[ago]
            exponent = by_relation[step].flatten().index_select(0, relation.flatten())
            exponent = exponent + by_time[step].flatten().index_select(0, bins.flatten())
            exponents.append(exponent.view(position.shape))
        return torch.exp(exponents[0] + exponents[1])

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

    def fact_contributions(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """Train facts on paths to a candidate, and their contributions, [facts] each.

        Half of a path's contribution goes to each of its two facts.
        """
        asked = self.look_up(query)
        votes = self.votes(asked, None)
        step, place = (votes.counts & (votes.end == candidate)).nonzero(as_tuple=True)
        weight = self.weights_of(votes, query.relation, query.time)[step, place]
        u, log_c = (self.shared_gain + self.gain[query.relation[0]]).unbind()
        total = weight.sum().clamp(min=1e-30)
        share = u * torch.log1p(log_c.exp() * total) * weight / total / 2
        facts = torch.cat([votes.step_fact[step], votes.second[step, place]])
        return self.index.fact_id[facts], share.repeat(2)


def path_sums(
    source: RecentPaths,
    relation: Tensor,
    queries: PathQueries,
    fact_mask: Tensor | None,
    num_entities: int,
) -> Tensor:
    """S of each entity for queries with relations [n], [n, entities]."""
    if relation.device.type == "cuda":
        from tempograph.nn.kernels.recent_paths_kernel import path_sums as fused

        return fused(source, relation, queries, fact_mask, num_entities)
    return path_sums_torch(source, relation, queries, fact_mask, num_entities)


def path_sums_torch(
    source: RecentPaths,
    relation: Tensor,
    queries: PathQueries,
    fact_mask: Tensor | None,
    num_entities: int,
) -> Tensor:
    """`path_sums` in plain PyTorch; memory grows with the number of paths."""
    votes = source.votes(queries, VoteSample(fact_mask))
    weight = source.weights_of(votes, relation, queries.time) * votes.counts
    cell = votes.step_query[:, None] * num_entities + votes.end
    sums = weight.new_zeros(len(relation) * num_entities)
    return sums.index_add(0, cell.flatten(), weight.flatten()).view(-1, num_entities)
