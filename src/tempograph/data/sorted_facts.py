"""Train facts in both directions sorted by a key and time: those nearest to a time are a range."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import Ranges, equal_range
from tempograph.data.timeline import Timeline, both_directions


class SortedFacts:
    """Train facts in both directions, sorted by (key, time).

    The facts of a key that are nearest to a time are one contiguous range of rows. The last key is
    empty: values that no fact has map to it.

    values [2 facts]: the key of each directed fact, in the order of `both_directions`;
    `earlier_values` are keys that exist even if no fact has them.
    """

    def __init__(
        self, timeline: Timeline, values: Tensor, earlier_values: Tensor | None = None
    ) -> None:
        self.num_steps, self.past_only = timeline.num_steps, timeline.past_only
        directed = both_directions(timeline.facts, timeline.num_relations)
        self.values: Tensor = torch.unique(
            values if earlier_values is None else torch.cat([values, earlier_values])
        )
        key_id = torch.searchsorted(self.values, values)
        # Facts of one key and step are shuffled by a hash: which of them are within the limit on
        # facts is random, but reproducible.
        order = torch.argsort(hash_facts(directed))
        order = order[torch.argsort((key_id * self.num_steps + directed[:, 3])[order], stable=True)]
        self.rows = directed[order]
        """(entity, directed relation, other entity, time) of each row, [2 facts, 4]."""
        self.row_key = key_id[order]
        """The id of each row's key, [2 facts]."""
        self.relation, self.time = self.rows[:, 1].contiguous(), self.rows[:, 3].contiguous()
        self.fact_id = order % len(timeline.facts)
        """The train fact behind each row, in either direction, [2 facts]."""
        self._position = torch.argsort(order)
        self.key_time = self.row_key * self.num_steps + self.time
        """Sort key (key, time) of each row, [2 facts]."""
        keys = torch.arange(len(self.values) + 2, device=directed.device)
        self.key_start = torch.searchsorted(self.row_key, keys)
        """Rows of key k are key_start[k]:key_start[k + 1], [keys + 2]."""
        self._window_keys: dict[int, Tensor] = {}

    def find_keys(self, values: Tensor) -> Tensor:
        """The id of each key value, [n]; the last, empty key if no fact has it."""
        matches = equal_range(self.values, values)
        return torch.where(matches.lengths > 0, matches.start, len(self.values))

    def all_rows(self, key: Tensor) -> Ranges:
        """The rows of keys [n]."""
        return Ranges(self.key_start[key], self.key_start[key + 1])

    def nearest_rows(self, key: Tensor, time: Tensor, max_facts: int, removed: Tensor) -> Ranges:
        """The rows of keys [n] nearest to times [n], at most `max_facts` of each.

        If the timeline is past-only, these are the latest rows before the times. removed [n, at
        most 2]: positions of rows that do not count, from `positions_of`; the ranges may hold them.
        """
        first, stop = self.all_rows(key)
        if self.past_only:
            stop = self.first_row_at(key, time)
        stop_without = stop - (removed < stop[:, None]).sum(1)
        low, high = first, torch.maximum(first, stop_without - max_facts)
        if self.past_only:
            return Ranges(torch.minimum(skip_removed(high, removed), stop), stop)
        if not removed.shape[1]:
            found = torch.searchsorted(
                self._keys_of_windows(max_facts), 2 * (key * self.num_steps + time)
            )
            low = torch.maximum(low, torch.minimum(found, high))
            return Ranges(low, torch.minimum(low + max_facts, stop))
        # Bisection: the range slides right while the row after its end is nearer than its first.
        for _ in range(int((high - low).max()).bit_length() if len(key) else 0):
            middle = (low + high) // 2
            gap_before = time - self._time_at(middle, removed)
            slide = gap_before > self._time_at(middle + max_facts, removed) - time
            slide &= middle < high
            low, high = torch.where(slide, middle + 1, low), torch.where(slide, high, middle)
        end = skip_removed(torch.minimum(low + max_facts, stop_without) - 1, removed) + 1
        return Ranges(torch.minimum(skip_removed(low, removed), end), end)

    def _keys_of_windows(self, max_facts: int) -> Tensor:
        """Twice (key, middle) of each row's window, ascending, [2 facts].

        The middle is the mean of the times of the row and of the first one after the window. It is
        beyond all steps if the key has no such row.
        """
        if max_facts not in self._window_keys:
            row = torch.arange(len(self.time), device=self.time.device)
            after = row + max_facts
            inside = after < self.key_start[self.row_key + 1]
            end = torch.where(
                inside, self.time[after.clamp(max=len(row) - 1)], 2 * self.num_steps - 1 - self.time
            )
            keys = 2 * self.row_key * self.num_steps + self.time + end
            self._window_keys[max_facts] = keys
        return self._window_keys[max_facts]

    def first_row_at(self, key: Tensor, time: Tensor) -> Tensor:
        """The position of the first row of keys [n] at or after times [n], [n]."""
        return torch.searchsorted(self.key_time, key * self.num_steps + time)

    def positions_of(self, key: Tensor, fact: Tensor | None) -> Tensor:
        """The rows of one train fact per key [n] within that key, ascending, [n, 2].

        A fact has two rows there if both its directions have the key, as loops do. Rows that do not
        exist are given as the number of rows. Without a fact there are none, [n, 0], except on a
        GPU, where kernels take two.
        """
        missing = len(self.time)
        if fact is None:
            columns = 0 if key.device.type == "cpu" else 2
            return torch.full((len(key), columns), missing, device=key.device)
        both = self._position[torch.stack([fact, fact + missing // 2], dim=1)]
        first, stop = self.all_rows(key)
        inside = (both >= first[:, None]) & (both < stop[:, None])
        return torch.where(inside, both, missing).sort(1).values

    def _time_at(self, number: Tensor, removed: Tensor) -> Tensor:
        return self.time[skip_removed(number, removed).clamp(max=len(self.time) - 1)]


def hash_facts(facts: Tensor) -> Tensor:
    """A hash of each fact that looks random and depends on the fact alone.   [n, 4] -> [n]."""
    number = torch.zeros(len(facts), dtype=torch.int64, device=facts.device)
    for column in facts.unbind(1):
        # The product overflows on purpose: that is what mixes the bits.
        number = (number + column + 1) * 0x5851F42D4C957F2D
        number = number ^ (number >> 29)
    return number


def skip_removed(number: Tensor, removed: Tensor) -> Tensor:
    """Positions of rows numbered without the removed ones, which ascend.   [n], [n, k] -> [n]."""
    for row in removed.unbind(1):
        number = number + (row <= number)
    return number
