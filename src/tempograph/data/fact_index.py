"""Index of the train facts by what they share with a query: entity, relation, both or time."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from tempograph.data.sorted_facts import SortedFacts
from tempograph.data.sorted_ranges import Ranges
from tempograph.data.timeline import Queries, Timeline, both_directions

Key = Literal["entity", "relation", "both", "time", "any"]
"""What a fact must share with a query: its entity, its relation, both, its time, or nothing."""


class FactIndex(SortedFacts):
    """Train facts sorted by what they share with a query, and the candidates that they name.

    A fact (x, r', o, t') names the candidate o. Candidates are numbered within each key, so sums
    over facts need memory for the distinct candidates of a key only, not for all entities. The
    candidates of an `earlier` index keep their slots, even those that no fact names any more.
    """

    def __init__(self, timeline: Timeline, key: Key, earlier: FactIndex | None = None) -> None:
        self.key: Key = key
        self.num_entities = timeline.num_entities
        self.num_directed_relations = 2 * timeline.num_relations
        directed, entities = (
            both_directions(timeline.facts, timeline.num_relations),
            timeline.num_entities,
        )
        value = self._key_values(*directed[:, [0, 1, 3]].unbind(1)).contiguous()
        super().__init__(timeline, value, None if earlier is None else earlier.values)
        keys = torch.arange(len(self.values) + 2, device=directed.device)
        pair = self.row_key * entities + self.rows[:, 2]
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
        self.occurrence = _occurrences(pair_id) if self.past_only else pair_id[:0]
        """How many rows up to each one name its candidate, if only the past counts, [2 facts]."""
        self.next_row = _next_rows(pair_id) if self.past_only else pair_id[:0]
        """The next row of the key that names each row's candidate, or the number of rows if none
        does; [2 facts] if only the past counts."""
        self.candidate_slot = pair_id - self.candidate_start[self.row_key]
        """The number of each row's candidate within its key, [2 facts]."""

    @cached_property
    def answer(self) -> Tensor:
        """The candidate that each row names, [2 facts]."""
        return self.rows[:, 2].contiguous()

    @cached_property
    def candidate_keys(self) -> Tensor:
        """key * entities + candidate of each candidate of each key, ascending, [candidates]."""
        return self._pairs(self, self.num_entities)

    def row_counts(self, count_all: bool) -> Tensor:
        """How many facts name each row's candidate, up to it if only the past counts, [2 facts].

        Empty if all facts are to count, whether any of them votes or not.
        """
        if self.past_only or count_all:
            return self.occurrence
        return self.candidate_count[self.candidate_start[self.row_key] + self.candidate_slot]

    def key_ids(self, queries: Queries) -> Tensor:
        """The key of each query, [n]; the last, empty key if no fact shares it."""
        return self.find_keys(self._key_values(*queries))

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

        removed [n, at most 2]: positions of rows that do not count, from `fact_positions`.
        """
        return self.nearest_rows(self.key_ids(queries), queries.time, max_facts, removed)

    def fact_positions(self, queries: Queries, fact: Tensor | None) -> Tensor:
        """The rows of one train fact per query within the query's key, ascending, [n, 2].

        Rows that do not exist are given as the number of rows.
        """
        return self.positions_of(self.key_ids(queries), fact)

    def candidate_ranges(self, queries: Queries) -> Ranges:
        """The range of `candidates` that belongs to each query's key, [n]."""
        return self.candidates_of(self.key_ids(queries))

    def candidates_of(self, key: Tensor) -> Ranges:
        """The range of `candidates` that belongs to each key, [n]."""
        return Ranges(self.candidate_start[key], self.candidate_start[key + 1])


def _occurrences(group: Tensor) -> Tensor:
    """The number of each member within its group, from 1, in the order given, [n]."""
    ordered, order = torch.sort(group, stable=True)
    position = torch.arange(len(group), device=group.device)
    within = position - torch.searchsorted(ordered, ordered) + 1
    return torch.empty_like(within).scatter_(0, order, within)


def _next_rows(group: Tensor) -> Tensor:
    """The position of the next member of each member's group, or the number of members, [n]."""
    ordered, order = torch.sort(group, stable=True)
    following = torch.where(
        ordered == ordered.roll(-1), order.roll(-1), torch.full_like(order, len(group))
    )
    if len(group):
        following[-1] = len(group)
    return torch.empty_like(following).scatter_(0, order, following)
