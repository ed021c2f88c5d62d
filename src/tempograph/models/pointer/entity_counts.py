"""Counts of entities: what a candidate gains by the number of its facts, without the asked one."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from tempograph.data.timeline import Queries, Timeline
from tempograph.models.pointer.removed_facts import RemovedFacts
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.nn.shared_weights import copy_sharing_weights

_EDGES: Final = (1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513, 1025, 2049)
"""Numbers of facts at which the class of a count changes."""


class EntityCounts(nn.Module):
    """contribution(o) = T[r, class of the number of facts of o].

    The asked fact does not count while training, so the table learns how often an entity is the
    answer that has no fact yet, or few. A weight for each entity could not: it is trained by the
    only fact of its entity.
    """

    counts: Tensor
    classes: Tensor
    edges: Tensor

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        classes = len(_EDGES) + 1
        self.shared = nn.Parameter(0.3 * torch.arange(classes).float())
        self.by_relation = nn.Parameter(torch.zeros(2 * timeline.num_relations, classes))
        edges = torch.tensor(_EDGES, device=timeline.device)
        self.register_buffer("edges", edges, persistent=False)
        self._index(timeline)

    def _index(self, timeline: Timeline) -> None:
        self.facts, counts = timeline.facts, _counts(timeline)
        self.register_buffer("counts", counts, persistent=False)
        classes = one_hot(self._class(counts), len(_EDGES) + 1).T.contiguous()
        self.register_buffer("classes", classes.float(), persistent=False)

    def with_timeline(self, timeline: Timeline) -> EntityCounts:
        """The same weights for other facts."""
        twin = copy_sharing_weights(self)
        twin._index(timeline)
        return twin

    def look_up(self, queries: Queries, left_out: Tensor | None = None) -> RemovedFacts:
        """The entities of the train facts left_out [n]."""
        return RemovedFacts.look_up(self.facts, queries, left_out)

    unpack = staticmethod(RemovedFacts.unpack)

    def forward(
        self,
        scores: Tensor,
        relation: Tensor,
        removed: RemovedFacts,
        sample: VoteSample | None = None,
    ) -> Tensor:
        """Add the contributions to scores [n, entities] of queries with relations [n], in place.

        A sample has no effect: facts are not counted again in every training step.
        """
        table = (self.by_relation + self.shared).index_select(0, relation)
        # A product with the classes of all entities, [classes, entities], is faster than indexing.
        scores.addmm_(table, self.classes.to(table.dtype))
        row = torch.arange(len(relation), device=relation.device)
        # A loop names its entity once.
        entities = (
            removed.subject,
            torch.where(removed.object == removed.subject, -1, removed.object),
        )
        for entity in entities:
            known = (entity >= 0).nonzero()[:, 0]
            entity, rows = entity[known], row[known]
            count = self.counts[entity]
            less, full = (table[rows, self._class(number)] for number in (count - 1, count))
            scores.index_put_((rows, entity), less - full, accumulate=True)
        return scores

    def _class(self, count: Tensor) -> Tensor:
        return torch.bucketize(count, self.edges, right=True)

    def fact_contributions(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """No fact is named: only their number matters."""
        return query.entity[:0], self.shared[:0]


def _counts(timeline: Timeline) -> Tensor:
    """Train facts of each entity, a loop once, [entities]."""
    subject, _, object_, _ = timeline.facts.unbind(1)
    named = torch.cat([subject, object_[object_ != subject]])
    return torch.bincount(named, minlength=timeline.num_entities)
