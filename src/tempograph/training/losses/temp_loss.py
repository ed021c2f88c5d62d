"""The loss of TeMP at some times: what is dropped, what is asked, what it is scored against."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from tempograph.data.timeline import Queries, fact_queries
from tempograph.models.temp.temp import Encoded, Questions, TeMP
from tempograph.nn.losses import sampled_loss, softmax_loss
from tempograph.nn.padded_groups import padded_layout
from tempograph.training.objective import Objective
from tempograph.training.settings import SnapshotTraining


class TeMPLoss(Objective):
    """The mean loss of the questions of some times, both sides."""

    def __init__(self, model: TeMP, settings: SnapshotTraining) -> None:
        super().__init__(model.timeline)
        self.model = model
        self.settings = settings

    @cached_property
    def counts(self) -> Tensor | None:
        """What a gate sees of both questions of all train facts, [2, facts, 3]: the same in every epoch."""
        if self.model.gate is None:
            return None
        queries, _ = fact_queries(self.timeline.facts, self.timeline.num_relations)
        return self.model.frequencies.count_queries(queries, *self.model.reach).view(2, -1, 3)

    def batches(self, generator: torch.Generator) -> Sequence[Tensor]:
        """The times that have facts, some at once."""
        return self.shuffled_times(self.settings.times_per_step, generator)

    def forward(self, times: Tensor, generator: torch.Generator) -> Tensor:
        """Times [n], distinct -> a scalar; 0 when no fact counts."""
        timeline = self.timeline
        sample = self.model.draw(generator)
        place, position = timeline.edges(times)
        if self.settings.targets == "dropped":
            counted = ~sample.keep[position]
            place, position = place[counted], position[counted]
        if self.timeline.max_facts_per_step > self.settings.max_facts:
            place, position = capped(place, position, self.settings.max_facts, generator)
        encoded = self.model.encode(times, sample)
        if not len(position):
            return encoded.base.sum() * 0
        (queries, answer), place = (
            fact_queries(timeline.facts[position], timeline.num_relations),
            place.repeat(2),
        )
        counts = None if self.counts is None else self.counts[:, position].flatten(0, 1)
        questions = self.model.ask(queries, place, encoded, counts)
        if self.settings.negatives == "all":
            scores, row = self.model.score_all(questions, place, encoded, len(times))
            return softmax_loss(scores.float(), row, answer, self.true_answers(queries, answer))
        return self._sampled(questions, queries, answer, place, encoded, generator)

    def _sampled(
        self,
        questions: Questions,
        queries: Queries,
        answer: Tensor,
        place: Tensor,
        encoded: Encoded,
        generator: torch.Generator,
    ) -> Tensor:
        """Against a sample of entities, drawn for each time and side and shared by its questions; never a true fact."""
        timeline, count = self.timeline, self.settings.negatives
        assert count != "all"
        group = place * 2 + queries.relation // timeline.num_relations
        used, group = torch.unique(group, return_inverse=True)
        pool = torch.randint(
            timeline.num_entities, (len(used), count), device=place.device, generator=generator
        )
        rows = encoded.take((used // 2).repeat_interleave(count), pool.flatten()).view(
            *pool.shape, -1
        )
        layout, slot = padded_layout(group, len(used))
        negative = self.model.score(questions.laid_out(layout, slot), rows).flatten(0, 1)[slot]
        own = encoded.take(place, answer)[:, None]
        positive = self.model.score(questions.each(), own)[:, 0, 0]
        excluded = self.known.contains(queries, pool[group])
        return sampled_loss(positive.float(), negative.float(), excluded)


def capped(
    place: Tensor, position: Tensor, most: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """At most so many members of each place, drawn at random.   place and position [n], place rising."""
    count = torch.bincount(place)
    shuffled = torch.argsort(
        place + torch.rand(len(place), device=place.device, generator=generator).double()
    )
    within = (
        torch.arange(len(place), device=place.device) - (count.cumsum(0) - count)[place[shuffled]]
    )
    kept = shuffled[within < most].sort().values
    return place[kept], position[kept]
