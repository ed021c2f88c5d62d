"""Temporal pattern frequencies: how many train facts inside a window share a pattern with a fact."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.errors import DataError
from tempograph.ranges import equal_range, key_range
from tempograph.timeline import Timeline

PATTERNS: Final = ("s", "o", "r", "sr", "ro", "so", "sro")
"""The columns of a frequency table: subject, object, relation, and their combinations."""


class _Pattern(NamedTuple):
    """The distinct values of one pattern, and every fact's (place of its value, time) as one sorted key."""

    values: Tensor
    keys: Tensor


class PatternFrequencies:
    """Counts of the seven patterns over the train facts of a timeline, sorted once: O(log facts) for each question."""

    def __init__(self, timeline: Timeline) -> None:
        self.num_steps = timeline.num_steps
        self.sizes = {"s": timeline.num_entities, "r": timeline.num_relations, "o": timeline.num_entities}
        if timeline.num_entities**2 * timeline.num_relations >= 2**63:
            raise DataError(
                f"{timeline.num_entities} entities and {timeline.num_relations} relations are too many to count"
            )
        self._patterns = {pattern: self._sorted(pattern, timeline.facts) for pattern in PATTERNS}

    def count(self, facts: Tensor, past: int, future: int = 0) -> Tensor:
        """For each fact and pattern, train facts in t - past .. t + future, t itself excluded.   [n, 4] -> [n, 7]."""
        time = facts[:, 3]
        first = (time - past).clamp(min=0)
        last = (time + future).clamp(max=self.num_steps - 1)
        columns = []
        for pattern in PATTERNS:
            values, keys = self._patterns[pattern]
            place = equal_range(values, self._value(pattern, facts))
            base = place.start * self.num_steps
            inside = key_range(keys, base + first, base + last).lengths
            same_day = equal_range(keys, base + time).lengths
            columns.append(torch.where(place.lengths > 0, inside - same_day, 0))
        return torch.stack(columns, dim=1)

    def _sorted(self, pattern: str, facts: Tensor) -> _Pattern:
        # Numbering the values that occur keeps the joint key small: the product of all sizes and steps may not fit.
        values, place = torch.unique(self._value(pattern, facts), return_inverse=True)
        return _Pattern(values, torch.sort(place * self.num_steps + facts[:, 3]).values)

    def _value(self, pattern: str, facts: Tensor) -> Tensor:
        value = torch.zeros(len(facts), dtype=torch.int64, device=facts.device)
        for letter in pattern:
            value = value * self.sizes[letter] + facts[:, "sro".index(letter)]
        return value
