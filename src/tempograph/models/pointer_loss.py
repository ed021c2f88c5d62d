"""The loss of the pointer on some facts: each is asked for as if it were not there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tempograph.errors import ConfigError
from tempograph.models.pointer import Pointer
from tempograph.objective import Objective, TrainSettings, softmax_loss
from tempograph.timeline import Queries, both_questions

_SCORES: Final = {"cpu": 2**30, "cuda": 2**33}
"""Bytes of the scores that lie in memory at once in a training step, by kind of device."""


@dataclass(frozen=True)
class PointerTraining(TrainSettings):
    """Training of the pointer; always against all entities."""

    facts_per_step: int = 1000
    fact_dropout: float = 0.1
    """Share of the train facts that do not vote in a step."""
    prior_decay: float = 0.0
    """Weight of the squares of the priors of pairs (relation, entity)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least_1("facts_per_step")
        self.at_least_0("prior_decay")
        if not 0 <= self.fact_dropout < 1:
            raise ConfigError(f"fact_dropout must be at least 0 and below 1, found {self.fact_dropout}")
        if self.negatives != "all":
            raise ConfigError(f"the pointer is trained against all entities, found negatives = {self.negatives}")


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
        timeline = self.model.timeline
        queries, answer = both_questions(timeline.facts[batch], timeline.num_relations)
        kept = None
        if self.settings.fact_dropout:
            chance = torch.rand(len(timeline.facts), device=timeline.device, generator=generator)
            kept = chance >= self.settings.fact_dropout
        loss = self._mean(queries, answer, batch.repeat(2), kept)
        if self.settings.prior_decay:
            loss = loss + self.settings.prior_decay * self.model.pair.square().sum()
        return loss

    def _mean(self, queries: Queries, answer: Tensor, left_out: Tensor, kept: Tensor | None) -> Tensor:
        """The mean loss of questions, so many at once that their scores stay within a budget."""
        room = _SCORES[answer.device.type] // (self.model.bytes_per_candidate * self.model.timeline.num_entities)
        if room >= len(answer):
            return self._loss(queries, answer, left_out, kept)
        # Backward makes the scores of one part again instead of keeping those of all.
        parts = torch.split(torch.arange(len(answer), device=answer.device), max(1, room))
        losses = [
            len(part)
            * checkpoint(self._loss, queries.take(part), answer[part], left_out[part], kept, use_reentrant=False)
            for part in parts
        ]
        return torch.stack(losses).sum() / len(answer)

    def _loss(self, queries: Queries, answer: Tensor, left_out: Tensor, kept: Tensor | None) -> Tensor:
        scores = self.model.score(queries, left_out, kept)
        every = torch.arange(len(answer), device=answer.device)
        return softmax_loss(scores.float(), every, answer, self.known(queries))
