"""The facts of a run by entity and time, with the split each is in."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempograph.data.graph import TemporalGraph
from tempograph.typing import SPLITS

Positions = NDArray[np.intp]


class FactBook:
    """All facts ordered by time, and for each entity where it is named."""

    def __init__(self, graph: TemporalGraph) -> None:
        self.graph = graph
        split = np.repeat(np.arange(len(SPLITS)), [len(graph.facts(name)) for name in SPLITS])
        order = np.argsort(graph.all_facts[:, 3], kind="stable")
        self.facts = graph.all_facts[order]
        self.split = split[order]
        subject, relation, object_, time = self.facts.T
        self._step_start = np.searchsorted(time, np.arange(len(graph.times) + 1))
        place = np.arange(len(time))
        named = np.concatenate([subject, object_[object_ != subject]])
        key = named * len(graph.times) + np.concatenate([time, time[object_ != subject]])
        by_key = np.argsort(key, kind="stable")
        self._key = key[by_key]
        self._place = np.concatenate([place, place[object_ != subject]])[by_key]
        self.entity_counts = np.bincount(named, minlength=len(graph.entities))
        self.relation_counts = np.bincount(relation, minlength=len(graph.relations))

    def of_entity(self, entity: int, first: int, last: int) -> Positions:
        """The facts that name an entity from one step to another, both included, in order of time."""
        start = entity * len(self.graph.times)
        begin, end = np.searchsorted(self._key, [start + first, start + last + 1])
        return np.sort(self._place[begin:end])

    def at(self, time: int) -> Positions:
        """The facts of a step."""
        return np.arange(self._step_start[time], self._step_start[time + 1])

    def examples(self, most: int) -> Positions:
        """Facts of the busiest subjects, one of each: held out if any are, as near the middle of the time as can be.

        So the model did not learn them by heart, and there are facts before and after.
        """
        held_out = np.flatnonzero(self.split > 0)
        places = held_out if len(held_out) else np.arange(len(self.facts))
        middle = (len(self.graph.times) - 1) / 2
        places = places[np.argsort(np.abs(self.facts[places, 3] - middle), kind="stable")]
        subjects, first = np.unique(self.facts[places, 0], return_index=True)
        busiest = np.argsort(-self.entity_counts[subjects], kind="stable")[:most]
        return places[first[busiest]]

    def describe(self, positions: Positions) -> list[dict[str, Any]]:
        """Facts in names, with their splits."""
        return [
            self.graph.describe(self.facts[place]) | {"split": SPLITS[self.split[place]]}
            for place in positions.tolist()
        ]

    def counts(self, positions: Positions) -> list[dict[str, Any]]:
        """How many of some facts there are at each step that has any."""
        steps, counts = np.unique(self.facts[positions, 3], return_counts=True)
        return [
            {"time": self.graph.times[step], "facts": count}
            for step, count in zip(steps.tolist(), counts.tolist(), strict=True)
        ]

    def snapshot(self, entity: int, time: int, most_nodes: int, most_edges: int) -> dict[str, Any]:
        """An entity at a step: those it has facts with, the busiest first, and the facts among all of these."""
        own = self.facts[self.of_entity(entity, time, time)]
        others = np.where(own[:, 0] == entity, own[:, 2], own[:, 0])
        busiest = Counter(others[others != entity].tolist()).most_common()
        kept = [entity, *(other for other, _ in busiest[: most_nodes - 1])]
        here = self.at(time)
        among = here[np.isin(self.facts[here, 0], kept) & np.isin(self.facts[here, 2], kept)]
        # Facts of the entity itself come first, so that a limit takes from the others.
        touches = (self.facts[among][:, [0, 2]] == entity).any(axis=1)
        among = among[np.argsort(~touches, kind="stable")]
        shown = dict(busiest) | {entity: len(own)}
        return {
            "nodes": [{"name": self.graph.entities[node], "facts": shown[node]} for node in kept],
            "edges": self.describe(among[:most_edges]),
            "neighbours": len(busiest),
            "facts": len(among),
        }
