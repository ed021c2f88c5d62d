"""What updates add to the data of a trained run: names, time steps and train facts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempograph.data.closed_facts import close_facts, find_closers
from tempograph.data.folder import NAME_FILES, format_facts, read_fact_file, read_names, write_names
from tempograph.data.graph import Facts, TemporalGraph, rows_in
from tempograph.data.spans import as_intervals, as_one_kind, simplify, until_last_step

ADDED_FACTS: Final = "facts.tsv.gz"
"""The file of added facts, beside the files of added names and steps."""


class AdditionSizes(NamedTuple):
    """How many names, steps and facts were added."""

    entities: int = 0
    relations: int = 0
    times: int = 0
    facts: int = 0


@dataclass(frozen=True, eq=False)
class Additions:
    """Names and steps that come after those of a graph, and facts that join its train facts.

    Later additions are appended, so the first of them are those of any earlier moment.
    """

    entities: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    facts: Facts = field(default_factory=lambda: np.empty((0, 4), np.int64))

    @property
    def sizes(self) -> AdditionSizes:
        """How much was added."""
        return AdditionSizes(*map(len, (self.entities, self.relations, self.times, self.facts)))

    def first(self, sizes: AdditionSizes) -> Additions:
        """The additions of an earlier moment, at which there were this many."""
        entities, relations, times, facts = sizes
        return Additions(
            self.entities[:entities],
            self.relations[:relations],
            self.times[:times],
            self.facts[:facts],
        )

    def then(self, other: Additions) -> Additions:
        """These additions, and others after them."""
        return Additions(
            (*self.entities, *other.entities),
            (*self.relations, *other.relations),
            (*self.times, *other.times),
            np.concatenate(as_one_kind([self.facts, other.facts])),
        )

    def onto(self, graph: TemporalGraph) -> TemporalGraph:
        """The graph with the additions; new entities have no attributes.

        Facts with an open end, old and new, hold to the last of its steps, unless a later fact
        gives them their end. Which words of names count is still decided by the names that the
        graph has.
        """
        unknown = ("",) * len(self.entities)
        vocabulary = graph.vocabulary_names
        graph = graph.with_later_times(self.times)
        return dataclasses.replace(
            graph,
            entities=(*graph.entities, *self.entities),
            relations=(*graph.relations, *self.relations),
            train=close_facts(graph.train, _like(graph, self.facts)).facts,
            attributes={name: (*each, *unknown) for name, each in graph.attributes.items()},
            vocabulary_names=len(graph.entities) if vocabulary is None else vocabulary,
        )

    def beside_held_out(self, graph: TemporalGraph, close: bool) -> TemporalGraph:
        """The graph with the additions, where facts that are held out stay so.

        With `close`, held-out facts get the ends that were added to them.
        """
        graph = graph.with_later_times(self.times)
        added = _like(graph, self.facts)
        new = ~rows_in(added, np.concatenate([graph.valid, graph.test]))
        valid, test = graph.valid, graph.test
        if close and graph.has_intervals:
            valid, test = _with_ends(valid, added, new), _with_ends(test, added, new)
        others = dataclasses.replace(self, times=(), facts=added[new])
        return others.onto(dataclasses.replace(graph, valid=valid, test=test))

    def same_facts(self, other: Additions) -> bool:
        """Whether the facts are equal, however long the time axis is to which open ends hold."""
        ours, theirs = (until_last_step(as_intervals(each.facts), 0) for each in (self, other))
        return np.array_equal(ours, theirs)

    @staticmethod
    def between(graph: TemporalGraph, grown: TemporalGraph, facts: Facts) -> Additions:
        """The names and steps by which a graph was grown, and some facts [n, 4 or 6]."""
        return Additions(
            grown.entities[len(graph.entities) :],
            grown.relations[len(graph.relations) :],
            grown.times[len(graph.times) :],
            facts,
        )

    def write(self, folder: Path) -> None:
        """Write the names, steps and facts into an existing folder."""
        for file, names in zip(
            NAME_FILES, (self.entities, self.relations, self.times), strict=True
        ):
            write_names(folder / file, names)
        (folder / ADDED_FACTS).write_bytes(format_facts(self.facts, compress=True))

    @staticmethod
    def read(folder: Path, graph: TemporalGraph) -> Additions:
        """What `write` wrote for additions to this graph."""
        entities, relations, times = (
            read_names(folder / file, may_be_empty=True) for file in NAME_FILES
        )
        grown = Additions(entities, relations, times).onto(graph)
        facts = read_fact_file(folder / ADDED_FACTS, grown.sizes)
        return Additions(entities, relations, times, facts)


def _like(graph: TemporalGraph, facts: Facts) -> Facts:
    """Facts as those of the graph: events among facts that hold for a while hold at one step."""
    if not graph.has_intervals:
        return simplify(facts)
    return until_last_step(as_intervals(facts), len(graph.times))


def _with_ends(facts: Facts, added: Facts, new: NDArray[np.bool_]) -> Facts:
    """Facts with the ends that others give them; these are not `new` any more."""
    closer = find_closers(facts, added)[: len(facts)]
    closed = closer >= 0
    new[closer[closed]] = False
    facts = facts.copy()
    facts[closed] = added[closer[closed]]
    return facts
