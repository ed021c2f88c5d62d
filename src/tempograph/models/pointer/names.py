"""Names: candidates gain by the words in their name, in the query's entity's, and its partners'."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tempograph.data.timeline import Queries, Timeline
from tempograph.models.pointer.partners import AllPartners, LatestPartners, PartnerRanges
from tempograph.models.pointer.removed_facts import RemovedFacts
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.nn.kept_value import KeptValue
from tempograph.nn.name_vectors import NameVectors
from tempograph.nn.shared_weights import copy_sharing_weights

PartnerLookup = RemovedFacts | PartnerRanges


class Names(nn.Module):
    """contribution(o) = <n_s * a_r + m_s * b_r + p_r, n_o>

    n is the vector of a name, m_s the mean vector of the names of s's partners in train facts, the
    asked fact aside; in a forecast, of its partners in the latest facts before the query. So a
    name may fit that of s, the company that s keeps, or the relation.
    """

    def __init__(self, timeline: Timeline, width: int) -> None:
        super().__init__()
        self.names = NameVectors(timeline, width, scale=0.1)
        relations = 2 * timeline.num_relations
        self.own = nn.Parameter(torch.ones(relations, width))
        self.partners = nn.Parameter(torch.ones(relations, width))
        self.preference = nn.Parameter(torch.zeros(relations, width))
        self.partner_index = _partner_index(timeline)
        self._kept_tables = KeptValue[tuple[Tensor, Tensor]]()

    def with_timeline(self, timeline: Timeline) -> Names:
        """The same weights for other facts."""
        twin = copy_sharing_weights(self)
        twin.partner_index, twin._kept_tables = _partner_index(timeline), KeptValue()
        return twin

    def look_up(self, queries: Queries, left_out: Tensor | None = None) -> PartnerLookup:
        """What is needed of each query's entity, without the train facts left_out [n]."""
        return self.partner_index.look_up(queries, left_out)

    def unpack(self, packed: Tensor) -> PartnerLookup:
        """What `look_up` returned, from its packed form."""
        return self.partner_index.unpack(packed)

    def forward(
        self,
        scores: Tensor,
        relation: Tensor,
        lookup: PartnerLookup,
        sample: VoteSample | None = None,
    ) -> Tensor:
        """Add the contributions to scores [n, entities] of queries with relations [n], in place.

        With a sample, only what its mask leaves of the query's vector counts. Partners are not
        counted again in every training step.
        """
        table, partner_sums = self._tables()
        own, partners, preference = (
            weight.index_select(0, relation)
            for weight in (self.own, self.partners, self.preference)
        )
        name = table.index_select(0, lookup.entity)
        # The index makes what it looks up, so their types agree.
        mean = self.partner_index.mean(table, partner_sums, lookup)  # type: ignore[arg-type]
        query = name * own + mean * partners + preference
        if sample is not None and sample.name_mask is not None:
            query = query * sample.name_mask
        return scores.addmm_(query, table.T)

    def _tables(self) -> tuple[Tensor, Tensor]:
        """The vectors of all names, and the sums of those of partners, [entities, width] each.

        Outside of training they are kept until the weights change: a question alone would spend
        most of its time on them.
        """
        if torch.is_grad_enabled():
            return self._compute_tables()
        return self._kept_tables((self.names.token,), self._compute_tables)

    def _compute_tables(self) -> tuple[Tensor, Tensor]:
        table = self.names.table()
        return table, self.partner_index.sums(table)

    def fact_contributions(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """No fact is named: a contribution comes from all partners together."""
        return query.entity[:0], self.preference[:0, 0]


def _partner_index(timeline: Timeline) -> AllPartners | LatestPartners:
    return LatestPartners(timeline) if timeline.past_only else AllPartners(timeline)
