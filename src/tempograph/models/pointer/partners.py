"""The partners of a query's entity, whose names say what company it keeps."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from tempograph.data.fact_index import FactIndex
from tempograph.data.sorted_ranges import Ranges
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.pointer.removed_facts import RemovedFacts
from tempograph.nn.votes import two_rows

_MAX_PARTNERS: Final = 64
"""Latest facts before a query whose partners count in a forecast."""


class AllPartners:
    """The partners of an entity in all train facts, the asked fact aside."""

    def __init__(self, timeline: Timeline) -> None:
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

    def look_up(self, queries: Queries, left_out: Tensor | None) -> RemovedFacts:
        """The entities of the queries and of the train facts left_out [n]."""
        return RemovedFacts.look_up(self.facts, queries, left_out)

    unpack = staticmethod(RemovedFacts.unpack)

    def sums(self, table: Tensor) -> Tensor:
        """The sums of the vectors of all partners, [entities, width]."""
        return nn.functional.embedding_bag(
            self.partner,
            table,
            self.first,
            mode="sum",
            per_sample_weights=self.count.to(table.dtype),
        )

    def mean(self, table: Tensor, sums: Tensor, removed: RemovedFacts) -> Tensor:
        """The mean vector of the partners of each query's entity, [n, width]."""
        entity, subject, object_ = removed
        # The removed fact names a partner once, or twice if it is a loop.
        partner = torch.where(subject == entity, object_, subject).clamp(min=0)
        copies = ((subject == entity).long() + (object_ == entity))[:, None]
        left = (self.degree[entity][:, None] - copies).clamp(min=1)
        return (sums.index_select(0, entity) - copies * table.index_select(0, partner)) / left


class PartnerRanges(NamedTuple):
    """The entity of each query and its latest facts, [n]; removed ones do not count, [2, n]."""

    entity: Tensor
    facts: Ranges
    removed: Tensor

    def pack(self) -> Tensor:
        """All fields in one int32 tensor, [8, n]."""
        rest = (torch.zeros_like(self.entity),) * 3
        return torch.stack([self.entity, *self.facts, *two_rows(self.removed), *rest]).int()

    @staticmethod
    def unpack(packed: Tensor) -> PartnerRanges:
        """The inverse of `pack`, also for a selection of columns."""
        entity, start, stop = (packed := packed.long())[:3]
        return PartnerRanges(entity, Ranges(start, stop), packed[3:5])


class LatestPartners:
    """The partners of an entity in its latest facts before the query."""

    def __init__(self, timeline: Timeline) -> None:
        self.index = FactIndex(timeline, "entity")

    def look_up(self, queries: Queries, left_out: Tensor | None) -> PartnerRanges:
        """The latest facts of each query's entity, without the train facts left_out [n]."""
        removed = self.index.fact_positions(queries, left_out)
        facts = self.index.nearest(queries, _MAX_PARTNERS, removed)
        return PartnerRanges(queries.entity, facts, removed.T)

    unpack = staticmethod(PartnerRanges.unpack)

    def sums(self, table: Tensor) -> Tensor:
        """Nothing that queries share, [0, width]."""
        return table[:0]

    def mean(self, table: Tensor, sums: Tensor, ranges: PartnerRanges) -> Tensor:
        """The mean vector of the partners of each query's entity, [n, width]."""
        query, position = ranges.facts.expand()
        counts = (position != ranges.removed[:, query]).all(0)
        query, position = query[counts], position[counts]
        number = torch.bincount(query, minlength=len(ranges.entity))
        total: Tensor = nn.functional.embedding_bag(
            self.index.rows[position, 2], table, number.cumsum(0) - number, mode="sum"
        )
        return total / number.clamp(min=1)[:, None]
