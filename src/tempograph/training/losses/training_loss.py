"""The base class of all losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from tempograph.data.filters import KnownAnswers
from tempograph.data.held_facts import random_steps
from tempograph.data.sorted_ranges import equal_range
from tempograph.data.timeline import Queries, Timeline


class TrainingLoss(nn.Module, ABC):
    """The loss that training minimizes; a module, so that it can run in several processes.

    A fact that holds for a while is asked once in an epoch, at a random step of it: long facts
    count no more than short ones.
    """

    shares_batches = False
    """Whether all processes get the same batch and compute its loss together.

    Otherwise each has batches of its own, and gradients are averaged.
    """

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline
        self.fact_time = timeline.facts[:, 3]
        """The step at which each train fact is asked in this epoch, [facts]."""
        self._by_time: tuple[Tensor, Tensor] | None = None

    @cached_property
    def known(self) -> KnownAnswers:
        """The answers known from train facts."""
        return KnownAnswers(self.timeline.rows, self.timeline.sizes)

    def true_answers(self, queries: Queries, answer: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs (row of the query, known answer); its own answer [n] may occur repeatedly."""
        if answer.is_cuda and 16 * self.known.max_answers <= self.timeline.num_entities:
            return self.known.padded_answers(queries, answer)
        return self.known(queries)

    def draw_steps(self, generator: torch.Generator) -> None:
        """Draw the step of each fact, uniformly from those at which it is known to hold."""
        if self.timeline.longest == 1:
            return
        start, end = self.timeline.facts[:, 3], self.timeline.fact_end
        self.fact_time, self._by_time = random_steps(start, end, generator), None

    def asked_facts(self, positions: Tensor) -> Tensor:
        """The train facts at positions [n], each at the step at which it is asked, [n, 4]."""
        facts = self.timeline.facts[positions]
        return torch.column_stack([facts[:, :3], self.fact_time[positions]])

    def facts_asked_at(self, times: Tensor) -> tuple[Tensor, Tensor]:
        """The facts asked at some steps as (row in times, position in facts), [targets] each."""
        if self._by_time is None:
            self._by_time = torch.sort(self.fact_time, stable=True)
        ordered, order = self._by_time
        row, position = equal_range(ordered, times).expand()
        return row, order[position]

    def shuffled_facts(self, batch_size: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Indices of all train facts in random order, in batches, for an epoch."""
        self.draw_steps(generator)
        facts = self.timeline.facts
        order = torch.randperm(len(facts), device=facts.device, generator=generator)
        return torch.split(order, batch_size)

    def shuffled_times(self, batch_size: int, generator: torch.Generator) -> Sequence[Tensor]:
        """All times at which facts are asked in random order, in batches, for an epoch."""
        self.draw_steps(generator)
        times = torch.unique(self.fact_time)
        order = torch.randperm(len(times), device=times.device, generator=generator)
        return torch.split(times[order], batch_size)

    @abstractmethod
    def batches(self, generator: torch.Generator) -> Sequence[Tensor]:
        """The batches of an epoch, in a new random order."""

    @abstractmethod
    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """The loss of a batch, a scalar."""
