"""A trained model over the facts of its run, or over others: what if a fact were added?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograph.data.additions import Additions
from tempograph.data.arrow_tables import plain_time
from tempograph.data.closed_facts import ClosedFacts, close_facts
from tempograph.data.fact_ids import FactBatch
from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import Facts, Name, TemporalGraph, When, distinct_rows, rows_in
from tempograph.data.importers.later_steps import MAX_NEW_STEPS, later_labels
from tempograph.data.importers.option_words import PYTHON
from tempograph.data.row_errors import RowError
from tempograph.data.span_lookup import SpanLookup
from tempograph.data.span_text import span_labels
from tempograph.data.spans import as_intervals, last_given_step, until_last_step
from tempograph.data.time_lookup import UNCLEAR_TIME, TimeLookup
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import QueryError
from tempograph.evaluation.probabilities import Calibrator
from tempograph.training.answering import measured_answering, model_over
from tempograph.training.occurrence_proposals import OccurrenceProposals
from tempograph.training.question_models import Answering
from tempograph.training.run_heads import Heads
from tempograph.training.runs import Run
from tempograph.training.updates import Updates
from tempograph.typing import SPLITS, Asked, Progress, Split

Fact = tuple[int, int, int, int]
"""Ids of subject, relation, object and time; -1 stands for the missing part of a query."""


class KnownFact(NamedTuple):
    """The split of a known fact that holds for a while, and the labels of its start and end."""

    split: Split
    start: str
    end: str


class Scenario:
    """A run's model over known facts, by default those that its answers rest on; immutable."""

    def __init__(
        self,
        run: Run,
        cache_bytes: int,
        base: Answering | None = None,
        graph: TemporalGraph | None = None,
        history_end: int | None = None,
    ) -> None:
        """`base` is what the run answers with; the train facts of a graph replace its facts.

        `history_end` is the last step of the data, if the graph has further ones.
        """
        self.run, self.cache_bytes, self.base = run, cache_bytes, base or run.answering()
        self.graph, self.timeline, self.model = self.base
        if graph is None:
            # A model that cannot take other facts still answers questions about its own.
            with suppress(QueryError):
                self.model = self.model.with_timeline(self.timeline, cache_bytes)
        else:
            same_names = graph.sizes[:2] == self.graph.sizes[:2]
            self.graph = graph
            self.timeline = Timeline(graph, run.config.protocol, run.model.device, history_end)
            model = self.model if same_names else model_over(run, self.timeline)
            self.model = model.with_timeline(self.timeline, cache_bytes)
        self.known = KnownAnswers.from_graph(self.graph, "time", self.model.device)
        self._heads: Heads | None = None
        self._later: Scenario | None = None

    @staticmethod
    def as_measured(run: Run, cache_bytes: int) -> Scenario:
        """The model as it was measured, over train facts and those that updates added.

        A forecaster knows all facts, and looks at those before each question.
        """
        return Scenario(run, cache_bytes, measured_answering(run))

    def heads(self, progress: Progress | None = None) -> Heads:
        """What ranks relations and times, over the known facts."""
        if self._heads is None:
            self._heads = self.run.questions.heads(progress).with_timeline(self.timeline)
        return self._heads

    @cached_property
    def occurrences(self) -> OccurrenceProposals:
        """What proposes facts that may happen."""
        return OccurrenceProposals(self.model, self.timeline, self.calibrator("entity"))

    def calibrator(self, asked: Asked) -> Calibrator:
        """What turns the scores of a kind of question into probabilities."""
        return self.run.questions.calibrator(asked)

    @property
    def known_facts(self) -> Tensor:
        """The facts of all splits, [n, 4]."""
        return torch.from_numpy(self.graph.all_facts).to(self.model.device)

    def known_splits(self, fact: Fact, part: int, last: int | None = None) -> dict[int, Split]:
        """The known answers for the missing part of a fact, with the split of the run's data.

        With `last`, those known at some step from the time of the fact to this one.
        """
        if last is not None:
            if self.graph.has_intervals:
                found = self.known_facts_for(fact, part, last).items()
                return {answer: known.split for answer, known in found}
            steps = range(last, fact[3] - 1, -1)
            every = (self.known_splits((*fact[:3], step), part) for step in steps)
            return {answer: split for known in every for answer, split in known.items()}
        known = self.graph.known_answers(fact, part)
        if self.graph is self.run.graph:
            return known
        original = self.run.graph.known_answers(fact, part)
        return {answer: original.get(answer, split) for answer, split in known.items()}

    def known_facts_for(
        self, fact: Fact, part: int, last: int | None = None
    ) -> dict[int, KnownFact]:
        """The known answers for the missing part of a fact, with when they hold.

        With `last`, those that hold at some step from the time of the fact to this one. Empty if
        facts are events.
        """
        if not self.graph.has_intervals:
            return {}
        lookup = self.graph.span_lookup
        rows = lookup.known_answers(fact, part, last)
        facts = lookup.facts[list(rows.values())]
        own = (SPLITS[number] for number in lookup.split[list(rows.values())])
        original = self._splits_of_run(facts)
        times = self.graph.times
        return {
            answer: KnownFact(before or split, *span_labels(row[3], row[4], row[5], times))
            for answer, row, before, split in zip(rows, facts, original, own, strict=True)
        }

    def find_splits(self, rows: Facts) -> list[Split | None]:
        """The split of the run's data that holds each known fact [n, 4 or 6], else None.

        Facts that were added are train facts.
        """
        pairs = zip(self.graph.find_splits(rows), self._splits_of_run(rows), strict=True)
        return [known and (original or known) for known, original in pairs]

    def _splits_of_run(self, rows: Facts) -> list[Split | None]:
        """The split of the run's data that holds each fact; there, open ends may be earlier."""
        data = self.run.graph
        return data.find_splits(until_last_step(rows, len(data.times)))

    def refuse_known(self, batch: FactBatch) -> FactBatch:
        """The batch with an error for each fact that the model uses already."""
        present = self._in_train(batch)
        reason = "is already among the facts that the model uses; remove it first"
        return batch.reject(present, "a fact that the model uses already", reason)

    def refuse_unknown(self, batch: FactBatch) -> FactBatch:
        """The batch with an error for each fact that the model does not use."""
        absent = ~self._in_train(batch)
        reason = "is not among the facts that the model uses"
        return batch.reject(absent, "a fact that the model does not use", reason)

    def _in_train(self, batch: FactBatch) -> NDArray[np.bool_]:
        """Which valid facts of a batch are train facts, or hold at the step of one, [valid]."""
        rows = batch.ids[batch.valid]
        train = until_last_step(self.graph.train, len(batch.graph.times))
        if rows.shape[1] == train.shape[1]:
            return rows_in(rows, train)
        return SpanLookup(train, np.zeros(len(train), np.int64)).find(rows) >= 0

    def add(self, batch: FactBatch) -> Scenario:
        """The scenario with the valid facts of a batch among its train facts.

        One with an end replaces the same fact if its end was open or unknown.
        """
        added = self._close(self.graph.train, [batch.ids[batch.valid]])
        return self._with_train(added.facts, batch.graph)

    def find_closing(self, batch: FactBatch) -> NDArray[np.bool_]:
        """Which facts of a batch would replace one that the model uses, [n]."""
        closing = np.zeros(len(batch.ids), np.bool_)
        rows = distinct_rows(self._as_facts(batch.ids[batch.valid]))
        new = rows[close_facts(self.graph.train, rows).closing]
        closing[batch.valid] = rows_in(self._as_facts(batch.ids[batch.valid]), new)
        return closing

    def remove(self, batch: FactBatch) -> Scenario:
        """The scenario without the valid facts of a batch."""
        return self.change([], [batch.ids[batch.valid]])

    def change(self, added: Sequence[Facts], removed: Sequence[Facts]) -> Scenario:
        """The scenario with some train facts [n, 4 or 6] more, and without others.

        Facts are removed first. To remove an event [n, 4] removes the facts that hold at its step.
        """
        train = self.graph.train
        kept = np.ones(len(train), np.bool_)
        for facts in removed:
            if facts.shape[1] == train.shape[1]:
                kept &= ~rows_in(train, facts)
            else:
                kept &= ~SpanLookup(train, np.zeros(len(train), np.int64)).holding(facts)
        train = self._close(train[kept], added).facts
        if not len(train):
            raise QueryError("the model needs at least one fact; remove fewer")
        return self._with_train(train, self.graph)

    def _close(self, train: Facts, added: Sequence[Facts]) -> ClosedFacts:
        """Some facts with others added to them."""
        new = np.concatenate([train[:0], *(self._as_facts(facts) for facts in added)])
        return close_facts(train, distinct_rows(new))

    def _as_facts(self, rows: Facts) -> Facts:
        """Facts as rows of the graph; an event holds for one step."""
        return as_intervals(rows) if self.graph.has_intervals else rows

    def _with_train(self, train: Facts, names: TemporalGraph) -> Scenario:
        """Use other train facts; the original ones restore the original model bit for bit.

        `names` has the names and time steps of all facts. Names that were added stay.
        """
        original = self.base.graph
        steps = max(len(original.times), 1 + last_given_step(train))
        train = until_last_step(train, steps)
        if rows_in(train, original.train).all() and rows_in(original.train, train).all():
            return Scenario(self.run, self.cache_bytes, self.base)
        added = Additions.between(original, names, train[:0])
        later = names.times[len(original.times) : steps]
        changed = replace(replace(added, times=later).onto(original), train=train)
        return Scenario(self.run, self.cache_bytes, self.base, changed)

    def updates(self) -> Updates | None:
        """The updates of the run and, as one more, the facts that were added here."""
        before, base = self.run.updates, self.base.graph
        train = self.graph.train
        known = until_last_step(base.train, len(self.graph.times))
        new = train[~rows_in(train, known)]
        added = Additions.between(base, self.graph, new)
        if not rows_in(added.onto(base).train, train).all():
            raise QueryError(
                "facts of the run were removed, and a saved run keeps its facts; add them again"
            )
        if not len(new):
            return before
        if before is None:
            return Updates(1, added)
        return replace(before, number=before.number + 1, additions=before.additions.then(added))

    def reaching(self, times: tuple[str, ...]) -> Scenario:
        """The scenario with the further steps of a longer grid; nothing is known of them.

        It may have more steps than that, so that it is not built again for each farther time.
        """
        if len(times) <= len(self.graph.times):
            return self
        if self._later is None or len(self._later.graph.times) < len(times):
            needed = times[len(self.graph.times) :]
            spare = later_labels(
                self.graph, min(MAX_NEW_STEPS, 2 ** (len(needed) - 1).bit_length())
            )
            later = self.graph.with_later_times(needed + spare[len(needed) :])
            history_end = len(self.graph.times) - 1
            self._later = Scenario(self.run, self.cache_bytes, self.base, later, history_end)
        return self._later

    def at(self, time: When) -> tuple[Scenario, int]:
        """The scenario for a question about a time, and the id of its step.

        A time after the last step is one of a scenario with further steps.
        """
        if isinstance(time, int | np.integer) or (
            isinstance(time, str) and self.graph.has_time(time)
        ):
            return self, self.graph.time_id(time)
        found, times = self._look_up(time, extend=True)
        return self.reaching(times), found

    def _look_up(self, time: When, extend: bool) -> tuple[int, tuple[str, ...]]:
        """The step of a time written in any way that the import reads, and the time grid."""
        lookup = TimeLookup(self.graph, self.run.import_options, extend, words=PYTHON)
        [found] = lookup([plain_time(time) or "NaT"])
        if not isinstance(found, RowError):
            return found, lookup.graph.times
        if found.kind == UNCLEAR_TIME:
            # A question has no option for the order.
            raise QueryError(
                f"the time '{time}' may have the day or the month first; write it as YYYY-MM-DD"
            )
        raise QueryError(found.text)

    def locate(
        self, subject: Name | None, relation: Name | None, object_: Name | None, time: When | None
    ) -> tuple[Scenario, Fact]:
        """The ids of a fact of which one part may be missing, and the scenario for its time."""
        scenario, step = (self, None) if time is None else self.at(time)
        return scenario, scenario.fact_ids(subject, relation, object_, step)

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
        start = 0 if first is None else self._known_step(first)
        stop = len(self.graph.times) if last is None else self._known_step(last) + 1
        if start >= stop:
            raise QueryError(
                f"the period from {first} to {last} holds no time step; first must not be after "
                "last"
            )
        return range(start, stop)

    def _known_step(self, time: When) -> int:
        """The id of the step of a time inside the data."""
        if isinstance(time, int | np.integer):
            return self.graph.time_id(time)
        return self._look_up(time, extend=False)[0]

    def check_period(self, fact: Fact, last: int) -> None:
        """Raise QueryError unless a fact asks for an entity from its time to a later one."""
        times = self.graph.times
        if fact[3] > last:
            raise QueryError(
                f"the period from {times[fact[3]]} to {times[last]} holds no time step; its end "
                "must not be before its start"
            )
        if fact[1] < 0:
            raise QueryError("over a period, ask for a subject or an object, not for a relation")

    def query_ids(self, fact: Fact) -> tuple[int, int, int]:
        """Entity, relation and time of the query for a missing subject or object.

        The query for a subject has the inverse of the relation.
        """
        subject, relation, object_, time = fact
        if subject < 0:
            return object_, relation + len(self.graph.relations), time
        return subject, relation, time

    def queries(self, facts: Sequence[Fact]) -> Queries:
        """The queries for the missing subjects or objects of facts."""
        ids = [self.query_ids(fact) for fact in facts]
        return Queries(*torch.tensor(ids, device=self.model.device).view(-1, 3).unbind(1))

    def query(self, fact: Fact) -> Queries:
        """The query for the missing subject or object of a fact."""
        return self.queries([fact])

    def question(self, fact: Fact) -> Tensor:
        """The question for the missing relation or time of a fact, as heads take it, [1, 4]."""
        return torch.tensor([[max(0, part) for part in fact]], device=self.model.device)
