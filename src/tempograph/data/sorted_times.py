"""The times of facts by what they share: those before a time, or in a window, are a range."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import Ranges, equal_range, key_range


class SortedTimes:
    """The times of facts, sorted by a value that each fact has and then by time.

    values [n] and times [n], of which there are `num_steps`.
    """

    def __init__(self, values: Tensor, times: Tensor, num_steps: int) -> None:
        self.num_steps = num_steps
        # Numbering the values keeps the joint key small: a product of all sizes may overflow.
        self.values, number = torch.unique(values, return_inverse=True)
        """The distinct values, ascending; the position of one is its number."""
        self._keys = torch.sort(number * num_steps + times).values
        self.times = self._keys % num_steps
        """The times in their order, [n]."""

    def number(self, value: Tensor) -> Tensor:
        """The number of each value [m]; the number of values for one that no fact has."""
        found = equal_range(self.values, value)
        return torch.where(found.lengths > 0, found.start, len(self.values))

    def within(self, number: Tensor, first: Tensor, last: Tensor) -> Ranges:
        """The facts of numbered values [m] from first to last inclusive, as ranges of `times`."""
        base = number * self.num_steps
        return key_range(
            self._keys, base + first.clamp(min=0), base + last.clamp(max=self.num_steps - 1)
        )

    def first_at(self, number: Tensor, time: Tensor) -> Tensor:
        """The position of the first fact of numbered values [m] at or after times [m], [m]."""
        return torch.searchsorted(self._keys, number * self.num_steps + time)

    def decayed_counts(self, now: int, decay: float) -> Tensor:
        """The sum of (now - t)^-decay over the facts at t before `now`, by number, [values + 1]."""
        past = self.times < now
        weight = (now - self.times[past]).double().pow(-decay)
        sums = weight.new_zeros(len(self.values) + 1)
        return sums.index_add_(0, self._keys[past] // self.num_steps, weight)
