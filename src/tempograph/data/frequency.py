"""Temporal pattern frequencies: how many train facts inside a window share a pattern with a fact."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import equal_range, key_range
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import DataError

PATTERNS: Final = ("s", "o", "r", "sr", "ro", "so", "sro")
"""The columns of a frequency table: subject, object, relation, and their combinations."""


def refuse_uncountable(timeline: Timeline) -> None:
    """Refuse data whose pairs of entities, with relations in both directions, are more than a number can tell apart."""
    entities, relations = timeline.num_entities, timeline.num_relations
    if entities**2 * 2 * relations >= 2**63:
        raise DataError(f"{entities} entities and {relations} relations are too many to count")


class _Pattern(NamedTuple):
    """The distinct values of one pattern, and every fact's (place of its value, time) as one sorted key."""

    values: Tensor
    keys: Tensor


class PatternFrequencies:
    """Counts of the seven patterns over the train facts of a timeline, sorted once: O(log facts) for each question."""

    def __init__(self, timeline: Timeline) -> None:
        self.num_steps = timeline.num_steps
        self.sizes = {
            "s": timeline.num_entities,
            "r": timeline.num_relations,
            "o": timeline.num_entities,
        }
        refuse_uncountable(timeline)
        self._patterns = {pattern: self._sorted(pattern, timeline.facts) for pattern in PATTERNS}

    def count(self, facts: Tensor, past: int, future: int = 0) -> Tensor:
        """For each fact and pattern, train facts in t - past .. t + future, t itself excluded.   [n, 4] -> [n, 7]."""
        return torch.stack(
            [self._count(pattern, facts, past, future) for pattern in PATTERNS], dim=1
        )

    def of_queries(
        self, queries: Queries, past: int, future: int = 0, left_out: Tensor | None = None
    ) -> Tensor:
        """What a question may know: the frequencies of its entity, its relation and both together, [n, 3].

        Facts left_out [n, 4], one for each question, are not counted.
        """
        nobody = torch.zeros_like(queries.entity)
        relation, subject_is_asked = (
            queries.relation % self.sizes["r"],
            queries.relation >= self.sizes["r"],
        )
        as_subject = torch.stack([queries.entity, relation, nobody, queries.time], dim=1)
        as_object = torch.stack([nobody, relation, queries.entity, queries.time], dim=1)
        columns = [self._count("r", as_subject, past, future)]
        for of_subject, of_object in (("s", "o"), ("sr", "ro")):
            one, other = (
                self._count(of_subject, as_subject, past, future),
                self._count(of_object, as_object, past, future),
            )
            columns.append(torch.where(subject_is_asked, other, one))
        relation_count, given, pair = columns
        counts = torch.stack([given, relation_count, pair], dim=1)
        if left_out is None:
            return counts
        same_entity = (
            torch.where(subject_is_asked, left_out[:, 2], left_out[:, 0]) == queries.entity
        )
        same_relation, gap = left_out[:, 1] == relation, left_out[:, 3] - queries.time
        counted = (gap >= -past) & (gap <= future) & (gap != 0)
        shared = torch.stack([same_entity, same_relation, same_entity & same_relation], dim=1)
        return counts - (shared & counted[:, None]).long()

    def _count(self, pattern: str, facts: Tensor, past: int, future: int) -> Tensor:
        time = facts[:, 3]
        values, keys = self._patterns[pattern]
        place = equal_range(values, self._value(pattern, facts))
        base = place.start * self.num_steps
        first, last = (time - past).clamp(min=0), (time + future).clamp(max=self.num_steps - 1)
        inside = key_range(keys, base + first, base + last).lengths
        same_day = equal_range(keys, base + time).lengths
        return torch.where(place.lengths > 0, inside - same_day, 0)

    def _sorted(self, pattern: str, facts: Tensor) -> _Pattern:
        # Numbering the values that occur keeps the joint key small: the product of all sizes and steps may not fit.
        values, place = torch.unique(self._value(pattern, facts), return_inverse=True)
        return _Pattern(values, torch.sort(place * self.num_steps + facts[:, 3]).values)

    def _value(self, pattern: str, facts: Tensor) -> Tensor:
        value = torch.zeros(len(facts), dtype=torch.int64, device=facts.device)
        for letter in pattern:
            value = value * self.sizes[letter] + facts[:, "sro".index(letter)]
        return value
