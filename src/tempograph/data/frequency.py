"""Temporal pattern frequencies: how many train facts in a window share a pattern with a fact."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from tempograph.data.sorted_times import SortedTimes
from tempograph.data.spans import EVENT_COLUMNS
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import DataError

PATTERNS: Final = ("s", "o", "r", "sr", "ro", "so", "sro")
"""The columns of a frequency table: subject, object, relation, and their combinations."""


def check_countable(timeline: Timeline) -> None:
    """Raise DataError if (entity, relation, entity) in both directions do not fit in 63 bits."""
    entities, relations = timeline.num_entities, timeline.num_relations
    if entities**2 * 2 * relations >= 2**63:
        raise DataError(f"{entities} entities and {relations} relations are too many to count")


class PatternFrequencies:
    """Counts of the seven patterns over the train facts, sorted once: O(log facts) per query.

    A fact that holds for a while counts once if it holds at a step of the window.
    """

    def __init__(self, timeline: Timeline) -> None:
        check_countable(timeline)
        entities, relations, _, self.num_steps = timeline.sizes
        self.sizes = {"s": entities, "r": relations, "o": entities}
        start, end = timeline.facts[:, 3], timeline.fact_end
        self._times = self._sorted_times(timeline.facts, start)
        self._ends: dict[str, SortedTimes] | None = None
        if timeline.has_intervals:
            self._ends = self._sorted_times(timeline.facts, end)
            at_one_step = timeline.facts[start == end]
            self._at_one_step = self._sorted_times(at_one_step, at_one_step[:, 3])

    def count(self, facts: Tensor, past: int, future: int = 0) -> Tensor:
        """Train facts in t - past .. t + future, except t, per fact and pattern.   -> [n, 7]."""
        return torch.stack(
            [self._count(pattern, facts, past, future) for pattern in PATTERNS], dim=1
        )

    def count_at(self, facts: Tensor) -> Tensor:
        """Train facts that hold at the same step, per fact and pattern.   -> [n, 7]."""
        return torch.stack([self._count_at(pattern, facts) for pattern in PATTERNS], dim=1)

    def count_queries(
        self, queries: Queries, past: int, future: int = 0, left_out: Tensor | None = None
    ) -> Tensor:
        """Frequencies of a query's entity, of its relation and of both together, [n, 3].

        left_out [n, 4 or 6]: one fact per query that is not counted.
        """
        unused = torch.zeros_like(queries.entity)
        relation = queries.relation % self.sizes["r"]
        inverse = queries.relation >= self.sizes["r"]
        as_subject = torch.stack([queries.entity, relation, unused, queries.time], dim=1)
        as_object = torch.stack([unused, relation, queries.entity, queries.time], dim=1)

        def count(subject_pattern: str, object_pattern: str) -> Tensor:
            return torch.where(
                inverse,
                self._count(object_pattern, as_object, past, future),
                self._count(subject_pattern, as_subject, past, future),
            )

        relation_count = self._count("r", as_subject, past, future)
        counts = torch.stack([count("s", "o"), relation_count, count("sr", "ro")], dim=1)
        if left_out is None:
            return counts
        same_entity = torch.where(inverse, left_out[:, 2], left_out[:, 0]) == queries.entity
        same_relation, start, end = left_out[:, 1] == relation, left_out[:, 3], left_out[:, 3]
        if left_out.shape[1] > EVENT_COLUMNS:
            end = left_out[:, 4]
        now = queries.time
        before = (start < now) & (end >= now - past) & (past > 0)
        counted = before | ((end > now) & (start <= now + future) & (future > 0))
        shared = torch.stack([same_entity, same_relation, same_entity & same_relation], dim=1)
        return counts - (shared & counted[:, None]).long()

    def _count(self, pattern: str, facts: Tensor, past: int, future: int) -> Tensor:
        time = facts[:, 3]
        if self._ends is not None:
            return self._count_held(pattern, facts, past, future)
        times = self._times[pattern]
        number = times.number(self._values(pattern, facts))
        in_window = times.within(number, time - past, time + future).lengths
        return in_window - times.within(number, time, time).lengths

    def _count_held(self, pattern: str, facts: Tensor, past: int, future: int) -> Tensor:
        """Facts that hold at a step of the window other than t."""
        time = facts[:, 3]
        if not past and not future:
            return torch.zeros_like(time)
        # Those that hold before t, after t, or both.
        last = time + future if future else time - 1
        first = time - past if past else time + 1
        held = self._begun(pattern, facts, last) - self._ended(pattern, facts, first)
        if not past or not future:
            return held
        times = self._at_one_step[pattern]
        number = times.number(self._values(pattern, facts))
        return held - times.within(number, time, time).lengths

    def _count_at(self, pattern: str, facts: Tensor) -> Tensor:
        times, time = self._times[pattern], facts[:, 3]
        if self._ends is not None:
            return self._begun(pattern, facts, time) - self._ended(pattern, facts, time)
        return times.within(times.number(self._values(pattern, facts)), time, time).lengths

    def _begun(self, pattern: str, facts: Tensor, last: Tensor) -> Tensor:
        """Train facts that begin at steps up to the last ones, [n]."""
        return self._up_to(self._times[pattern], self._values(pattern, facts), last)

    def _ended(self, pattern: str, facts: Tensor, first: Tensor) -> Tensor:
        """Train facts that end before the first steps, [n]."""
        assert self._ends is not None
        return self._up_to(self._ends[pattern], self._values(pattern, facts), first - 1)

    def _up_to(self, times: SortedTimes, value: Tensor, last: Tensor) -> Tensor:
        return times.within(times.number(value), torch.zeros_like(last), last).lengths

    def _sorted_times(self, facts: Tensor, time: Tensor) -> dict[str, SortedTimes]:
        return {
            pattern: SortedTimes(self._values(pattern, facts), time, self.num_steps)
            for pattern in PATTERNS
        }

    def _values(self, pattern: str, facts: Tensor) -> Tensor:
        value = torch.zeros(len(facts), dtype=torch.int64, device=facts.device)
        for letter in pattern:
            value = value * self.sizes[letter] + facts[:, "sro".index(letter)]
        return value
