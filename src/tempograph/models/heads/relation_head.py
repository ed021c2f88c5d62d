"""What happened between two entities at a time: a head that ranks relations."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from tempograph.data.held_facts import signed_gap
from tempograph.data.nearest_intervals import NearestIntervals
from tempograph.data.sorted_facts import SortedFacts
from tempograph.data.sorted_ranges import Ranges, key_range
from tempograph.data.timeline import Timeline, both_directions
from tempograph.models.heads.question_head import (
    QuestionHead,
    facts_by_entity,
    facts_by_pair,
    pair_keys,
)
from tempograph.nn.relation_votes import RelationVotes
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.nn.votes import phase
from tempograph.typing import Asked

_MAX_PAIR_FACTS: Final = 128
_MAX_ENTITY_FACTS: Final = 32
"""Voting facts of the pair and of each of its entities, those nearest in time."""


class RelationHead(QuestionHead):
    """score(r) = b_r + votes of facts between s and o, of facts of s, and of facts of o

    + v_s log(1 + N(s, r, any)) + v_o log(1 + N(any, r, o)), where N counts train facts. A fact that
    has the opposite direction votes as the inverse of its relation. See `RelationVotes`. Facts that
    hold for a while vote whether they hold, have ended or have not begun.
    """

    asked: Asked = "relation"
    column = 1

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        relations, steps = timeline.num_relations, timeline.num_steps
        phases = timeline.has_intervals
        self.pair_votes = RelationVotes(relations, steps, 1.0, phases)
        self.subject_votes = RelationVotes(relations, steps, 0.1, phases)
        self.object_votes = RelationVotes(relations, steps, 0.1, phases)
        frequency = torch.bincount(timeline.facts[:, 1], minlength=relations)
        self.bias = nn.Parameter(torch.log((frequency + 0.5) / len(timeline.facts)).float())
        self.count_weights = nn.Parameter(torch.full((2,), 0.3))
        self._index(timeline)
        self.to(timeline.device)

    def _index(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.by_pair = NearFacts(timeline, facts_by_pair(timeline))
        self.by_entity = NearFacts(timeline, facts_by_entity(timeline))
        self.role_counts = RoleCounts(timeline)

    @property
    def num_candidates(self) -> int:
        return self.timeline.num_relations

    @property
    def bytes_per_question(self) -> int:
        votes = _MAX_PAIR_FACTS + 2 * _MAX_ENTITY_FACTS
        return 64 * votes + 40 * self.num_candidates

    def scores(self, facts: Tensor, left_out: Tensor | None = None) -> Tensor:
        subject, _, object_, time = facts.unbind(1)
        pair = pair_keys(subject, object_, self.timeline)
        sources = (
            (self.pair_votes, self.by_pair, pair, _MAX_PAIR_FACTS),
            (self.subject_votes, self.by_entity, subject, _MAX_ENTITY_FACTS),
            (self.object_votes, self.by_entity, object_, _MAX_ENTITY_FACTS),
        )
        scores = self.bias.expand(len(facts), -1)
        for votes, near, value, max_facts in sources:
            scores = scores + votes(len(facts), *near(value, time, max_facts, left_out))
        counts = self.role_counts(subject, object_, left_out)
        for weight, count in zip(self.count_weights, counts, strict=True):
            scores = scores + weight * torch.log1p(count)
        return scores

    def with_timeline(self, timeline: Timeline) -> RelationHead:
        if timeline is self.timeline:
            return self
        twin = copy_sharing_weights(self)
        twin._index(timeline)
        return twin


class VotingFacts(NamedTuple):
    """The facts that vote on questions, [votes] each, by question."""

    question: Tensor
    relation: Tensor
    gap: Tensor
    """Steps from the question to the fact; 0 while it holds."""
    phase: Tensor | None
    """Which part of its interval the question is about; None for events."""


class NearFacts:
    """Finds the facts of a key that are nearest in time to a question."""

    def __init__(self, timeline: Timeline, index: SortedFacts) -> None:
        self.index = index
        self.intervals = NearestIntervals(timeline, index) if timeline.has_intervals else None

    def __call__(
        self, value: Tensor, time: Tensor, max_facts: int, left_out: Tensor | None
    ) -> VotingFacts:
        """At most `max_facts` facts of each key value [n], those nearest to a time [n]."""
        index, near = self.index, self.intervals
        key = index.find_keys(value)
        removed = removed_rows(index, key, left_out)
        if near is None:
            query, row = index.nearest_rows(key, time, max_facts, removed).expand()
            kept = (row[:, None] != removed[query]).all(1)
            query, row = query[kept], row[kept]
            return VotingFacts(query, index.relation[row], index.time[row] - time[query], None)
        found = near.nearest(key, time, max_facts, removed)
        query, order = torch.sort(found.query, stable=True)
        row = found.row[order]
        span = index.time[row], near.end[row]
        return VotingFacts(
            query,
            index.relation[row],
            signed_gap(*span, time[query]),
            phase(*span, near.unknown[row], time[query]),
        )


def removed_rows(index: SortedFacts, key: Tensor, left_out: Tensor | None) -> Tensor:
    """The rows of facts left_out [n] within keys [n], as `SortedFacts.positions_of`."""
    if left_out is None:
        return index.positions_of(key, None)
    rows = index.positions_of(key, left_out.clamp(min=0))
    return torch.where(left_out[:, None] < 0, len(index.time), rows)


class RoleCounts:
    """How many train facts of each relation an entity has as subject, and as object."""

    def __init__(self, timeline: Timeline) -> None:
        self.facts, self.relations = timeline.facts, timeline.num_relations
        directed = both_directions(timeline.facts, timeline.num_relations)
        value = directed[:, 0] * 2 * self.relations + directed[:, 1]
        self.values, self.counts = torch.unique(value, return_counts=True)

    def __call__(
        self, subject: Tensor, object_: Tensor, left_out: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """N(s, r, any) and N(any, r, o) of every relation r, [n, relations] each."""
        as_subject = self._table(subject, 0)
        as_object = self._table(object_, self.relations)
        if left_out is not None:
            fact = self.facts[left_out.clamp(min=0)]
            for table, entity, column in ((as_subject, subject, 0), (as_object, object_, 2)):
                row = ((fact[:, column] == entity) & (left_out >= 0)).nonzero()[:, 0]
                table[row, fact[row, 1]] -= 1
        return as_subject, as_object

    def _table(self, entity: Tensor, first: int) -> Tensor:
        low = entity * 2 * self.relations + first
        ranges: Ranges = key_range(self.values, low, low + self.relations - 1)
        row, position = ranges.expand()
        table = torch.zeros(len(entity), self.relations, device=entity.device)
        relation = self.values[position] % self.relations
        return table.index_put((row, relation), self.counts[position].float())
