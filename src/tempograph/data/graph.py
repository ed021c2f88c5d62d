"""A temporal knowledge graph as plain arrays and names."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tempograph.errors import DataError, QueryError, did_you_mean, refuse_unknown
from tempograph.typing import SPLITS, Split

Name = str | int
"""An entity or a relation by its name or its id."""

When = str | int | date
"""A time step by its label, its id, or a date that lies in it."""

Facts = NDArray[np.int64]
"""Facts are rows (subject, relation, object, time) of ids: shape [facts, 4]."""


@dataclass(frozen=True, eq=False)
class TemporalGraph:
    """Facts (subject, relation, object, time) in three splits, with the names behind their ids.

    Time steps are equally spaced: the distance between two facts is the difference of their time ids.
    """

    name: str
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    times: tuple[str, ...]
    train: Facts
    valid: Facts
    test: Facts

    def __post_init__(self) -> None:
        for split in SPLITS:
            facts = self.facts(split)
            if facts.ndim != 2 or facts.shape[1] != 4 or facts.dtype != np.int64:
                raise DataError(
                    f"{self.name}: {split} facts must be int64 [n, 4], found {facts.dtype} {facts.shape}"
                )
            faulty = first_out_of_range(facts, self.sizes)
            if faulty is not None:
                row, column, value, size = faulty
                raise DataError(
                    f"{self.name}: {split} fact {row} has {column} {value}, outside 0 to {size - 1}"
                )
        if not len(self.train):
            raise DataError(
                f"{self.name}: the train split has no facts, so there is nothing to learn from"
            )

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """How many ids each column of a fact may take."""
        return len(self.entities), len(self.relations), len(self.entities), len(self.times)

    def facts(self, split: Split) -> Facts:
        """The facts of one split, [n, 4]."""
        refuse_unknown("split", split, SPLITS)
        return {"train": self.train, "valid": self.valid, "test": self.test}[split]

    @cached_property
    def all_facts(self) -> Facts:
        """The facts of the three splits together, [n, 4]."""
        return np.concatenate([self.facts(split) for split in SPLITS])

    def same_as(self, other: TemporalGraph) -> bool:
        """Whether names and facts are the same, whatever the graphs are called."""
        names = (self.entities, self.relations, self.times) == (
            other.entities,
            other.relations,
            other.times,
        )
        return names and all(
            np.array_equal(self.facts(split), other.facts(split)) for split in SPLITS
        )

    def entity_id(self, name: Name) -> int:
        """The id of an entity given its name or id; case may differ where that leaves no doubt."""
        return _lookup("entity", name, self.entities, self._entity_ids)

    def relation_id(self, name: Name) -> int:
        """The id of a relation given its name or id; case may differ where that leaves no doubt."""
        return _lookup("relation", name, self.relations, self._relation_ids)

    def time_id(self, label: When) -> int:
        """The id of a time step given its label, its id, or a date that lies in it."""
        if isinstance(label, int | np.integer):
            return _checked("time step", int(label), len(self.times))
        given, label = label, self.time_label(label)
        if label not in self._time_ids:
            label = given.isoformat() if isinstance(given, date) else given
            span = f"{self.times[0]} to {self.times[-1]}"
            raise QueryError(
                f"'{label}' is not on the time grid of {self.name} ({len(self.times)} steps, {span})"
            )
        return self._time_ids[label]

    def time_label(self, when: str | date) -> str:
        """What the grid calls, or would call, a step: by its label, a date, or an ISO date or moment as text."""
        if (
            isinstance(when, str)
            and when not in self._time_ids
            and _OF_DATES.fullmatch(self.times[0])
        ):
            with suppress(ValueError):
                when = datetime.fromisoformat(when.strip()) if _MOMENT.match(when.strip()) else when
        return step_label(when, self.times[0]) if isinstance(when, date) else when

    def describe(self, fact: Facts) -> dict[str, str]:
        """One fact with names in the place of ids."""
        subject, relation, object_, time = (int(value) for value in fact)
        return {
            "subject": self.entities[subject],
            "relation": self.relations[relation],
            "object": self.entities[object_],
            "time": self.times[time],
        }

    def find_splits(self, rows: Facts) -> list[Split | None]:
        """The split that holds each fact [n, 4], the first if several do."""
        found = np.full(len(rows), None, dtype=object)
        for split in reversed(SPLITS):
            facts = self.facts(split)
            near = facts[np.isin(facts[:, 3], rows[:, 3])]
            found[rows_in(rows, near)] = split
        held: list[Split | None] = found.tolist()
        return held

    def known_answers(self, fact: tuple[int, int, int, int], place: int) -> dict[int, Split]:
        """The ids that, put in one place of a fact, make a fact of the data, with the split it is in."""
        known: dict[int, Split] = {}
        for split in reversed(SPLITS):
            facts = self.facts(split)
            same = np.all(
                [facts[:, column] == fact[column] for column in range(4) if column != place], axis=0
            )
            known |= dict.fromkeys(facts[same, place].tolist(), split)
        return known

    @cached_property
    def _entity_ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.entities)}

    @cached_property
    def _relation_ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.relations)}

    @cached_property
    def _time_ids(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.times)}


COLUMNS: Final = ("subject", "relation", "object", "time")

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d")
_OF_DATES: Final = re.compile(r"\d{4}(-W\d\d|-\d\d(-\d\d(T\d\d)?)?)?")


def first_out_of_range(
    facts: Facts, sizes: tuple[int, int, int, int]
) -> tuple[int, str, int, int] | None:
    """The first id outside its range as (row, column name, value, size), or None."""
    faulty = (facts < 0) | (facts >= np.array(sizes))
    if not faulty.any():
        return None
    row, column = (int(index) for index in np.argwhere(faulty)[0])
    return row, COLUMNS[column], int(facts[row, column]), sizes[column]


def step_label(day: date, like: str) -> str:
    """The label of the step that a day or a moment lies in, on a grid with labels such as this one."""
    if not _OF_DATES.fullmatch(like):
        raise QueryError(
            f"the time {day.isoformat()} is a date, but the steps are called as {like} is; name one of them"
        )
    if isinstance(day, datetime) and day.tzinfo is not None:
        # As an import does.
        day = day.astimezone(UTC)
    if "W" in like:
        year, week, _ = day.isocalendar()
        return f"{year}-W{week:02d}"
    return day.isoformat()[: len(like)]


def sort_by_time(facts: Facts) -> Facts:
    """Each fact once, sorted by time, subject, relation and object."""
    facts = facts[np.lexsort(facts.T[[2, 1, 0, 3]])]
    fresh = np.ones(len(facts), bool)
    fresh[1:] = (facts[1:] != facts[:-1]).any(axis=1)
    return facts[fresh]


def rows_in(rows: Facts, facts: Facts) -> NDArray[np.bool_]:
    """Which rows of ids are among others, [n]."""
    number = row_ids(np.concatenate([rows, facts]))
    return np.isin(number[: len(rows)], number[len(rows) :])


def row_ids(rows: Facts) -> NDArray[np.int64]:
    """A number for each row of ids, the same for the same row, [n]."""
    number = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        # Numbered anew after each column, they never outgrow the number of rows.
        number = np.unique(number * (1 + column.max(initial=0)) + column, return_inverse=True)[1]
    return number


def _checked(kind: str, number: int, size: int) -> int:
    if not 0 <= number < size:
        raise QueryError(f"there is no {kind} {number}; ids run from 0 to {size - 1}")
    return number


def _lookup(kind: str, name: Name, names: tuple[str, ...], ids: dict[str, int]) -> int:
    if isinstance(name, int | np.integer):
        return _checked(kind, int(name), len(names))
    if name in ids:
        return ids[name]
    folded = name.casefold()
    matches = [number for number, known in enumerate(names) if known.casefold() == folded]
    if len(matches) == 1:
        return matches[0]
    raise QueryError(f"there is no {kind} '{name}'{did_you_mean(name, names)}")
