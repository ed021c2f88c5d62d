"""Browse the facts of a run by name: search, timelines, snapshots, examples."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tempograph.data.graph import TemporalGraph
from tempograph.data.name_index import NameIndex
from tempograph.errors import QueryError
from tempograph.prediction.scenario import Fact
from tempograph.server.fact_lookup import FactLookup
from tempograph.server.problems import Place, Problem, invalid, unknown
from tempograph.server.schema.lookups import (
    ExamplesResponse,
    NameCount,
    NamesResponse,
    NeighborhoodResponse,
    Period,
    SnapshotResponse,
    TimelineResponse,
)
from tempograph.server.schema.members import NameOrId, Parts

_MAX_LABELS: Final = 20_000
_TIME_PARTS: Final = ("time", "first", "last", "until", "from", "to")
_RELATION_PARTS: Final = ("relation", "relations")


@dataclass(eq=False)
class UnknownName(Exception):  # noqa: N818
    """A name or id that does not exist, in a part of the request or of one of its facts."""

    part: str
    name: NameOrId
    place: Place | None = None


class GraphBrowser:
    """The names and facts of the run called `run`; `window` is that of its model."""

    def __init__(self, run: str, graph: TemporalGraph, window: tuple[int, int] | None) -> None:
        self.run = run
        self.graph = graph
        self.window = window
        self.facts = FactLookup(graph)
        self.entities = graph.entity_index
        self.relations = graph.relation_index

    def fact_ids(self, parts: Parts, place: Place | None = None) -> Fact:
        """The ids of a fact, -1 for a missing part; `place` is where it stands in the request.

        An unknown name is an `UnknownName`, because suggestions take long.
        """
        subject, relation, object_, time = parts
        return (
            -1 if subject is None else _find(self.entities, subject, "subject", place),
            -1 if relation is None else _find(self.relations, relation, "relation", place),
            -1 if object_ is None else _find(self.entities, object_, "object", place),
            -1 if time is None else self.time_id(time, place=place),
        )

    def suggest(self, error: UnknownName) -> Problem:
        """The problem of an unknown name, with similar names."""
        similar: Sequence[str] = ()
        if isinstance(error.name, str):
            if error.part in _TIME_PARTS:
                times = self.graph.times
                after = bisect(times, error.name)
                similar = times[max(0, after - 1) : after + 1]
            else:
                index = self.relations if error.part in _RELATION_PARTS else self.entities
                similar = index.closest(error.name)
        return unknown(error.part, str(error.name), similar, error.place)

    def entity_id(self, name: NameOrId) -> int:
        """The id of an entity."""
        return _find(self.entities, name, "entity")

    def relation_id(self, name: NameOrId, place: Place) -> int:
        """The id of a relation of a list."""
        return _find(self.relations, name, "relations", place)

    def time_id(self, label: NameOrId, part: str = "time", place: Place | None = None) -> int:
        """The id of a time step; `part` is the member of the request."""
        try:
            return self.graph.time_id(label)
        except QueryError:
            raise UnknownName(part, label, place) from None

    def has_time(self, label: NameOrId) -> bool:
        """Whether a time is one of the steps of the data."""
        try:
            self.graph.time_id(label)
        except QueryError:
            return False
        return True

    def search(self, names: NameIndex, text: str, limit: int) -> NamesResponse:
        """The names that contain a text, best match first."""
        found = [NameCount(**match._asdict()) for match in names.search(text, limit)]
        return NamesResponse(run=self.run, names=found)

    def examples(self, count: int) -> ExamplesResponse:
        """Facts that make good queries."""
        return ExamplesResponse(run=self.run, facts=self.facts.describe(self.facts.examples(count)))

    def period(
        self, first: str | None, last: str | None, time: str | None, reach: int | None
    ) -> range:
        """The steps from `first` to `last`, or `reach` steps on both sides of a time."""
        end = len(self.graph.times) - 1
        if reach is not None:
            if time is None or first is not None or last is not None:
                raise invalid("reach needs time, and excludes from and to")
            middle = self.time_id(time)
            return range(max(0, middle - reach), min(end, middle + reach) + 1)
        return self.span(first, last, ("from", "to"))

    def span(
        self,
        first: NameOrId | None,
        last: NameOrId | None,
        parts: tuple[str, str] = ("first", "last"),
    ) -> range:
        """The steps from `first` to `last`, by default all; `parts` are members of the request."""
        start = 0 if first is None else self.time_id(first, parts[0])
        stop = len(self.graph.times) - 1 if last is None else self.time_id(last, parts[1])
        if start > stop:
            raise invalid(f"the period from {first} to {last} runs backwards")
        return range(start, stop + 1)

    def timeline(
        self, entity: str, steps: range, time: str | None, limit: int, offset: int
    ) -> TimelineResponse:
        """The facts of an entity in a period, and the window of the model around a time."""
        entity_id, labels = self.entity_id(entity), self.graph.times[steps.start : steps.stop]
        positions = self.facts.of_entity(entity_id, steps[0], steps[-1])
        return TimelineResponse(
            run=self.run,
            entity=self.graph.entities[entity_id],
            from_=labels[0],
            to=labels[-1],
            total=len(positions),
            counts=self.facts.step_counts(positions, steps),
            facts=self.facts.describe(positions[offset : offset + limit]),
            times=shown_labels(labels),
            window=None if time is None else self._window_around(self.time_id(time)),
        )

    def snapshot(self, entity: str, time: str, max_nodes: int, max_edges: int) -> SnapshotResponse:
        """An entity at one step, its neighbors and the facts among them."""
        entity_id, step = self.entity_id(entity), self.time_id(time)
        neighbors = self.facts.neighbors(entity_id, step, step)
        own_facts = len(self.facts.of_entity(entity_id, step, step))
        nodes = [(entity_id, own_facts), *neighbors[: max_nodes - 1]]
        edges = self.facts.among([node for node, _ in nodes], step, step)
        names = self.graph.entities
        return SnapshotResponse(
            run=self.run,
            entity=names[entity_id],
            time=self.graph.times[step],
            nodes=[NameCount(name=names[node], facts=count) for node, count in nodes],
            edges=self.facts.describe(edges[:max_edges]),
            neighbors=len(neighbors),
            facts=len(edges),
        )

    def neighborhood(
        self, entities: Sequence[str], steps: range, max_neighbors: int, max_edges: int
    ) -> NeighborhoodResponse:
        """Entities in a period, up to `max_neighbors` neighbors of each, and the edges of all."""
        centers = list(dict.fromkeys(map(self.entity_id, entities)))
        period = steps[0], steps[-1]
        names, nodes = self.graph.entities, dict.fromkeys(centers)
        counts: list[NameCount] = []
        for center in centers:
            neighbors = self.facts.neighbors(center, *period)
            counts.append(NameCount(name=names[center], facts=len(neighbors)))
            nodes |= dict.fromkeys(node for node, _ in neighbors[:max_neighbors])
        positions = self.facts.among(list(nodes), *period)
        edges, total_edges = self.facts.edges(positions, max_edges)
        return NeighborhoodResponse(
            run=self.run,
            from_=self.graph.times[period[0]],
            to=self.graph.times[period[1]],
            nodes=[
                NameCount(name=names[node], facts=len(self.facts.of_entity(node, *period)))
                for node in nodes
            ],
            neighbors=counts,
            edges=edges,
            total_edges=total_edges,
        )

    def _window_around(self, step: int) -> Period | None:
        if self.window is None:
            return None
        past, future = self.window
        times = self.graph.times
        last = min(len(times) - 1, step + future)
        return Period(from_=times[max(0, step - past)], to=times[last])


def shown_labels(labels: Sequence[str]) -> list[str] | None:
    """The labels, unless there are too many for one response."""
    return list(labels) if len(labels) <= _MAX_LABELS else None


def _find(names: NameIndex, name: NameOrId, part: str, place: Place | None = None) -> int:
    if isinstance(name, int):
        number = name if name < len(names.names) else None
    else:
        number = names.find(name)
    if number is None:
        raise UnknownName(part, name, place)
    return number
