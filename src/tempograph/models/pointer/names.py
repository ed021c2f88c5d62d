"""Names: candidates gain by the words in their name, in the query's entity's, and its partners'."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from tempograph.data.timeline import Queries, Timeline
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.nn.name_vectors import NameVectors
from tempograph.nn.shared_weights import copy_sharing_weights


class NameQueries(NamedTuple):
    """The entity of each query, and the partner it has by a fact that does not count, [n] each."""

    entity: Tensor
    partner: Tensor
    """Any entity if `copies` is 0."""
    copies: Tensor
    """How often the fact names the partner: twice if it is a loop."""

    def pack(self) -> Tensor:
        """All columns in one int32 tensor, [8, n], as high as what other sources look up."""
        return torch.stack([*self, *(torch.zeros_like(self.entity),) * 5]).int()

    @staticmethod
    def unpack(packed: Tensor) -> NameQueries:
        """The inverse of `pack`, also for a selection of columns."""
        return NameQueries(*packed[:3].long())


class Names(nn.Module):
    """contribution(o) = <n_s * a_r + m_s * b_r + p_r, n_o>

    n is the vector of a name, m_s the mean vector of the names of s's partners in train facts, the
    asked fact aside. So a name may fit that of s, the company that s keeps, or the relation.
    """

    def __init__(self, timeline: Timeline, width: int) -> None:
        super().__init__()
        self.names = NameVectors(timeline, width, scale=0.1)
        relations = 2 * timeline.num_relations
        self.own = nn.Parameter(torch.ones(relations, width))
        self.partners = nn.Parameter(torch.ones(relations, width))
        self.preference = nn.Parameter(torch.zeros(relations, width))
        self._index(timeline)

    def _index(self, timeline: Timeline) -> None:
        subject, _, object_, _ = timeline.facts.unbind(1)
        entity, partner = torch.cat([subject, object_]), torch.cat([object_, subject])
        pair, count = torch.unique(entity * timeline.num_entities + partner, return_counts=True)
        entity, self.partner = pair // timeline.num_entities, pair % timeline.num_entities
        everyone = torch.arange(timeline.num_entities, device=pair.device)
        self.first = torch.searchsorted(entity, everyone)
        """Where the distinct partners of each entity begin, [entities]."""
        self.count = count.float()
        """Facts with each partner."""
        self.degree = torch.bincount(
            timeline.facts[:, [0, 2]].flatten(), minlength=timeline.num_entities
        )
        self.facts = timeline.facts
        self._kept: tuple[tuple[object, ...], tuple[Tensor, Tensor]] | None = None

    def with_timeline(self, timeline: Timeline) -> Names:
        """The same weights for other facts."""
        twin = copy_sharing_weights(self)
        twin._index(timeline)
        return twin

    def look_up(self, queries: Queries, left_out: Tensor | None = None) -> NameQueries:
        """The partners that queries have by the train facts left_out [n]."""
        entity = queries.entity
        if left_out is None:
            return NameQueries(entity, entity, torch.zeros_like(entity))
        subject, _, object_, _ = self.facts[left_out].unbind(1)
        copies = (subject == entity).long() + (object_ == entity)
        return NameQueries(entity, torch.where(subject == entity, object_, subject), copies)

    unpack = staticmethod(NameQueries.unpack)

    def forward(
        self,
        scores: Tensor,
        relation: Tensor,
        queries: NameQueries,
        sample: VoteSample | None = None,
    ) -> Tensor:
        """Add the contributions to scores [n, entities] of queries with relations [n].

        With a sample, only what its mask leaves of the query's vector counts. Partners are not
        counted again in every training step.
        """
        table, partner_sums = self._tables()
        own, partners, preference = (
            weight.index_select(0, relation)
            for weight in (self.own, self.partners, self.preference)
        )
        name = table.index_select(0, queries.entity)
        copies = queries.copies[:, None]
        removed = copies * table.index_select(0, queries.partner)
        left = (self.degree[queries.entity][:, None] - copies).clamp(min=1)
        mean = (partner_sums.index_select(0, queries.entity) - removed) / left
        query = name * own + mean * partners + preference
        if sample is not None and sample.name_mask is not None:
            query = query * sample.name_mask
        return torch.addmm(scores, query, table.T)

    def _tables(self) -> tuple[Tensor, Tensor]:
        """The vectors of all names, and the sums of those of partners, [entities, width] each.

        Outside of training they are kept until the weights change: a question alone would spend
        most of its time on them.
        """
        if torch.is_grad_enabled():
            return self._compute_tables()
        token = self.names.token
        version = token.data_ptr(), token._version, token.dtype
        if self._kept is None or self._kept[0] != version:
            self._kept = version, self._compute_tables()
        return self._kept[1]

    def _compute_tables(self) -> tuple[Tensor, Tensor]:
        table = self.names.table()
        sums = nn.functional.embedding_bag(
            self.partner,
            table,
            self.first,
            mode="sum",
            per_sample_weights=self.count.to(table.dtype),
        )
        return table, sums

    def fact_contributions(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """No fact is named: a contribution comes from all partners together."""
        return query.entity[:0], self.preference[:0, 0]
