"""A head of two members, each trained on one half of the train facts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tempograph.data.sorted_facts import hash_facts
from tempograph.data.timeline import Timeline
from tempograph.models.heads.question_head import QuestionHead
from tempograph.nn.shared_weights import copy_sharing_weights

HALVES = (0, 1)


class CrossFittedHead(QuestionHead):
    """score = mean of the scores of two heads; member k was trained to answer for half k.

    A train fact can be scored by the member that was not trained on it, as if it were held out.
    Both members read all train facts.
    """

    def __init__(self, *members: QuestionHead) -> None:
        super().__init__()
        first, _ = members
        self.asked, self.column, self.timeline = first.asked, first.column, first.timeline
        self.members = nn.ModuleList(members)

    @property
    def heads(self) -> tuple[QuestionHead, ...]:
        """`members`, with their type."""
        return tuple(member for member in self.members if isinstance(member, QuestionHead))

    @property
    def num_candidates(self) -> int:
        return self.heads[0].num_candidates

    @property
    def bytes_per_question(self) -> int:
        return self.heads[0].bytes_per_question + 8 * self.num_candidates

    def scores(self, facts: Tensor, left_out: Tensor | None = None) -> Tensor:
        one, other = (head.scores(facts, left_out) for head in self.heads)
        return (one + other) / 2

    def held_out_scores(self, position: Tensor) -> Tensor:
        """Scores for train facts at positions [n] in the timeline, as if they were held out."""
        facts = self.timeline.facts[position]
        half = half_of(facts)
        scores = torch.empty(len(facts), self.num_candidates, device=facts.device)
        for own, head in zip(HALVES, self.heads, strict=True):
            row = (half != own).nonzero()[:, 0]
            scores[row] = head.scores(facts[row], position[row])
        return scores

    def with_timeline(self, timeline: Timeline) -> CrossFittedHead:
        if timeline is self.timeline:
            return self
        twin = copy_sharing_weights(self)
        twin.timeline = timeline
        twin.members = nn.ModuleList(head.with_timeline(timeline) for head in self.heads)
        return twin


def half_of(facts: Tensor) -> Tensor:
    """The half of each fact [n, 4], 0 or 1, whatever other facts there are, [n]."""
    return (hash_facts(facts) >> 33) & 1
