"""The loss of the pointer on some facts: each is asked for as if it were not there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tempograph.data.timeline import Queries, fact_queries
from tempograph.device import memory_budget
from tempograph.models.pointer.pointer import Pointer
from tempograph.nn.losses import softmax_loss
from tempograph.training.objective import Objective
from tempograph.training.settings import PointerTraining

_AT_ONCE: Final = 2**17
"""Questions whose facts are looked up at once before training."""


class PointerLoss(Objective):
    """The mean loss of the questions of some facts, both sides, the facts themselves left out."""

    def __init__(self, model: Pointer, settings: PointerTraining) -> None:
        super().__init__(model.timeline)
        self.model = model
        self.settings = settings

    def batches(self, generator: torch.Generator) -> Sequence[Tensor]:
        """Positions of train facts."""
        return self.shuffled_facts(self.settings.facts_per_step, generator)

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """Positions of facts [n] -> a scalar."""
        timeline = self.timeline
        kept = None
        if self.settings.fact_dropout:
            chance = torch.rand(len(timeline.facts), device=timeline.device, generator=generator)
            kept = chance >= self.settings.fact_dropout
        return self._mean(torch.cat([batch, batch + len(timeline.facts)]), kept)

    @cached_property
    def _questions(self) -> tuple[Queries, Tensor]:
        """Both questions of every train fact, objects first, and their answers, [2 facts] each."""
        return fact_queries(self.timeline.facts, self.timeline.num_relations)

    @cached_property
    def _ballots(self) -> Tensor:
        """What each of these questions looks at with its own fact left out, made once, [8 for each source, 2 facts]."""
        queries, _ = self._questions
        facts = len(self.timeline.facts)
        parts = torch.split(torch.arange(2 * facts, device=self.timeline.device), _AT_ONCE)
        made = (self.model.ballots(queries.take(part), part % facts) for part in parts)
        return torch.cat(
            [torch.cat([ballot.pack() for ballot in ballots]) for ballots in made], dim=1
        )

    def _mean(self, asked: Tensor, kept: Tensor | None) -> Tensor:
        """The mean loss of questions by number, so many at once that their scores stay within a budget."""
        at_once = memory_budget("pointer_loss", asked.device) // (
            self.model.bytes_per_candidate * self.timeline.num_entities
        )
        if at_once >= len(asked):
            return self._loss(asked, kept)
        # Backward makes the scores of one part again instead of keeping those of all.
        losses = [
            len(part) * checkpoint(self._loss, part, kept, use_reentrant=False)
            for part in torch.split(asked, max(1, at_once))
        ]
        return torch.stack(losses).sum() / len(asked)

    def _loss(self, asked: Tensor, kept: Tensor | None) -> Tensor:
        queries, answer = self._questions[0].take(asked), self._questions[1][asked]
        chosen = self._ballots.index_select(1, asked).chunk(len(self.model.sources))
        ballots = [
            source.unpack(packed) for source, packed in zip(self.model.ways, chosen, strict=True)
        ]
        scores = self.model.score(queries.relation, ballots, kept)
        every = torch.arange(len(answer), device=answer.device)
        return softmax_loss(scores.float(), every, answer, self.true_answers(queries, answer))
