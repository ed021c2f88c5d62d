"""A temporal knowledge graph: facts as arrays of ids, and the names behind the ids."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tempograph.data.attributes import Attributes
from tempograph.data.binned_times import find_bin
from tempograph.data.name_index import NameIndex
from tempograph.data.span_lookup import SpanLookup
from tempograph.data.span_text import span_labels
from tempograph.data.spans import (
    EVENT_COLUMNS,
    INTERVAL_COLUMNS,
    Bounds,
    Spans,
    spans_of,
    until_last_step,
)
from tempograph.data.stored_files import StoredFiles
from tempograph.data.suggestions import refuse_unknown, suggest
from tempograph.errors import DataError, QueryError
from tempograph.typing import SPLITS, Split

Name = str | int
"""An entity or a relation by its name or its id."""

When = str | int | date | np.datetime64
"""A time step by its label, its id, or a date or time in it, of datetime, NumPy or pandas."""

Facts = NDArray[np.int64]
"""Facts are rows of ids: (subject, relation, object, time) of events, shape [facts, 4], or
(subject, relation, object, start, end, bounds) of facts that hold for a while, [facts, 6]."""

COLUMNS: Final = ("subject", "relation", "object", "time")
INTERVAL_PARTS: Final = ("subject", "relation", "object", "start", "end")
"""The parts of a fact that holds for a while, as tables and files have them."""
SPAN_COLUMNS: Final = ("subject", "relation", "object", "start", "end", "bounds")

_ISO_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_SHORT_YEAR: Final = re.compile(r"-?\d{1,3}", re.ASCII)
"""A year without the zeros that its label has."""
_YEAR_LABEL: Final = re.compile(r"-?\d{4}")
_DATE_LABEL: Final = re.compile(r"-?\d{4}(-W\d\d|-\d\d(-\d\d(T\d\d)?)?)?")


@dataclass(frozen=True, eq=False, repr=False)
class TemporalGraph:
    """Facts (subject, relation, object, time) in three splits, with the names behind their ids.

    Either all facts are events, or all hold for a while (`has_intervals`). Time steps are equally
    spaced: the distance of two facts is the difference of their time ids.
    """

    name: str
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    times: tuple[str, ...]
    train: Facts
    valid: Facts
    test: Facts
    attributes: Attributes = field(default_factory=dict)
    """What is known of entities beside their names, such as a type or a country."""
    vocabulary_names: int | None = None
    """How many entities, the first ones, decide which words of names count; None for all."""
    files: StoredFiles | None = field(default=None, init=False)
    """The files that hold exactly this graph; None for one that was changed or not read."""

    def __post_init__(self) -> None:
        for column, values in self.attributes.items():
            if len(values) != len(self.entities):
                raise DataError(
                    f"{self.name}: attribute '{column}' must have a value for each of the "
                    f"{len(self.entities):,} entities, found {len(values):,}"
                )
        for split in SPLITS:
            facts = self.facts(split)
            width = self.train.shape[-1]
            if facts.ndim != 2 or facts.shape[1] != width or facts.dtype != np.int64:
                found = f"{facts.dtype} {facts.shape}"
                raise DataError(
                    f"{self.name}: {split} facts must be int64 [n, {width}], found {found}"
                )
            if width not in (EVENT_COLUMNS, INTERVAL_COLUMNS):
                raise DataError(
                    f"{self.name}: facts must have {EVENT_COLUMNS} columns, or "
                    f"{INTERVAL_COLUMNS} if they hold for a while; found {width}"
                )
            invalid = first_out_of_range(facts, self.sizes)
            if invalid is not None:
                row, column, value, size = invalid
                raise DataError(
                    f"{self.name}: {split} fact {row} has {column} {value}, outside 0 to {size - 1}"
                )
            start, end, _ = spans_of(facts)
            if (start > end).any():
                row = int(np.argmax(start > end))
                raise DataError(
                    f"{self.name}: {split} fact {row} starts at step {start[row]}, "
                    f"after its end at step {end[row]}"
                )
        if not len(self.train):
            raise DataError(f"{self.name}: the train split has no facts to learn from")

    def __repr__(self) -> str:
        return f"TemporalGraph({self.describe_size()})"

    def describe_size(self) -> str:
        """The name and what the graph holds, in a line."""
        counts = {
            "entities": len(self.entities),
            "relations": len(self.relations),
            "steps": len(self.times),
            "facts": sum(len(self.facts(split)) for split in SPLITS),
        }
        return f"{self.name}: {', '.join(f'{count:,} {what}' for what, count in counts.items())}"

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """The number of ids for each column of a fact."""
        return len(self.entities), len(self.relations), len(self.entities), len(self.times)

    @property
    def has_dates(self) -> bool:
        """Whether the labels of the time steps are dates."""
        return _is_date_label(self.times[0])

    @property
    def has_intervals(self) -> bool:
        """Whether facts hold from a start to an end; otherwise they are events."""
        return bool(self.train.shape[1] == INTERVAL_COLUMNS)

    def spans(self, split: Split) -> Spans:
        """When the facts of one split hold; events hold at one step."""
        return spans_of(self.facts(split))

    def facts(self, split: Split) -> Facts:
        """The facts of one split, [n, 4] of events or [n, 6] of intervals."""
        refuse_unknown("split", split, SPLITS)
        return {"train": self.train, "valid": self.valid, "test": self.test}[split]

    @cached_property
    def all_facts(self) -> Facts:
        """The facts of the three splits together, [n, 4 or 6]."""
        return np.concatenate([self.facts(split) for split in SPLITS])

    def with_later_times(self, times: tuple[str, ...]) -> TemporalGraph:
        """The graph with further time steps; facts with an open end hold at these as well."""
        longer = (*self.times, *times)
        train, valid, test = (until_last_step(self.facts(split), len(longer)) for split in SPLITS)
        return replace(self, times=longer, train=train, valid=valid, test=test)

    def same_as(self, other: TemporalGraph) -> bool:
        """Whether names and facts are equal, whatever the graphs are called."""
        return all(
            getattr(self, names) == getattr(other, names)
            for names in ("entities", "relations", "times", "attributes")
        ) and all(np.array_equal(self.facts(split), other.facts(split)) for split in SPLITS)

    @cached_property
    def entity_index(self) -> NameIndex:
        """The names of entities with the number of facts that each takes part in."""
        subject, object_ = self.all_facts[:, [0, 2]].T
        named = np.concatenate([subject, object_[object_ != subject]])
        return NameIndex(self.entities, np.bincount(named, minlength=len(self.entities)))

    @cached_property
    def relation_index(self) -> NameIndex:
        """The names of relations with the number of facts of each."""
        counts = np.bincount(self.all_facts[:, 1], minlength=len(self.relations))
        return NameIndex(self.relations, counts)

    def entity_id(self, name: Name) -> int:
        """The id of an entity given its name or id; case and accents may differ if unambiguous."""
        return _find("entity", name, self.entity_index)

    def relation_id(self, name: Name) -> int:
        """The id of a relation given its name or id; case and accents may differ likewise."""
        return _find("relation", name, self.relation_index)

    def time_id(self, label: When) -> int:
        """The id of a time step given its label, its id, or a date in it."""
        if isinstance(label, int | np.integer):
            return _check_id("time step", int(label), len(self.times))
        step = self.time_label(label)
        if step not in self._time_ids:
            text = label.isoformat() if isinstance(label, date) else str(label)
            span = f"{len(self.times)} steps, {self.times[0]} to {self.times[-1]}"
            raise QueryError(f"'{text}' is not on the time grid of {self.name} ({span})")
        return self._time_ids[step]

    def has_time(self, label: str) -> bool:
        """Whether a time step has this label."""
        return label in self._time_ids

    def time_label(self, when: str | date | np.datetime64) -> str:
        """The label that a step has or would have, given a label, a date or an ISO date."""
        if isinstance(when, np.datetime64):
            when = when.astype("M8[us]").item() or "NaT"
        if self._has_bins and when not in self._time_ids:
            return find_bin(self.times, when) or str(when)
        if isinstance(when, str) and when not in self._time_ids and self.has_dates:
            text = when.strip()
            if _SHORT_YEAR.fullmatch(text) and _YEAR_LABEL.fullmatch(self.times[0]):
                return "-" * text.startswith("-") + text.lstrip("-").zfill(4)
            with suppress(ValueError):
                when = datetime.fromisoformat(text) if _ISO_DATE.match(text) else when
        return step_label(when, self.times[0]) if isinstance(when, date) else when

    def describe(self, fact: Facts) -> dict[str, str]:
        """One fact with names instead of ids; [6] of a fact that holds for a while has its bounds.

        `time` is its first step then, `start` and `end` are as in files.
        """
        subject, relation, object_, time, *span = (int(value) for value in fact)
        names = {
            "subject": self.entities[subject],
            "relation": self.relations[relation],
            "object": self.entities[object_],
            "time": self.times[time],
        }
        if span:
            end, bounds = span
            names["start"], names["end"] = span_labels(time, end, bounds, self.times)
        return names

    def find_splits(self, rows: Facts) -> list[Split | None]:
        """The split that contains each fact [n, 4 or 6], the first if several do.

        If facts hold for a while, [n, 4] stand for facts that hold at a step.
        """
        if rows.shape[1] < self.train.shape[1]:
            row = self.span_lookup.find(rows)
            names = np.array([*SPLITS, None], dtype=object)
            return list(names[np.where(row < 0, len(SPLITS), self.span_lookup.split[row])])
        splits = np.full(len(rows), None, dtype=object)
        for split in reversed(SPLITS):
            facts = self.facts(split)
            same_times = facts[np.isin(facts[:, 3], rows[:, 3])]
            splits[rows_in(rows, same_times)] = split
        return list(splits)

    def known_answers(self, fact: tuple[int, int, int, int], column: int) -> dict[int, Split]:
        """The ids that make a known fact if put into one column of a fact, with its split.

        A fact that holds for a while is known at each of its steps.
        """
        if self.has_intervals:
            found = self.span_lookup.known_answers(fact, column)
            return {answer: SPLITS[self.span_lookup.split[row]] for answer, row in found.items()}
        facts, split, step_start = self._by_time
        if column != 3:
            # A step after the last one, which a scenario may have added, holds no facts.
            start, stop = step_start[np.minimum([fact[3], fact[3] + 1], len(self.times))]
            facts, split = facts[start:stop], split[start:stop]
        same = np.all([facts[:, c] == fact[c] for c in range(4) if c != column], axis=0)
        # The first split that holds a fact comes last, and so it is the one that stays.
        rows = np.flatnonzero(same)
        rows = rows[np.argsort(-split[rows], kind="stable")]
        return {
            int(answer): SPLITS[index]
            for answer, index in zip(facts[rows, column], split[rows], strict=True)
        }

    @cached_property
    def span_lookup(self) -> SpanLookup:
        """The facts of all splits, if they hold for a while, by the steps at which they do."""
        split = np.repeat(np.arange(len(SPLITS)), [len(self.facts(name)) for name in SPLITS])
        return SpanLookup(self.all_facts, split)

    @cached_property
    def in_train(self) -> NDArray[np.bool_]:
        """Whether each entity is in a train fact, [entities]."""
        found = np.zeros(len(self.entities), dtype=bool)
        found[self.train[:, [0, 2]]] = True
        return found

    @cached_property
    def _by_time(self) -> tuple[Facts, NDArray[np.int64], NDArray[np.int64]]:
        """All facts in the order of time, their splits, and where each step starts."""
        order = np.argsort(self.all_facts[:, 3], kind="stable")
        split = np.repeat(np.arange(len(SPLITS)), [len(self.facts(name)) for name in SPLITS])
        facts = self.all_facts[order]
        start = np.searchsorted(facts[:, 3], np.arange(len(self.times) + 1))
        return facts, split[order], start

    @cached_property
    def _has_bins(self) -> bool:
        return any("/" in label for label in self.times)

    @cached_property
    def _time_ids(self) -> dict[str, int]:
        return {label: step for step, label in enumerate(self.times)}


def first_out_of_range(
    facts: Facts, sizes: tuple[int, int, int, int]
) -> tuple[int, str, int, int] | None:
    """The first id outside its range as (row, column name, value, size), or None."""
    columns: tuple[str, ...] = COLUMNS
    limits = np.array(sizes)
    if facts.shape[1] == INTERVAL_COLUMNS:
        columns, limits = SPAN_COLUMNS, np.array([*sizes, sizes[3], 2 * max(Bounds)])
    # The extremes alone take no memory that grows with the facts.
    if all(
        column.min(initial=0) >= 0 and column.max(initial=0) < limit
        for column, limit in zip(facts.T, limits, strict=True)
    ):
        return None
    invalid = (facts < 0) | (facts >= limits)
    row, column = (int(index) for index in np.argwhere(invalid)[0])
    return row, columns[column], int(facts[row, column]), int(limits[column])


def step_label(day: date, like: str) -> str:
    """The label of the step that contains a date, on a grid with labels such as `like`."""
    if not _is_date_label(like):
        raise QueryError(
            f"the time {day.isoformat()} is a date, but the steps have labels such as '{like}'; "
            "give a label"
        )
    if isinstance(day, datetime) and day.tzinfo is not None:
        # Imports convert to UTC as well.
        day = day.astimezone(UTC)
    if day != day:
        # The missing time of pandas is a datetime that differs from itself.
        return "NaT"
    if "W" in like:
        year, week, _ = day.isocalendar()
        return f"{year}-W{week:02d}"
    # Labels before Christ begin with a sign, which those of dates in Python never have.
    return day.isoformat()[: len(like.removeprefix("-"))]


def sort_by_time(facts: Facts) -> Facts:
    """The distinct facts, sorted by time or start, subject, relation, object, end and bounds."""
    facts = facts[np.lexsort(sort_keys(facts))]
    first = np.ones(len(facts), bool)
    first[1:] = (facts[1:] != facts[:-1]).any(axis=1)
    return facts[first]


def sort_keys(facts: Facts) -> Facts:
    """The columns by which `sort_by_time` sorts facts, the first one last, as for lexsort."""
    return facts.T[[*range(facts.shape[1] - 1, 3, -1), 2, 1, 0, 3]]


def rows_in(rows: Facts, facts: Facts) -> NDArray[np.bool_]:
    """Which rows of ids occur among others, [n]."""
    ids = row_ids(np.concatenate([rows, facts]))
    return np.isin(ids[: len(rows)], ids[len(rows) :])


def distinct_rows(rows: Facts) -> Facts:
    """The rows without those that repeat an earlier one, in their order."""
    first = np.unique(row_ids(rows), return_index=True)[1]
    distinct: Facts = rows[np.sort(first)]
    return distinct


def row_ids(rows: Facts) -> NDArray[np.int64]:
    """An id for each distinct row, [n]."""
    ids = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        # Renumbering after each column keeps ids below the number of rows.
        ids = np.unique(ids * (1 + column.max(initial=0)) + column, return_inverse=True)[1]
    return ids


def _is_date_label(label: str) -> bool:
    return _DATE_LABEL.fullmatch(label) is not None


def _check_id(kind: str, id: int, size: int) -> int:
    if not 0 <= id < size:
        raise QueryError(f"there is no {kind} {id}; ids run from 0 to {size - 1}")
    return id


def _find(kind: str, name: Name, index: NameIndex) -> int:
    if isinstance(name, int | np.integer):
        return _check_id(kind, int(name), len(index.names))
    name_id = index.find(name)
    if name_id is None:
        raise QueryError(f"there is no {kind} '{name}'{suggest(index.closest(name))}")
    return name_id
