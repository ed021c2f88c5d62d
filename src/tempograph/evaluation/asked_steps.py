"""The steps at which facts that hold for a while are asked about, in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import TemporalGraph
from tempograph.data.sorted_ranges import Ranges
from tempograph.data.spans import EVENT_COLUMNS
from tempograph.typing import Filter, Protocol

BLOCK: Final = 2**18
"""Pairs (fact, step) in one block, unless more facts hold at a single step."""
_GOLDEN: Final = 0.6180339887498949


class AskedSteps(NamedTuple):
    """Pairs of a fact and a step at which it is asked about, [pairs] each."""

    fact: Tensor
    """The position of the fact."""
    step: Tensor

    def events(self, facts: Tensor) -> Tensor:
        """The facts [n, 6] as events at these steps, [pairs, 4]."""
        return torch.column_stack([facts[self.fact, :3], self.step])


def every_step(facts: Tensor, max_pairs: int = BLOCK) -> Iterator[AskedSteps]:
    """Every step of every fact [n, 6], in the order of steps.

    A block holds the steps from one to another of all facts: no fact is written out as a whole.
    """
    start, end = facts[:, 3], facts[:, 4]
    steps = int(end.max()) + 1 if len(facts) else 0
    change = torch.bincount(start, minlength=steps + 1)
    change = change - torch.bincount(end + 1, minlength=steps + 1)
    pairs = np.cumsum(np.cumsum(change[:steps].cpu().numpy()))
    first = done = 0
    while first < steps:
        stop = max(first + 1, int(np.searchsorted(pairs, done + max_pairs, side="right")))
        here = ((start < stop) & (end >= first)).nonzero()[:, 0]
        row, step = Ranges(start[here].clamp(min=first), end[here].clamp(max=stop - 1) + 1).expand()
        if len(row):
            yield AskedSteps(here[row], step)
        first, done = stop, int(pairs[stop - 1])


def both_ends(facts: Tensor, max_pairs: int = BLOCK) -> Iterator[AskedSteps]:
    """The first and the last step of every fact [n, 6]; a fact of one step is asked about once."""
    for part in torch.split(torch.arange(len(facts), device=facts.device), max(1, max_pairs // 2)):
        start, end = facts[part, 3], facts[part, 4]
        longer = start < end
        yield AskedSteps(torch.cat([part, part[longer]]), torch.cat([start, end[longer]]))


def one_step_each(facts: Tensor) -> Tensor:
    """One step of each fact [n, 4 or 6], spread evenly over the steps at which facts hold, [n].

    Events have one step. Equal facts at equal positions have equal steps.
    """
    start = facts[:, 3]
    if facts.shape[1] == EVENT_COLUMNS:
        return start
    share = (torch.arange(len(facts), dtype=torch.float64, device=facts.device) + 0.5) * _GOLDEN
    length = facts[:, 4] - start + 1
    return torch.minimum(start + (share.frac() * length).long(), facts[:, 4])


def events_of(facts: Tensor) -> Tensor:
    """Each fact [n, 4 or 6] as an event at one of its steps, [n, 4]."""
    return torch.column_stack([facts[:, :3], one_step_each(facts)])


@dataclass(frozen=True, eq=False)
class FactsAtSteps:
    """Facts [n, 6], when they are asked about, and which known answers do not count.

    Every step of a fact is asked, and the filter `time` removes the other answers that hold at the
    step. Under `paper`, as in the literature, the first and the last step are asked, and the filter
    removes the answers that hold from the same start to the same end.
    """

    facts: Tensor
    known: KnownAnswers
    ends_only: bool = False
    spans: Tensor | None = None
    """What stands for the start, end and bounds of each fact in `known`, [n]."""

    @staticmethod
    def under(
        protocol: Protocol, graph: TemporalGraph, facts: Tensor, filter: Filter
    ) -> FactsAtSteps:
        """How a protocol asks about some facts of a graph."""
        if protocol != "paper":
            return FactsAtSteps(facts, KnownAnswers.from_graph(graph, filter, facts.device))
        every = torch.from_numpy(graph.all_facts).to(facts.device)
        distinct, span = torch.unique(torch.cat([facts, every])[:, 3:], dim=0, return_inverse=True)
        own, other = span[: len(facts)], span[len(facts) :]
        sizes = (*graph.sizes[:3], len(distinct))
        known = KnownAnswers(torch.column_stack([every[:, :3], other]), sizes, filter)
        return FactsAtSteps(facts, known, True, own)

    def __iter__(self) -> Iterator[AskedSteps]:
        return both_ends(self.facts) if self.ends_only else every_step(self.facts)

    @property
    def num_queries(self) -> int:
        """The number of queries, two for each step of a fact."""
        longer = self.facts[:, 4] - self.facts[:, 3]
        return 2 * (len(longer) + int((longer.clamp(max=1) if self.ends_only else longer).sum()))

    @property
    def one_step_each(self) -> Tensor:
        """One of the steps of each fact, [n]."""
        return self.facts[:, 3] if self.ends_only else one_step_each(self.facts)

    def filter_key(self, pairs: AskedSteps) -> Tensor | None:
        """What stands for the step of each pair in `known`; None for the step itself."""
        return None if self.spans is None else self.spans[pairs.fact]
