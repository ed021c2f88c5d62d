"""Facts by entity and time, with their splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tempograph.data.graph import TemporalGraph
from tempograph.data.spans import spans_of
from tempograph.server.schema.lookups import RelationEdge, SplitFact, StepCount
from tempograph.typing import SPLITS

Positions = NDArray[np.intp]
"""Indices into the facts of a `FactLookup`."""


class FactLookup:
    """All facts in order of time, and for each entity the positions of its facts."""

    def __init__(self, graph: TemporalGraph) -> None:
        self.graph = graph
        split = np.repeat(np.arange(len(SPLITS)), [len(graph.facts(name)) for name in SPLITS])
        order = np.argsort(graph.all_facts[:, 3], kind="stable")
        self.facts = graph.all_facts[order]
        self.split = split[order]
        subject, _, object_, time = self.facts[:, :4].T
        self.end = spans_of(self.facts).end
        """The last step of each fact; of an event, its time."""
        self._step_start = np.searchsorted(time, np.arange(len(graph.times) + 1))
        position, distinct = np.arange(len(time)), object_ != subject
        entity = np.concatenate([subject, object_[distinct]])
        key = entity * len(graph.times) + np.concatenate([time, time[distinct]])
        by_key = np.argsort(key, kind="stable")
        self._key = key[by_key]
        self._position = np.concatenate([position, position[distinct]])[by_key]

    def of_entity(self, entity: int, first: int, last: int) -> Positions:
        """The facts of an entity from step `first` to step `last`, in order of time or start.

        A fact that holds for a while counts if it holds at one of the steps.
        """
        offset = entity * len(self.graph.times)
        begin = 0 if self.graph.has_intervals else first
        start, stop = np.searchsorted(self._key, [offset + begin, offset + last + 1])
        positions = np.sort(self._position[start:stop])
        here: Positions = positions[self.end[positions] >= first]
        return here

    def examples(self, count: int) -> Positions:
        """One fact of each of the most frequent subjects, as near the middle of the time as can be.

        Held-out facts are preferred, because the model has not been trained on them.
        """
        held_out = np.flatnonzero(self.split > 0)
        positions = held_out if len(held_out) else np.arange(len(self.facts))
        middle = (len(self.graph.times) - 1) / 2
        distance = np.abs(self.facts[positions, 3] - middle)
        positions = positions[np.argsort(distance, kind="stable")]
        subjects, first = np.unique(self.facts[positions, 0], return_index=True)
        frequent = np.argsort(-self.graph.entity_index.counts[subjects], kind="stable")[:count]
        return positions[first[frequent]]

    def describe(self, positions: Positions) -> list[SplitFact]:
        """Facts in names, with their splits."""
        return [
            SplitFact(**self.graph.describe(self.facts[index]), split=SPLITS[self.split[index]])
            for index in positions.tolist()
        ]

    def step_counts(self, positions: Positions, period: range | None = None) -> list[StepCount]:
        """The number of facts at each step of a period, by default of all, that has any."""
        if self.graph.has_intervals:
            period = period or range(len(self.graph.times))
            start, end = self.facts[positions, 3].clip(min=period[0]), self.end[positions]
            change = np.bincount(start - period[0], minlength=len(period) + 1)
            change -= np.bincount(
                end.clip(max=period[-1]) + 1 - period[0], minlength=len(period) + 1
            )
            counts = np.cumsum(change)[: len(period)]
            steps = np.flatnonzero(counts)
            steps, counts = steps + period[0], counts[steps]
        else:
            steps, counts = np.unique(self.facts[positions, 3], return_counts=True)
        return [
            StepCount(time=self.graph.times[step], facts=count)
            for step, count in zip(steps.tolist(), counts.tolist(), strict=True)
        ]

    def neighbors(self, entity: int, first: int, last: int) -> list[tuple[int, int]]:
        """(neighbor, shared facts) of an entity in a period, most shared facts first."""
        own = self.facts[self.of_entity(entity, first, last)]
        others = np.where(own[:, 0] == entity, own[:, 2], own[:, 0])
        return Counter(others[others != entity].tolist()).most_common()

    def among(self, entities: Sequence[int], first: int, last: int) -> Positions:
        """The facts of a period among some entities; those of the first entity come first."""
        begin = 0 if self.graph.has_intervals else first
        here = np.arange(self._step_start[begin], self._step_start[last + 1])
        here = here[self.end[here] >= first]
        chosen = np.zeros(len(self.graph.entities), dtype=bool)
        chosen[list(entities)] = True
        here = here[chosen[self.facts[here, 0]] & chosen[self.facts[here, 2]]]
        of_first = (self.facts[here, 0] == entities[0]) | (self.facts[here, 2] == entities[0])
        ordered: Positions = here[np.argsort(~of_first, kind="stable")]
        return ordered

    def edges(self, positions: Positions, limit: int) -> tuple[list[RelationEdge], int]:
        """Facts that differ only in their times as one edge, most facts first; and their number."""
        triples, index, counts = np.unique(
            self.facts[positions, :3], axis=0, return_inverse=True, return_counts=True
        )
        first = np.full(len(triples), len(self.graph.times))
        last = np.zeros(len(triples), np.int64)
        time = self.facts[positions, 3]
        np.minimum.at(first, index.reshape(-1), time)
        np.maximum.at(last, index.reshape(-1), self.end[positions])
        entities, relations, times = self.graph.entities, self.graph.relations, self.graph.times
        edges = [
            RelationEdge(
                subject=entities[triples[edge, 0]],
                relation=relations[triples[edge, 1]],
                object=entities[triples[edge, 2]],
                facts=int(counts[edge]),
                first=times[first[edge]],
                last=times[last[edge]],
            )
            for edge in np.argsort(-counts, kind="stable")[:limit].tolist()
        ]
        return edges, len(triples)
