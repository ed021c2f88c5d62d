"""What training lowers: losses of a question's answer against all entities or a sample of them, and their settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import Queries, Timeline


class Objective(nn.Module, ABC):
    """What a training step lowers, as a module so that it can run in several processes."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline

    @cached_property
    def known(self) -> KnownAnswers:
        """The answers that train facts make true."""
        return KnownAnswers(self.timeline.facts, self.timeline.sizes)

    def true_answers(self, queries: Queries, answer: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs (row of the question, answer that train facts make true), its own [n] perhaps more than once."""
        if answer.is_cuda and 16 * self.known.max_answers <= self.timeline.num_entities:
            return self.known.padded_answers(queries, answer)
        return self.known(queries)

    def shuffled_facts(self, at_once: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Positions of all train facts, in a new order, some at once."""
        order = torch.randperm(
            len(self.timeline.facts), device=self.timeline.device, generator=generator
        )
        return torch.split(order, at_once)

    def shuffled_times(self, at_once: int, generator: torch.Generator) -> Sequence[Tensor]:
        """All times with train facts, in a new order, some at once."""
        busy = torch.unique(self.timeline.facts[:, 3])
        order = torch.randperm(len(busy), device=busy.device, generator=generator)
        return torch.split(busy[order], at_once)

    @abstractmethod
    def batches(self, generator: torch.Generator) -> Sequence[Tensor]:
        """What the steps of an epoch take, in a new order each time."""

    @abstractmethod
    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """The loss of one step, a scalar."""
