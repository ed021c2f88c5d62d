"""The base class of all losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import Queries, Timeline


class TrainingLoss(nn.Module, ABC):
    """The loss that training minimizes; a module, so that it can run in several processes."""

    shares_batches = False
    """Whether all processes get the same batch and compute its loss together.

    Otherwise each has batches of its own, and gradients are averaged.
    """

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline

    @cached_property
    def known(self) -> KnownAnswers:
        """The answers known from train facts."""
        return KnownAnswers(self.timeline.facts, self.timeline.sizes)

    def true_answers(self, queries: Queries, answer: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs (row of the query, known answer); its own answer [n] may occur repeatedly."""
        if answer.is_cuda and 16 * self.known.max_answers <= self.timeline.num_entities:
            return self.known.padded_answers(queries, answer)
        return self.known(queries)

    def shuffled_facts(self, batch_size: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Indices of all train facts in random order, in batches."""
        facts = self.timeline.facts
        order = torch.randperm(len(facts), device=facts.device, generator=generator)
        return torch.split(order, batch_size)

    def shuffled_times(self, batch_size: int, generator: torch.Generator) -> Sequence[Tensor]:
        """All times with train facts in random order, in batches."""
        times = torch.unique(self.timeline.facts[:, 3])
        order = torch.randperm(len(times), device=times.device, generator=generator)
        return torch.split(times[order], batch_size)

    @abstractmethod
    def batches(self, generator: torch.Generator) -> Sequence[Tensor]:
        """The batches of an epoch, in a new random order."""

    @abstractmethod
    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """The loss of a batch, a scalar."""
