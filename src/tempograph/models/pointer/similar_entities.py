"""Similar entities: facts of entities that share neighbors with a query's entity vote.

Who played where a player did names the teams he may play for: three facts in a row, where two only
lead from a player to other players.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from tempograph.data.common_neighbors import CommonNeighbors
from tempograph.data.fact_index import FactIndex
from tempograph.data.held_facts import signed_gap
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.pointer.copying import MAX_RELATIONS
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.nn.gap_bins import gap_bin, num_gap_bins
from tempograph.nn.inplace import add_at
from tempograph.nn.shared_weights import copy_sharing_weights

MAX_FACTS: Final = 32
"""Facts of a similar entity that vote, those nearest in time."""
_INITIAL_LOG_C: Final = 3.0


class SimilarQueries(NamedTuple):
    """The entity and the time of each query, and the train fact it does without or -1, [n] each."""

    entity: Tensor
    time: Tensor
    left_out: Tensor

    def pack(self) -> Tensor:
        """All columns in one int32 tensor, [8, n], as high as what other sources look up."""
        return torch.stack([*self, *(torch.zeros_like(self.entity),) * 5]).int()

    @staticmethod
    def unpack(packed: Tensor) -> SimilarQueries:
        """The inverse of `pack`, also for a selection of columns."""
        return SimilarQueries(*packed[:3].long())


class SimilarVotes(NamedTuple):
    """Facts (p, r', o, t') of entities p that are similar to a query's entity, [votes] each."""

    query: Tensor
    row: Tensor
    """Row of the fact in the index."""
    log_similarity: Tensor


class SimilarEntities(nn.Module):
    """contribution(o) = u_r log(1 + c_r S(o))

    S(o) sums path_score(s, p)^g_r exp(A[r, r'] + B[r, t' - t]) over facts (p, r', o, t') of the
    entities p with the highest path scores (`CommonNeighbors`), those nearest in time.
    """

    def __init__(self, timeline: Timeline, max_similar: int, initial_gain: float) -> None:
        super().__init__()
        self.max_similar = max_similar
        relations, bins = 2 * timeline.num_relations, num_gap_bins(timeline.num_steps)
        self.shared_relation = nn.Parameter(torch.zeros(relations))
        self.by_relation: nn.Parameter | None = None
        if relations <= MAX_RELATIONS:
            # A fact like the one that is asked for counts most.
            self.by_relation = nn.Parameter(2.0 * torch.eye(relations))
        self.shared_time = nn.Parameter(-0.1 * (torch.arange(bins) - bins // 2).abs().float())
        self.by_time = nn.Parameter(torch.zeros(relations, bins))
        self.shared_gain = nn.Parameter(torch.tensor([initial_gain, _INITIAL_LOG_C, 1.0]))
        self.gain = nn.Parameter(torch.zeros(relations, 3))
        """u, log c and the exponent g of each relation."""
        self._index(timeline)

    def _index(self, timeline: Timeline) -> None:
        self.num_steps, self.num_entities = timeline.num_steps, timeline.num_entities
        self.neighbors = CommonNeighbors.for_timeline(timeline)
        self.index = FactIndex(timeline, "entity")
        self.end = timeline.fact_end[self.index.fact_id]

    @property
    def bytes_per_candidate(self) -> int:
        """Memory of one (query, entity) pair: path scores, and votes spread over all entities."""
        return 16 + -(-100 * self.max_similar * MAX_FACTS // self.num_entities)

    def with_timeline(self, timeline: Timeline) -> SimilarEntities:
        """The same weights for other facts."""
        twin = copy_sharing_weights(self)
        twin._index(timeline)
        return twin

    def look_up(self, queries: Queries, left_out: Tensor | None = None) -> SimilarQueries:
        """The queries, without the train facts left_out [n]."""
        none = torch.full_like(queries.entity, -1)
        return SimilarQueries(queries.entity, queries.time, none if left_out is None else left_out)

    unpack = staticmethod(SimilarQueries.unpack)

    def forward(
        self,
        scores: Tensor,
        relation: Tensor,
        queries: SimilarQueries,
        sample: VoteSample | None = None,
    ) -> Tensor:
        """Add the contributions to scores [n, entities] of queries with relations [n], in place.

        With a sample, only train facts in its mask vote.
        """
        fact_mask = None if sample is None else sample.fact_mask
        votes = self._votes(queries, fact_mask, scores.dtype)
        weight = self._weights(votes, relation, queries.time)
        cell, inverse = torch.unique(
            votes.query * self.num_entities + self.index.rows[votes.row, 2], return_inverse=True
        )
        sums = weight.new_zeros(len(cell)).index_add(0, inverse, weight)
        u, log_c, _ = self._coefficients(relation[cell // self.num_entities])
        return add_at(scores, cell, u * torch.log1p(log_c.exp() * sums))

    def _coefficients(self, relation: Tensor) -> tuple[Tensor, ...]:
        return (self.shared_gain + self.gain).index_select(0, relation).unbind(1)

    def _weights(self, votes: SimilarVotes, relation: Tensor, time: Tensor) -> Tensor:
        """The weight of each vote for queries with relations [n] and times [n], [votes]."""
        asked, voting = relation[votes.query], self.index.relation[votes.row]
        gap = signed_gap(self.index.time[votes.row], self.end[votes.row], time[votes.query])
        bins, known = num_gap_bins(self.num_steps), len(self.shared_time)
        cell = (gap_bin(gap, self.num_steps) + (known - bins) // 2).clamp(0, known - 1)
        by_time = (self.by_time + self.shared_time).flatten()
        exponent = by_time.index_select(0, asked * known + cell)
        by_relation: Tensor = self.shared_relation
        if self.by_relation is not None:
            by_relation = (by_relation + self.by_relation).flatten()
            voting = asked * len(self.shared_relation) + voting
        exponent = exponent + by_relation.index_select(0, voting)
        _, _, power = self._coefficients(asked)
        return torch.exp(exponent + power * votes.log_similarity)

    @torch.no_grad()
    def _votes(
        self, queries: SimilarQueries, fact_mask: Tensor | None, dtype: torch.dtype
    ) -> SimilarVotes:
        """The facts that vote on each query; none names its entity."""
        index = self.index
        removed = self.neighbors.queries(queries.entity, queries.left_out)
        path_scores, _ = self.neighbors.path_scores(removed, dtype)
        top = path_scores.topk(min(self.max_similar, self.num_entities), dim=1)
        query, column = (top.values > 0).nonzero().unbind(1)
        similarity, similar = top.values[query, column], top.indices[query, column]
        key, left_out = index.find_keys(similar), queries.left_out[query]
        gone = index.positions_of(key, left_out.clamp(min=0))
        gone = torch.where(left_out[:, None] < 0, len(index.time), gone)
        rows = index.nearest_rows(key, queries.time[query], MAX_FACTS, gone)
        which, row = rows.expand()
        votes = (row[:, None] != gone[which]).all(1)
        votes &= index.rows[row, 2] != queries.entity[query[which]]
        if fact_mask is not None:
            votes &= fact_mask[index.fact_id[row]]
        which, row = which[votes], row[votes]
        return SimilarVotes(query[which], row, similarity[which].log())

    def fact_contributions(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """Train facts of similar entities with a candidate, and their contributions, [facts]."""
        votes = self._votes(self.look_up(query), None, self.gain.dtype)
        chosen = (self.index.rows[votes.row, 2] == candidate).nonzero()[:, 0]
        weight = self._weights(votes, query.relation, query.time)[chosen]
        u, log_c, _ = self._coefficients(query.relation)
        total = weight.sum().clamp(min=1e-30)
        share = u * torch.log1p(log_c.exp() * total) * weight / total
        return self.index.fact_id[votes.row[chosen]], share
