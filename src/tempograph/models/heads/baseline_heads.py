"""Plain baselines for relations and times: counts of what the same pair did."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.data.timeline import Timeline
from tempograph.models.heads.question_head import QuestionHead, facts_by_pair, pair_keys
from tempograph.models.heads.time_head import all_facts
from tempograph.typing import Asked


class RelationCounts(QuestionHead):
    """score(r) = N(s, r, o), then N(r): how often the pair, then anyone, did it in train."""

    asked: Asked = "relation"
    column = 1

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline
        self.by_pair = facts_by_pair(timeline)
        self.frequency = torch.bincount(timeline.facts[:, 1], minlength=timeline.num_relations)

    @property
    def num_candidates(self) -> int:
        return self.timeline.num_relations

    @property
    def bytes_per_question(self) -> int:
        return 64 * self.num_candidates

    def scores(self, facts: Tensor, left_out: Tensor | None = None) -> Tensor:
        pair = pair_keys(facts[:, 0], facts[:, 2], self.timeline)
        query, row = all_facts(self.by_pair, pair, left_out)
        relation = self.by_pair.relation[row]
        forward = relation < self.num_candidates
        below_1 = self.frequency.double() / (1 + len(self.timeline.facts))
        counts = torch.zeros(len(facts), self.num_candidates, device=facts.device).double()
        cell = (query[forward], relation[forward])
        one = counts.new_ones(len(cell[0]))
        return below_1 + counts.index_put(cell, one, accumulate=True)

    def with_timeline(self, timeline: Timeline) -> RelationCounts:
        return RelationCounts(timeline)


class PairActivity(QuestionHead):
    """score(t) = number of train facts between s and o at t, then of all train facts at t."""

    asked: Asked = "time"
    column = 3

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline
        self.by_pair = facts_by_pair(timeline)

    @property
    def num_candidates(self) -> int:
        return self.timeline.num_steps

    @property
    def bytes_per_question(self) -> int:
        return 64 * self.num_candidates

    def scores(self, facts: Tensor, left_out: Tensor | None = None) -> Tensor:
        pair = pair_keys(facts[:, 0], facts[:, 2], self.timeline)
        query, row = all_facts(self.by_pair, pair, left_out)
        below_1 = self.timeline.step_start.diff().double() / (1 + len(self.timeline.facts))
        counts = torch.zeros(len(facts), self.num_candidates, device=facts.device).double()
        one = counts.new_ones(len(query))
        return below_1 + counts.index_put((query, self.by_pair.time[row]), one, accumulate=True)

    def with_timeline(self, timeline: Timeline) -> PairActivity:
        return PairActivity(timeline)
