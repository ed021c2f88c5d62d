"""When a fact happened: a head that ranks time steps."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from tempograph.data.sorted_facts import SortedFacts
from tempograph.data.sorted_ranges import Ranges, equal_range
from tempograph.data.timeline import Timeline
from tempograph.models.heads.question_head import (
    QuestionHead,
    facts_by_entity,
    facts_by_pair,
    pair_keys,
)
from tempograph.models.heads.relation_head import removed_rows
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.nn.time_votes import TimeVotes
from tempograph.typing import Asked

_MAX_FACTS: Final = 16_384
"""Voting facts of a pair or an entity; of more, the first are left out."""


class TimeHead(QuestionHead):
    """score(t) = votes of facts between s and o, of facts of s, and of facts of o

    + v log(1 + N(t)) + w log(1 + N(r, t)), where N counts the train facts of a step, and those with
    the relation. See `TimeVotes`.
    """

    asked: Asked = "time"
    column = 3

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        relations, steps = timeline.num_relations, timeline.num_steps
        self.pair_votes = TimeVotes(relations, steps, initial_gain=1.0)
        self.subject_votes = TimeVotes(relations, steps, initial_gain=0.3)
        self.object_votes = TimeVotes(relations, steps, initial_gain=0.3)
        self.count_weights = nn.Parameter(torch.full((2,), 0.3))
        self._index(timeline)
        self.to(timeline.device)

    def _index(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.by_pair, self.by_entity = facts_by_pair(timeline), facts_by_entity(timeline)
        self.step_counts = StepCounts(timeline)

    @property
    def num_candidates(self) -> int:
        return self.timeline.num_steps

    @property
    def bytes_per_question(self) -> int:
        windows = len(self.pair_votes.half_widths)
        return 8 * self.num_candidates * (windows + 12)

    def scores(self, facts: Tensor, left_out: Tensor | None = None) -> Tensor:
        subject, relation, object_, _ = facts.unbind(1)
        pair, steps = pair_keys(subject, object_, self.timeline), self.num_candidates
        sources = (
            (self.pair_votes, self.by_pair, pair, False),
            (self.subject_votes, self.by_entity, subject, False),
            (self.object_votes, self.by_entity, object_, True),
        )
        scores = self.count_weights.new_zeros(len(facts), steps)
        for votes, index, value, inverted in sources:
            query, row = all_facts(index, value, left_out)
            voting = index.relation[row]
            if inverted:
                # Facts of the object are seen from its side; turn them around.
                voting = (voting + self.timeline.num_relations) % (2 * self.timeline.num_relations)
            scores = scores + votes(relation, query, voting, index.time[row], steps)
        counts = self.step_counts(relation, left_out)
        for weight, count in zip(self.count_weights, counts, strict=True):
            scores = scores + weight * torch.log1p(count)
        return scores

    def with_timeline(self, timeline: Timeline) -> TimeHead:
        if timeline is self.timeline:
            return self
        twin = copy_sharing_weights(self)
        twin._index(timeline)
        return twin


def all_facts(index: SortedFacts, value: Tensor, left_out: Tensor | None) -> tuple[Tensor, Tensor]:
    """The question and the row of each fact of a key value [n]."""
    key = index.find_keys(value)
    start, stop = index.all_rows(key)
    query, row = Ranges(torch.maximum(start, stop - _MAX_FACTS), stop).expand()
    kept = (row[:, None] != removed_rows(index, key, left_out)[query]).all(1)
    return query[kept], row[kept]


class StepCounts:
    """How many train facts each step has, in all and with a relation."""

    def __init__(self, timeline: Timeline) -> None:
        self.facts, self.num_steps = timeline.facts, timeline.num_steps
        self.of_step = torch.bincount(self.facts[:, 3], minlength=self.num_steps).float()
        value = self.facts[:, 1] * self.num_steps + self.facts[:, 3]
        self.values, self.counts = torch.unique(value, return_counts=True)

    def __call__(self, relation: Tensor, left_out: Tensor | None) -> tuple[Tensor, Tensor]:
        """N(t) and N(r, t) of every step for relations [n], [n, steps] each."""
        of_step = self.of_step.repeat(len(relation), 1)
        with_relation = torch.zeros_like(of_step)
        row, position = equal_range(self.values // self.num_steps, relation).expand()
        step = self.values[position] % self.num_steps
        with_relation = with_relation.index_put((row, step), self.counts[position].float())
        if left_out is not None:
            row = (left_out >= 0).nonzero()[:, 0]
            fact = self.facts[left_out[row]]
            of_step[row, fact[:, 3]] -= 1
            with_relation[row, fact[:, 3]] -= (fact[:, 1] == relation[row]).float()
        return of_step, with_relation
