"""A trained model over the facts of its run, or over others: what if a fact were added?"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import torch

from tempograph.data.fact_ids import FactsLike, encode_columns, to_fact_ids, to_ids
from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import Facts, Name, TemporalGraph, When, rows_in
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.time_grid import extend_times
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import QueryError
from tempograph.training.runs import Run

Fact = tuple[int, int, int, int]
"""Ids of subject, relation, object and time; -1 stands for the missing part of a query."""


class Scenario:
    """A run's model over the train facts of a graph, by default the run's own; immutable."""

    def __init__(self, run: Run, cache_bytes: int, graph: TemporalGraph | None = None) -> None:
        self.run, self.cache_bytes = run, cache_bytes
        self.graph, self.timeline, self.model = run.graph, run.timeline, run.model
        if graph is None:
            # A model that cannot take other facts still answers questions about its own.
            with suppress(QueryError):
                self.model = run.model.with_timeline(self.timeline, cache_bytes)
        else:
            self.graph = graph
            self.timeline = Timeline(graph, run.config.protocol, run.model.device)
            self.model = run.model.with_timeline(self.timeline, cache_bytes)
        self.known = KnownAnswers.from_graph(self.graph, "time", self.model.device)

    @property
    def temperature(self) -> float | None:
        """Softmax temperature, fitted on valid at the first use; None without probabilities."""
        return self.run.fit_temperature()

    def add(self, facts: FactsLike, options: ImportOptions | None = None) -> Scenario:
        """The scenario with further train facts, at known time steps or later ones."""
        columns = encode_columns(facts, options)
        graph = extend_times(self.graph, columns[3].values)
        rows = to_ids(graph, columns)
        present = rows_in(rows, graph.train)
        if present.any():
            raise QueryError(
                f"{_describe(graph, rows[present][0])} is already among the facts that the model "
                "uses; remove it first"
            )
        return self._with_train(np.concatenate([graph.train, np.unique(rows, axis=0)]), graph.times)

    def remove(self, facts: FactsLike, options: ImportOptions | None = None) -> Scenario:
        """The scenario without some of its train facts."""
        rows, train = to_fact_ids(self.graph, facts, options), self.graph.train
        absent = ~rows_in(rows, train)
        if absent.any():
            raise QueryError(
                f"{_describe(self.graph, rows[absent][0])} is not among the facts that the model "
                "uses"
            )
        return self._with_train(train[~rows_in(train, rows)], self.graph.times)

    def _with_train(self, train: Facts, times: tuple[str, ...]) -> Scenario:
        """Use other train facts; the original ones restore the original model bit for bit."""
        original = self.run.graph
        if rows_in(train, original.train).all() and rows_in(original.train, train).all():
            return Scenario(self.run, self.cache_bytes)
        steps = max(len(original.times), 1 + int(train[:, 3].max(initial=0)))
        changed = replace(original, train=train, times=times[:steps])
        return Scenario(self.run, self.cache_bytes, changed)

    def fact_ids(
        self, subject: Name | None, relation: Name | None, object_: Name | None, time: When | None
    ) -> Fact:
        """The ids of a fact of which one part may be missing."""
        graph = self.graph
        if [subject, relation, object_, time].count(None) > 1:
            raise QueryError("give three parts of a fact; more than one of them is None")
        return (
            -1 if subject is None else graph.entity_id(subject),
            -1 if relation is None else graph.relation_id(relation),
            -1 if object_ is None else graph.entity_id(object_),
            -1 if time is None else graph.time_id(time),
        )

    def period(self, first: When | None, last: When | None) -> range:
        """The ids of the time steps from first to last, by default all."""
        start = 0 if first is None else self.graph.time_id(first)
        stop = len(self.graph.times) if last is None else self.graph.time_id(last) + 1
        if start >= stop:
            raise QueryError(
                f"the period from {first} to {last} holds no time step; first must not be after "
                "last"
            )
        return range(start, stop)

    def query(self, fact: Fact) -> Queries:
        """The query for the missing subject or object of a fact; a subject inverts the relation."""
        subject, relation, object_, time = fact
        entity = subject
        if subject < 0:
            entity, relation = object_, relation + len(self.graph.relations)
        return Queries(*torch.tensor([[entity], [relation], [time]], device=self.model.device))


def _describe(graph: TemporalGraph, row: Facts) -> str:
    return f"({', '.join(graph.describe(row).values())})"
