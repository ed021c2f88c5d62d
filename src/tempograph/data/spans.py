"""When facts hold: at one step, or from a first step to a last one, either of which may be open."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

EVENT_COLUMNS: Final = 4
"""Events are rows (subject, relation, object, time)."""
INTERVAL_COLUMNS: Final = 6
"""Facts that hold for a while are rows (subject, relation, object, start, end, `Bounds`)."""

OPEN: Final = ".."
"""How files write a bound that is open, as in ISO 8601-2."""
UNKNOWN: Final = ""
"""How files write a bound that is unknown, as in ISO 8601-2."""
SURELY_UNKNOWN: Final = "####"
"""How tables write an unknown bound, if an empty one may be open."""


class Bounds(IntFlag):
    """Which bounds of a fact are not a date.

    A fact with an open bound holds to that end of the time axis. A fact with an unknown bound is
    only known to hold at its other bound.
    """

    CLOSED = 0
    OPEN_START = 1
    OPEN_END = 2
    UNKNOWN_START = 4
    UNKNOWN_END = 8


class Spans(NamedTuple):
    """The first and the last step at which facts are known to hold, and their `Bounds`, [n] each.

    An open start is step 0 and an open end the last step. A bound that is unknown is at the same
    step as the other one.
    """

    start: Integers
    end: Integers
    bounds: Integers


def spans_of(facts: Integers) -> Spans:
    """When facts hold.   facts [n, 4] of events or [n, 6] of intervals."""
    if facts.shape[1] == EVENT_COLUMNS:
        return Spans(facts[:, 3], facts[:, 3], np.zeros(len(facts), np.int64))
    return Spans(facts[:, 3], facts[:, 4], facts[:, 5])


def with_spans(triples: Integers, spans: Spans) -> Integers:
    """Facts [n, 6] from triples [n, 3] and when they hold."""
    return np.column_stack([triples, *spans])


def simplify(facts: Integers) -> Integers:
    """Facts as events [n, 4] if all hold for one step and have no open or unknown bound."""
    start, end, bounds = spans_of(facts)
    return facts[:, :EVENT_COLUMNS] if (start == end).all() and not bounds.any() else facts


def as_intervals(facts: Integers) -> Integers:
    """Facts as intervals [n, 6]; an event holds at one step."""
    return with_spans(facts[:, :3], spans_of(facts))


def as_one_kind(splits: Sequence[Integers]) -> list[Integers]:
    """Splits of facts as events [n, 4] if all of them are, else as intervals [n, 6]."""
    events = [simplify(facts) for facts in splits]
    if all(facts.shape[1] == EVENT_COLUMNS for facts in events):
        return events
    return [as_intervals(facts) for facts in splits]


def steps_with_facts(facts: Integers, num_steps: int) -> int:
    """The number of steps at which some fact holds."""
    start, end, _ = spans_of(facts)
    change = np.bincount(start, minlength=num_steps + 1)
    change -= np.bincount(end + 1, minlength=num_steps + 1)
    return int((np.cumsum(change) > 0).sum())


def kinds_of_spans(facts: Integers) -> dict[str, int]:
    """How many facts are closed, hold for one step, or have an open or unknown bound."""
    start, end, bounds = spans_of(facts)
    one_step = (start == end) & (bounds == Bounds.CLOSED)
    counts = {"closed": (bounds == Bounds.CLOSED) & ~one_step, "one step": one_step}
    for bound in (Bounds.OPEN_START, Bounds.OPEN_END, Bounds.UNKNOWN_START, Bounds.UNKNOWN_END):
        counts[(bound.name or "").lower().replace("_", " ")] = (bounds & bound) > 0
    return {kind: int(mask.sum()) for kind, mask in counts.items()}


def until_last_step(facts: Integers, num_steps: int) -> Integers:
    """The facts on a longer time axis: those with an open end hold to its last step."""
    if facts.shape[1] == EVENT_COLUMNS:
        return facts
    facts = facts.copy()
    facts[(facts[:, 5] & Bounds.OPEN_END) > 0, 4] = num_steps - 1
    return facts


def last_given_step(facts: Integers) -> int:
    """The last step that facts name; open ends name none. -1 without facts."""
    start, end, bounds = spans_of(facts)
    return int(np.where(bounds & Bounds.OPEN_END, start, end).max(initial=-1))


def at_steps(facts: Integers, steps: Integers) -> Integers:
    """The facts as events at some step each.   facts [n, 4 or 6], steps [n] -> [n, 4]."""
    return np.column_stack([facts[:, :3], steps])
