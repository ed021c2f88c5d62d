"""How many entities are active at each step if facts hold for a while; cost grows with facts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tempograph.data.graph import Facts
from tempograph.data.spans import Integers, spans_of


class Activity(NamedTuple):
    """The curves of `Statistics`, [steps] each; the last one is a sum over active entities."""

    active: Integers
    active_recently: Integers
    recent_facts: Integers


class _Mentions(NamedTuple):
    """Ranges of steps of entities, sorted by entity and start, [n] each."""

    entity: Integers
    start: Integers
    end: Integers


def activity(train: Facts, others: Facts, num_steps: int, window: int) -> Activity:
    """Entities active at t, those also active in t - window .. t - 1, and their facts there.

    An entity is active while a fact in `train` or `others` holds. A train fact that holds at some
    of the window's steps counts once for each of its entities that is active at t.
    """
    facts = _mentions(train)
    periods = _merge(_mentions(np.concatenate([train, others])), num_steps)
    active = _count(periods.start, periods.end, num_steps)
    gap = np.full(len(periods.start), window + 1)
    same = periods.entity[1:] == periods.entity[:-1]
    gap[1:][same] = (periods.start[1:] - periods.end[:-1])[same]
    # Within a period the step before is active; at its first step, the period before may be near.
    recently = _count(periods.start + (gap > window), periods.end, num_steps)
    return Activity(active, recently, _recent_facts(facts, periods, num_steps, window))


def _mentions(facts: Facts) -> _Mentions:
    """The steps at which the subject and the object of facts are in them, once for loops."""
    start, end, _ = spans_of(facts)
    apart = facts[:, 0] != facts[:, 2]
    entity = np.concatenate([facts[:, 0], facts[apart, 2]])
    start, end = np.concatenate([start, start[apart]]), np.concatenate([end, end[apart]])
    order = np.lexsort([start, entity])
    return _Mentions(entity[order], start[order], end[order])


def _merge(mentions: _Mentions, num_steps: int) -> _Mentions:
    """The periods in which entities are active without a break."""
    base = mentions.entity * (2 * num_steps)
    reached = np.maximum.accumulate(base + mentions.end)
    begins = np.ones(len(base), bool)
    begins[1:] = (base + mentions.start)[1:] > reached[:-1] + 1
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(base))[: len(first)] - 1
    entity = mentions.entity[first]
    return _Mentions(entity, mentions.start[first], reached[last] - entity * (2 * num_steps))


def _recent_facts(facts: _Mentions, periods: _Mentions, num_steps: int, window: int) -> Integers:
    """For each step t, the facts at t - window .. t - 1, counted for each entity active at t."""
    base = 2 * num_steps
    since, until = facts.start + 1, np.minimum(facts.end + window, num_steps - 1)
    first = np.searchsorted(periods.entity * base + periods.end, facts.entity * base + since)
    stop = np.searchsorted(
        periods.entity * base + periods.start, facts.entity * base + until, side="right"
    )
    count = np.maximum(stop - first, 0)
    row = np.repeat(np.arange(len(count)), count)
    period = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + first[row]
    start = np.maximum(since[row], periods.start[period])
    return _count(start, np.minimum(until[row], periods.end[period]), num_steps)


def _count(start: Integers, end: Integers, num_steps: int) -> Integers:
    """How many ranges contain each step; a range with the end before the start is empty."""
    kept = start <= end
    change = np.bincount(start[kept], minlength=num_steps + 1)
    change -= np.bincount(end[kept] + 1, minlength=num_steps + 1)
    counts: Integers = np.cumsum(change)[:num_steps]
    return counts
