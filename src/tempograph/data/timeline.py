"""All snapshots as one graph on one device: edges sorted by time, windows as contiguous ranges."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph, sort_by_time
from tempograph.data.held_facts import HeldFacts
from tempograph.data.name_tokens import NameTokens, name_tokens
from tempograph.data.protocol import active_pairs, task_of
from tempograph.data.sorted_ranges import Ranges, key_range
from tempograph.data.spans import EVENT_COLUMNS, Bounds
from tempograph.errors import DataError
from tempograph.typing import Protocol


class Queries(NamedTuple):
    """Queries (entity, relation, ?, time), [n] each; relation r + |R| is the inverse of r."""

    entity: Tensor
    relation: Tensor
    time: Tensor

    def take(self, index: Tensor) -> Queries:
        """The queries at the given positions [k]."""
        return Queries(self.entity[index], self.relation[index], self.time[index])


def both_directions(facts: Tensor, num_relations: int) -> Tensor:
    """Facts, then the same facts inverted: (o, r + |R|, s, t).   [n, 4 or 6] -> [2n, 4 or 6]."""
    subject, relation, object_, *when = facts.unbind(1)
    return torch.cat(
        [facts, torch.stack([object_, relation + num_relations, subject, *when], dim=1)]
    )


def fact_queries(facts: Tensor, num_relations: int) -> tuple[Queries, Tensor]:
    """The object queries of all facts, then their subject queries; and the answers, [2n] each.

    Facts that hold for a while are asked at their start.
    """
    facts = facts[:, :EVENT_COLUMNS]
    entity, relation, answer, time = both_directions(facts, num_relations).unbind(1)
    return Queries(entity, relation, time), answer


def undirected_facts(directed: Tensor, num_relations: int) -> Tensor:
    """The facts behind rows (entity, relation, answer, time) of either direction, [n, 4]."""
    entity, relation, answer, time = directed.unbind(1)
    inverted = relation >= num_relations
    subject, object_ = torch.where(inverted, answer, entity), torch.where(inverted, entity, answer)
    return torch.stack([subject, relation % num_relations, object_, time], dim=1)


class Timeline:
    """What a model may know of a dataset: the train facts, and which entity is active when.

    `data.protocol` says which facts make an entity active. If a timeline is `past_only`, models
    answer a query from the facts of earlier steps alone.

    The key of a pair (entity, step) is entity * steps + step. `pair_keys` holds the active pairs in
    ascending order, so the active steps of an entity inside any window are a contiguous range of
    `pair_entity` and `pair_time`. Of facts that hold for a while, only the first step is among
    them: an entity is active as long as they hold, which `edges` says of the steps that are needed.
    """

    def __init__(
        self,
        graph: TemporalGraph,
        protocol: Protocol = "strict",
        device: torch.device | str = "cpu",
        history_end: int | None = None,
    ) -> None:
        self.protocol: Protocol = protocol
        self.past_only = task_of(protocol) == "forecast"
        if self.past_only and graph.has_intervals:
            raise DataError(
                f"{graph.name}: facts that hold for a while cannot be forecast; "
                "train with task=complete, or import their starts as events"
            )
        self.history_end = len(graph.times) - 1 if history_end is None else history_end
        """The last step whose facts are known; a forecast may be about a step long after it."""
        self.device = torch.device(device)
        self.sizes = graph.sizes
        self.num_entities, self.num_relations, _, self.num_steps = graph.sizes
        self.labels = graph.times
        self.entity_names, self.entity_attributes = graph.entities, graph.attributes
        self.vocabulary_names = graph.vocabulary_names

        train = torch.from_numpy(sort_by_time(graph.train)).to(self.device)
        self.has_intervals = graph.has_intervals
        """Whether facts hold from a start to an end; otherwise they are events."""
        self.facts = train[:, :EVENT_COLUMNS].contiguous()
        """Distinct train facts sorted by time or start, [facts, 4]: the edges of all snapshots."""
        self.fact_end = train[:, 4].contiguous() if graph.has_intervals else self.facts[:, 3]
        """The last step at which each train fact holds, [facts]."""
        self.fact_bounds = train[:, 5].contiguous() if graph.has_intervals else None
        """Which bounds of each train fact are open or unknown (`data.spans.Bounds`), [facts]."""
        steps = torch.arange(self.num_steps + 1, device=self.device)
        self.step_start = torch.searchsorted(self.facts[:, 3].contiguous(), steps)
        """Facts that begin at step t are facts[step_start[t]:step_start[t + 1]], [steps + 1]."""

        train_keys, extra_keys = active_pairs(graph, protocol)
        self.extra_pair_keys = torch.from_numpy(extra_keys).to(self.device)
        """Pairs that are active whatever the train facts: those of valid and test under `paper`."""
        self.pair_keys = torch.from_numpy(np.union1d(train_keys, extra_keys)).to(self.device)
        self.pair_entity = self.pair_keys // self.num_steps
        self.pair_time = self.pair_keys % self.num_steps

        subject, _, object_, time = self.facts.unbind(1)
        self.subject_pair = torch.searchsorted(self.pair_keys, self._key(subject, time))
        """The active pair of each train fact's subject, [facts]."""
        self.object_pair = torch.searchsorted(self.pair_keys, self._key(object_, time))
        """The active pair of each train fact's object, [facts]."""

    @cached_property
    def name_tokens(self) -> NameTokens:
        """The tokens that the names and attributes of entities share."""
        attributes = self.entity_attributes.values()
        return name_tokens(self.entity_names, attributes, self.vocabulary_names)

    @cached_property
    def rows(self) -> Tensor:
        """The train facts as rows of a graph, [facts, 4] of events or [facts, 6] of intervals."""
        if self.fact_bounds is None:
            return self.facts
        return torch.column_stack([self.facts, self.fact_end, self.fact_bounds])

    @cached_property
    def unknown_bounds(self) -> Tensor:
        """Whether the start or the end of each train fact is unknown, [facts]."""
        if self.fact_bounds is None:
            return torch.zeros_like(self.fact_end, dtype=torch.bool)
        return (self.fact_bounds & (Bounds.UNKNOWN_START | Bounds.UNKNOWN_END)) > 0

    @cached_property
    def longest(self) -> int:
        """The steps at which the fact that holds longest is known to hold."""
        return int((self.fact_end - self.facts[:, 3]).max()) + 1

    @cached_property
    def held_facts(self) -> HeldFacts:
        """Which train facts hold at a step; their key is 0."""
        start = self.facts[:, 3]
        return HeldFacts(torch.zeros_like(start), start, self.fact_end, self.num_steps)

    @cached_property
    def max_facts_per_step(self) -> int:
        """The largest number of train facts that hold at one step."""
        begin, end = (
            torch.bincount(steps, minlength=self.num_steps + 1).cumsum(0)
            for steps in (self.facts[:, 3], self.fact_end + 1)
        )
        return int((begin - end).max())

    def edges(self, times: Tensor) -> tuple[Tensor, Tensor]:
        """The edges of some snapshots as (row in times, position in facts), [edges] each.

        A fact that holds for a while is an edge of every step at which it is known to hold.
        """
        if self.has_intervals:
            return self.held_facts.holding(torch.zeros_like(times), times)
        return Ranges(self.step_start[times], self.step_start[times + 1]).expand()

    def window(self, entity: Tensor, first: Tensor, last: Tensor) -> Ranges:
        """The active steps of each entity from first to last inclusive, as ranges of pair_time."""
        return key_range(
            self.pair_keys,
            self._key(entity, first.clamp(min=0)),
            self._key(entity, last.clamp(max=self.num_steps - 1)),
        )

    def _key(self, entity: Tensor, time: Tensor) -> Tensor:
        return entity * self.num_steps + time
