"""Index of the train facts by what they share with a query: entity, relation, both or time."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import Ranges, equal_range
from tempograph.data.timeline import Queries, Timeline, both_directions

Key = Literal["entity", "relation", "both", "time", "any"]
"""What a fact must share with a query: its entity, its relation, both, its time, or nothing."""


class FactIndex:
    """Train facts in both directions, sorted by (key, time).

    The facts of a key that are nearest to a time are one contiguous range. A fact (x, r', o, t')
    names the candidate o. Candidates are numbered within each key, so sums over facts need memory
    for the distinct candidates of a key only, not for all entities. The last key is empty: queries
    whose key no fact has map to it. The candidates of an `earlier` index keep their slots, even
    those that no fact names any more.
    """

    def __init__(self, timeline: Timeline, key: Key, earlier: FactIndex | None = None) -> None:
        self.key: Key = key
        self.num_steps, entities = timeline.num_steps, timeline.num_entities
        self.num_directed_relations = 2 * timeline.num_relations
        directed = both_directions(timeline.facts, timeline.num_relations)
        value = self._key_values(*directed[:, [0, 1, 3]].unbind(1)).contiguous()
        self.values: Tensor = torch.unique(
            value if earlier is None else torch.cat([value, earlier.values])
        )
        key_id = torch.searchsorted(self.values, value)
        # Facts of one key and step are shuffled by a hash: which of them are within the limit on
        # facts is random, but reproducible.
        order = torch.argsort(hash_facts(directed))
        order = order[torch.argsort((key_id * self.num_steps + directed[:, 3])[order], stable=True)]
        directed, key_id = directed[order], key_id[order]
        keys = torch.arange(len(self.values) + 2, device=directed.device)

        self.relation, self.time = directed[:, 1].contiguous(), directed[:, 3].contiguous()
        self.fact_id = order % len(timeline.facts)
        """The train fact behind each row, in either direction, [2 facts]."""
        self._position = torch.argsort(order)
        self.key_time = key_id * self.num_steps + self.time
        """Sort key (key, time) of each row, [2 facts]."""
        self.key_start = torch.searchsorted(key_id, keys)
        """Rows of key k are key_start[k]:key_start[k + 1], [keys + 2]."""
        pair = key_id * entities + directed[:, 2]
        distinct = torch.unique(
            pair if earlier is None else torch.cat([pair, self._pairs(earlier, entities)])
        )
        pair_id = torch.searchsorted(distinct, pair)
        self.candidate_start = torch.searchsorted(distinct, keys * entities)
        """The candidates of key k are candidates[candidate_start[k]:candidate_start[k + 1]]."""
        self.candidates = distinct % entities
        self.candidate_count = torch.bincount(pair_id, minlength=len(distinct))
        """Facts that name each candidate of each key, [candidates]."""
        self.max_candidates = int(self.candidate_start.diff().max())
        self.candidate_slot = pair_id - self.candidate_start[key_id]
        """The number of each row's candidate within its key, [2 facts]."""

    def key_ids(self, queries: Queries) -> Tensor:
        """The key of each query, [n]; the last, empty key if no fact shares it."""
        matches = equal_range(self.values, self._key_values(*queries))
        return torch.where(matches.lengths > 0, matches.start, len(self.values))

    def _pairs(self, other: FactIndex, entities: int) -> Tensor:
        """The (key, candidate) pairs of an index whose keys exist here, as integers, [pairs]."""
        key = torch.repeat_interleave(
            torch.searchsorted(self.values, other.values), other.candidate_start.diff()[:-1]
        )
        pairs: Tensor = key * entities + other.candidates
        return pairs

    def candidate_positions(self, earlier: FactIndex, entities: int) -> Tensor:
        """Positions of the earlier index's candidates among the candidates of this one, [pairs]."""
        return torch.searchsorted(self._pairs(self, entities), self._pairs(earlier, entities))

    def _key_values(self, entity: Tensor, relation: Tensor, time: Tensor) -> Tensor:
        if self.key == "both":
            return entity * self.num_directed_relations + relation
        if self.key == "any":
            return torch.zeros_like(time)
        return {"entity": entity, "relation": relation, "time": time}[self.key]

    def nearest(self, queries: Queries, max_facts: int, removed: Tensor) -> Ranges:
        """The rows of each query's key nearest to its time, at most `max_facts`, [n].

        removed [n, 2]: positions of rows that do not count, from `fact_positions`.
        """
        key, time = self.key_ids(queries), queries.time
        first, stop = self.key_start[key], self.key_start[key + 1]
        stop_without = stop - (removed < stop[:, None]).sum(1)
        low, high = first, torch.maximum(first, stop_without - max_facts)
        # Bisection: the range slides right while the row after its end is nearer than its first.
        for _ in range(int((high - low).max()).bit_length() if len(key) else 0):
            middle = (low + high) // 2
            gap_before = time - self._time_at(middle, removed)
            slide = gap_before > self._time_at(middle + max_facts, removed) - time
            slide &= middle < high
            low, high = torch.where(slide, middle + 1, low), torch.where(slide, high, middle)
        end = _skip_removed(torch.minimum(low + max_facts, stop_without) - 1, removed) + 1
        return Ranges(torch.minimum(_skip_removed(low, removed), end), end)

    def fact_positions(self, queries: Queries, fact: Tensor | None) -> Tensor:
        """The rows of one train fact per query within the query's key, ascending, [n, 2].

        A fact has two rows there if both its directions have the key, as loops do. Rows that do not
        exist are given as the number of rows.
        """
        key, missing = self.key_ids(queries), len(self.time)
        if fact is None:
            return torch.full((len(key), 2), missing, device=key.device)
        both = self._position[torch.stack([fact, fact + missing // 2], dim=1)]
        inside = (both >= self.key_start[key][:, None]) & (both < self.key_start[key + 1][:, None])
        return torch.where(inside, both, missing).sort(1).values

    def _time_at(self, number: Tensor, removed: Tensor) -> Tensor:
        return self.time[_skip_removed(number, removed).clamp(max=len(self.time) - 1)]

    def candidate_ranges(self, queries: Queries) -> Ranges:
        """The range of `candidates` that belongs to each query's key, [n]."""
        key = self.key_ids(queries)
        return Ranges(self.candidate_start[key], self.candidate_start[key + 1])


def hash_facts(facts: Tensor) -> Tensor:
    """A hash of each fact that looks random and depends on the fact alone.   [n, 4] -> [n]."""
    number = torch.zeros(len(facts), dtype=torch.int64, device=facts.device)
    for column in facts.unbind(1):
        # The product overflows on purpose: that is what mixes the bits.
        number = (number + column + 1) * 0x5851F42D4C957F2D
        number = number ^ (number >> 29)
    return number


def _skip_removed(number: Tensor, removed: Tensor) -> Tensor:
    """Positions of rows numbered without the removed ones, which ascend.   [n], [n, 2] -> [n]."""
    number = number + (removed[:, 0] <= number)
    return number + (removed[:, 1] <= number)
