"""Train facts sorted by what they share with a query: its entity, its relation, both or its time."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import Ranges, equal_range
from tempograph.data.timeline import Queries, Timeline, both_directions

Key = Literal["entity", "relation", "both", "time", "any"]
"""What a fact must share with a question to vote: its entity, its relation, both, its time, or nothing."""


class View:
    """Train facts in both directions, ordered by (key, time): those of a key nearest to a time are one range.

    A fact (x, r', o, t') votes for o. The distinct candidates of a key are numbered, so that sums over facts need room
    for these alone, not for all entities. A key that no fact has stands last, with nothing. The candidates of an
    earlier view have room as well, also where no fact is left that votes for them.
    """

    def __init__(self, timeline: Timeline, key: Key, earlier: View | None = None) -> None:
        self.key: Key = key
        self.steps, self.relations, entities = (
            timeline.num_steps,
            2 * timeline.num_relations,
            timeline.num_entities,
        )
        directed = both_directions(timeline.facts, timeline.num_relations)
        value = self._value(*directed[:, [0, 1, 3]].unbind(1)).contiguous()
        self.values: Tensor = torch.unique(
            value if earlier is None else torch.cat([value, earlier.values])
        )
        of_fact = torch.searchsorted(self.values, value)
        # Facts of one key and time stand in no order of theirs: when not all may vote, chance decides, always alike.
        order = torch.argsort(scattered(directed))
        order = order[torch.argsort((of_fact * self.steps + directed[:, 3])[order], stable=True)]
        directed, of_fact = directed[order], of_fact[order]
        keys = torch.arange(len(self.values) + 2, device=directed.device)

        self.relation, self.time = directed[:, 1].contiguous(), directed[:, 3].contiguous()
        self.fact = order % len(timeline.facts)
        """Which train fact each is, whichever its direction, [2 facts]."""
        self._place = torch.argsort(order)
        self.joint = of_fact * self.steps + self.time
        self.start = torch.searchsorted(of_fact, keys)
        """The facts of key k are at start[k]:start[k + 1], [keys + 2]."""
        voted = of_fact * entities + directed[:, 2]
        distinct = torch.unique(
            voted if earlier is None else torch.cat([voted, self._pairs_of(earlier, entities)])
        )
        place = torch.searchsorted(distinct, voted)
        self.candidate_start = torch.searchsorted(distinct, keys * entities)
        """The distinct candidates of key k are candidates[candidate_start[k]:candidate_start[k + 1]], [keys + 2]."""
        self.candidates, self.candidate_count = (
            distinct % entities,
            torch.bincount(place, minlength=len(distinct)),
        )
        self.most_candidates = int(self.candidate_start.diff().max())
        self.slot = place - self.candidate_start[of_fact]
        """The number of each fact's candidate among those of its key, [2 facts]."""

    def keys_of(self, queries: Queries) -> Tensor:
        """The numbers of the questions' keys, [n]."""
        place = equal_range(self.values, self._value(*queries))
        return torch.where(place.lengths > 0, place.start, len(self.values))

    def _pairs_of(self, other: View, entities: int) -> Tensor:
        """The distinct pairs (key, candidate) of a view all of whose keys are known here, as numbers, [pairs]."""
        key = torch.repeat_interleave(
            torch.searchsorted(self.values, other.values), other.candidate_start.diff()[:-1]
        )
        pairs: Tensor = key * entities + other.candidates
        return pairs

    def place_of(self, earlier: View, entities: int) -> Tensor:
        """Where the candidates of the earlier view stand among those of this one, [pairs]."""
        return torch.searchsorted(self._pairs_of(self, entities), self._pairs_of(earlier, entities))

    def _value(self, entity: Tensor, relation: Tensor, time: Tensor) -> Tensor:
        if self.key == "both":
            return entity * self.relations + relation
        return {
            "entity": entity,
            "relation": relation,
            "time": time,
            "any": torch.zeros_like(time),
        }[self.key]

    def nearest(self, queries: Queries, most: int, removed: Tensor) -> Ranges:
        """At most so many facts of each question's key, those nearest to its time, removed ones not counted, [n]."""
        key, time = self.keys_of(queries), queries.time
        first, stop = self.start[key], self.start[key + 1]
        left = stop - (removed < stop[:, None]).sum(1)
        low, high = first, torch.maximum(first, left - most)
        # The range slides right while the fact behind its end is nearer than the one at its start: by bisection.
        for _ in range(int((high - low).max()).bit_length() if len(key) else 0):
            middle = (low + high) // 2
            slide = (
                time - self._time_at(middle, removed) > self._time_at(middle + most, removed) - time
            )
            slide &= middle < high
            low, high = torch.where(slide, middle + 1, low), torch.where(slide, high, middle)
        after = _past_removed(torch.minimum(low + most, left) - 1, removed) + 1
        return Ranges(torch.minimum(_past_removed(low, removed), after), after)

    def positions_of(self, queries: Queries, fact: Tensor | None) -> Tensor:
        """Where a train fact of each question stands among those of its key, rising; past all if it does not, [n, 2].

        A fact stands there twice when both its directions have the key, as with a loop from an entity to itself.
        """
        key, nowhere = self.keys_of(queries), len(self.time)
        if fact is None:
            return torch.full((len(key), 2), nowhere, device=key.device)
        both = self._place[torch.stack([fact, fact + nowhere // 2], dim=1)]
        there = (both >= self.start[key][:, None]) & (both < self.start[key + 1][:, None])
        return torch.where(there, both, nowhere).sort(1).values

    def _time_at(self, number: Tensor, removed: Tensor) -> Tensor:
        return self.time[_past_removed(number, removed).clamp(max=len(self.time) - 1)]

    def slots(self, queries: Queries) -> Ranges:
        """Where the distinct candidates of each question's key are, [n]."""
        key = self.keys_of(queries)
        return Ranges(self.candidate_start[key], self.candidate_start[key + 1])


def scattered(facts: Tensor) -> Tensor:
    """A number for each fact that looks drawn by chance and depends on the fact alone.   [n, 4] -> [n]."""
    number = torch.zeros(len(facts), dtype=torch.int64, device=facts.device)
    for column in facts.unbind(1):
        # Products wrap around, which is what scatters them.
        number = (number + column + 1) * 0x5851F42D4C957F2D
        number = number ^ (number >> 29)
    return number


def _past_removed(number: Tensor, removed: Tensor) -> Tensor:
    """The positions of facts that are numbered without the removed ones, at most two, rising.   [n], [n, 2] -> [n]."""
    number = number + (removed[:, 0] <= number)
    return number + (removed[:, 1] <= number)
