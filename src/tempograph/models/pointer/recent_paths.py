"""Recent paths: candidates gain by facts of the partners that the query's entity had lately."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tempograph.data.timeline import Queries, Timeline
from tempograph.models.pointer.copying import MAX_RELATIONS
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.nn.gap_bins import num_gap_bins
from tempograph.nn.path_sums import (
    PathQueries,
    PathVotes,
    PathWeights,
    RecentFacts,
    path_sums_torch,
    path_weights,
)
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.nn.sparse_votes import Cells


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
        self.facts = RecentFacts(timeline, self.max_facts, self.num_bins)

    def with_timeline(self, timeline: Timeline) -> RecentPaths:
        """The same weights for other facts."""
        twin = copy_sharing_weights(self)
        twin._index(timeline)
        return twin

    def look_up(self, queries: Queries, left_out: Tensor | None = None) -> PathQueries:
        """The queries, without the train facts left_out [n]."""
        return self.facts.look_up(queries, left_out)

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
        sums = path_sums(self.facts, self.weights(), relation, queries, fact_mask)
        u, log_c = (self.shared_gain + self.gain).index_select(0, relation)[:, :, None].unbind(1)
        return torch.addcmul(scores, u, torch.log1p(log_c.exp() * sums))

    def votes(self, queries: PathQueries, sample: VoteSample | None) -> PathVotes:
        """All paths of the queries, with a sample those of train facts in its mask."""
        return self.facts.paths(queries, None if sample is None else sample.fact_mask)

    def at_cells(
        self, cells: Cells, slots: Tensor, votes: PathVotes, relation: Tensor, queries: PathQueries
    ) -> Tensor:
        """The contributions that `forward` adds, to candidates that are laid out, [cells].

        slots: the cell of each path.
        """
        weight = path_weights(self.facts, self.weights(), votes, relation, queries.time)
        weight = weight[votes.counts]
        sums = weight.new_zeros(len(cells.key)).index_add(0, slots, weight)
        u, log_c = (self.shared_gain + self.gain).index_select(0, relation[cells.query]).unbind(1)
        return u * torch.log1p(log_c.exp() * sums)

    def weights(self) -> PathWeights:
        """The tables A and B for each relation of a query."""
        by_relation = self.shared_relation[:, None]
        if self.by_relation is not None:
            by_relation = by_relation + self.by_relation
        return PathWeights(by_relation, self.shared_time[:, None] + self.by_time)

    def fact_contributions(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """Train facts on paths to a candidate, and their contributions, [facts] each.

        Half of a path's contribution goes to each of its two facts.
        """
        asked = self.look_up(query)
        votes = self.votes(asked, None)
        step, place = (votes.counts & (votes.end == candidate)).nonzero(as_tuple=True)
        weight = path_weights(self.facts, self.weights(), votes, query.relation, query.time)
        weight = weight[step, place]
        u, log_c = (self.shared_gain + self.gain[query.relation[0]]).unbind()
        total = weight.sum().clamp(min=1e-30)
        share = u * torch.log1p(log_c.exp() * total) * weight / total / 2
        facts = torch.cat([votes.step_fact[step], votes.second[step, place]])
        return self.facts.index.fact_id[facts], share.repeat(2)


def path_sums(
    facts: RecentFacts,
    weights: PathWeights,
    relation: Tensor,
    queries: PathQueries,
    fact_mask: Tensor | None,
) -> Tensor:
    """The sum of the weights of the paths to each entity, for queries [n], [n, entities]."""
    if relation.device.type == "cuda":
        from tempograph.nn.kernels.path_sums_kernel import path_sums as fused

        return fused(facts, weights, relation, queries, fact_mask)
    return path_sums_torch(facts, weights, relation, queries, fact_mask)
