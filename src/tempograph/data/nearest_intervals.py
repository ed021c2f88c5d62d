"""Facts that hold for a while, nearest to a time: those that hold, have ended or have not begun."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.data.held_facts import HeldFacts
from tempograph.data.sorted_facts import SortedFacts, skip_removed
from tempograph.data.sorted_ranges import Ranges
from tempograph.data.timeline import Timeline


class NearestFacts(NamedTuple):
    """Facts near the time of queries, [near] each."""

    query: Tensor
    row: Tensor
    """Row of the fact in the sorted facts."""
    number: Tensor
    """0, 1, ... for the facts that hold, the last to begin first; then on for those that have not
    begun, by start; -1, -2, ... for those that have ended, the last to end first."""


class NearestIntervals:
    """The rows of sorted facts that are nearest to a time.

    The distance of a fact is 0 while it holds, else the steps since its end or until its start. The
    facts of a key that have ended before t are a contiguous range by end, those that begin after t
    one by start, and `HeldFacts` has those that hold.
    """

    def __init__(self, timeline: Timeline, facts: SortedFacts) -> None:
        self.facts, self.num_steps = facts, timeline.num_steps
        self.end = timeline.fact_end[facts.fact_id]
        """The last step of each row, [rows]."""
        self.unknown = timeline.unknown_bounds[facts.fact_id]
        """Whether a bound of each row is unknown, [rows]."""
        # Backwards, so that the first rows of a start are the last ones there.
        self.held = HeldFacts(
            facts.row_key.flip(0), facts.time.flip(0), self.end.flip(0), self.num_steps
        )
        # By end; rows of one end stay in their order.
        self.end_keys, self.by_end = torch.sort(
            facts.row_key * self.num_steps + self.end, stable=True
        )
        self.end_position = torch.argsort(self.by_end)

    def nearest(self, key: Tensor, time: Tensor, max_facts: int, removed: Tensor) -> NearestFacts:
        """The rows of keys [n] nearest to times [n], at most `max_facts` of each.

        Of equally distant ones, those that have ended come before those that have not begun, and
        of those that hold the last to begin. removed [n, at most 2]: rows that do not count.
        """
        facts, now = self.facts, key * self.num_steps + time
        first, stop = facts.all_rows(key)
        begun = torch.searchsorted(facts.key_time, now, right=True)
        ended = torch.searchsorted(self.end_keys, now)
        # Rows that hold are in neither of the ranges, so removing them does not matter there.
        missing = len(facts.time)
        removed_ends = torch.cat([self.end_position, self.end_position.new_tensor([missing])])
        removed_ends = removed_ends[removed].sort(1).values
        removed_starts = torch.where(removed < begun[:, None], missing, removed).sort(1).values
        gone = removed < stop[:, None]
        num_ended = ended - first - (removed_ends < ended[:, None]).sum(1)
        num_later = stop - begun - (removed_starts < stop[:, None]).sum(1)
        num_held = stop - first - gone.sum(1) - num_ended - num_later
        low = self._first_ended(
            time,
            (first, begun),
            (num_ended, num_later),
            (max_facts - num_held).clamp(min=0),
            (removed_ends, removed_starts),
        )
        rest = (max_facts - num_held).clamp(min=0) - (num_ended - low)
        before = self._ended(first, ended, low, removed_ends)
        after = self._later(begun, torch.minimum(rest, num_later), num_held, removed_starts)
        held = self._holding(key, time, max_facts, removed)
        return NearestFacts(*(torch.cat(parts) for parts in zip(held, before, after, strict=True)))

    def _first_ended(
        self,
        time: Tensor,
        first: tuple[Tensor, Tensor],
        number: tuple[Tensor, Tensor],
        limit: Tensor,
        removed: tuple[Tensor, Tensor],
    ) -> Tensor:
        """How many of the facts that have ended are too far away, [n].

        first, number and removed are those of the facts that have ended and that have not begun.
        Bisection, as in `SortedFacts.nearest_rows`.
        """
        (num_ended, num_later), (ends, starts) = number, removed
        low = (num_ended - limit).clamp(min=0)
        high = torch.maximum(low, num_ended - (limit - num_later).clamp(min=0))
        last = max(0, len(self.by_end) - 1)
        for _ in range(int((high - low).max()).bit_length() if len(time) else 0):
            middle = (low + high) // 2
            ended = self.by_end[skip_removed(first[0] + middle, ends).clamp(max=last)]
            later = skip_removed(first[1] + limit - (num_ended - middle), starts).clamp(max=last)
            slide = (time - self.end[ended] > self.facts.time[later] - time) & (middle < high)
            low, high = torch.where(slide, middle + 1, low), torch.where(slide, high, middle)
        return low

    def _ended(self, first: Tensor, stop: Tensor, low: Tensor, removed: Tensor) -> NearestFacts:
        """The facts that have ended, without the `low` first ones of each key."""
        start = torch.minimum(skip_removed(first + low, removed), stop)
        query, position = Ranges(start, stop).expand()
        number, counts = position - stop[query], torch.ones_like(query, dtype=torch.bool)
        for column in removed.unbind(1):
            gone, end = column[query], stop[query]
            counts &= gone != position
            number = number + ((gone > position) & (gone < end))
        return NearestFacts(query[counts], self.by_end[position[counts]], number[counts])

    def _later(
        self, begun: Tensor, count: Tensor, num_held: Tensor, removed: Tensor
    ) -> NearestFacts:
        """The `count` first facts that have not begun."""
        stop = skip_removed(begun + count.clamp(min=0) - 1, removed) + 1
        stop = torch.where(count > 0, stop, begun)
        query, position = Ranges(begun, stop).expand()
        number = num_held[query] + position - begun[query]
        counts = torch.ones_like(query, dtype=torch.bool)
        for column in removed.unbind(1):
            gone = column[query]
            counts &= gone != position
            number = number - (gone < position).long()
        return NearestFacts(query[counts], position[counts], number[counts])

    def _holding(self, key: Tensor, time: Tensor, max_facts: int, removed: Tensor) -> NearestFacts:
        """The facts that hold, the last `max_facts` to begin."""
        query, row = self.held.holding(key, time, max_facts + removed.shape[1])
        row = len(self.facts.time) - 1 - row
        counts = (removed[query] != row[:, None]).all(1)
        query, row = query[counts], row[counts]
        age, rows = time[query] - self.facts.time[row], len(self.facts.time)
        ordered = torch.sort((query * self.num_steps + age) * rows + row).values
        query, row = ordered // (self.num_steps * rows), ordered % rows
        queries = torch.arange(len(key), device=key.device)
        number = torch.arange(len(query), device=key.device)
        number = number - torch.searchsorted(query, queries)[query]
        near = number < max_facts
        return NearestFacts(query[near], row[near], number[near])
