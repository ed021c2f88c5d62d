"""Features of each candidate of a query: how many train facts name it, and how near in time."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.data.common_neighbors import CommonNeighbors
from tempograph.data.frequency import check_countable
from tempograph.data.name_similarity import NameSimilarity
from tempograph.data.sorted_ranges import key_range
from tempograph.data.timeline import Queries, Timeline, both_directions

SHARED: Final = ("sr", "s", "r", "")
"""What a fact shares with the query beside the candidate: entity and relation, one, or nothing."""
_PATH_SCALE: Final = 1000.0
"""Factor of a path score before the logarithm: most are between a thousandth and ten."""


class _SortedFacts(NamedTuple):
    """Facts sorted by (shared part, candidate, time); a group is one (shared part, candidate)."""

    groups: Tensor
    """Groups that occur, ascending."""
    counts: Tensor
    """Facts of each group."""
    keys: Tensor
    """(group number, time) of each fact, ascending."""
    position: Tensor
    """Where each fact is in `keys`: object queries of all facts first, then subject queries."""
    ends: tuple[Tensor, Tensor] | None = None
    """`keys` and `position` by end, if facts hold for a while."""


class CandidateFeatures:
    """Features of the candidates of queries, from train facts that are sorted once."""

    def __init__(
        self, timeline: Timeline, through_others: bool = False, names: bool = False
    ) -> None:
        check_countable(timeline)
        self.num_entities, self.num_steps = timeline.num_entities, timeline.num_steps
        self.past_only = timeline.past_only
        self.num_directed_relations = 2 * timeline.num_relations
        facts = both_directions(timeline.facts, timeline.num_relations)
        self._spans: tuple[Tensor, Tensor] | None = None
        """The start and end of each train fact, if facts hold for a while."""
        if timeline.has_intervals:
            self._spans = timeline.facts[:, 3], timeline.fact_end
        self._facts = {shared: self._sort(shared, facts) for shared in SHARED}
        self._neighbors = CommonNeighbors.for_timeline(timeline) if through_others else None
        self._names = NameSimilarity(timeline) if names else None
        self.num_features = 2 * len(SHARED) + through_others + names

    def compute(self, queries: Queries, left_out: Tensor | None = None) -> Tensor:
        """log(1 + facts) and log(1 + steps to the nearest fact), for each entry of `SHARED`.

        A fact that holds at the step is 0 steps away. If the timeline is past-only, facts before
        the query alone. Returns [n, entities, num_features]. Without any fact the distance is the
        number of steps. With `through_others` there is the path score of `CommonNeighbors`, with
        `names` the `NameSimilarity` to the query's entity. left_out [n] is the position of a train
        fact that does not count for a query, or -1.
        """
        size = len(queries.time), self.num_entities, self.num_features
        features = torch.empty(size, device=queries.time.device)
        excluded = torch.full_like(queries.time, -1) if left_out is None else left_out
        for number, shared in enumerate(SHARED):
            value = self._shared_value(shared, queries.entity, queries.relation)
            # Queries of one time and, say, one relation have the same features.
            distinct, inverse = torch.unique(
                torch.stack([value, queries.time, excluded], 1), dim=0, return_inverse=True
            )
            pair = self._count_and_distance(self._facts[shared], distinct, left_out is not None)
            features[:, :, 2 * number : 2 * number + 2] = pair[inverse]
        if self._neighbors is not None:
            distinct, inverse = torch.unique(
                torch.stack([queries.entity, excluded], 1), dim=0, return_inverse=True
            )
            scores, _ = self._neighbors.path_scores(self._neighbors.queries(*distinct.unbind(1)))
            features[:, :, 2 * len(SHARED)] = torch.log1p(_PATH_SCALE * scores)[inverse]
        if self._names is not None:
            distinct, inverse = torch.unique(queries.entity, return_inverse=True)
            features[:, :, -1] = self._names(distinct)[inverse]
        return features

    def _count_and_distance(self, facts: _SortedFacts, rows: Tensor, exclude: bool) -> Tensor:
        """Both features of every candidate; rows (shared part, time, excluded fact) [n, 3]."""
        (shared, time, excluded), entities = rows.unbind(1), self.num_entities
        features = torch.zeros(len(time), entities, 2, device=time.device)
        features[:, :, 1] = math.log1p(self.num_steps)
        first = shared * entities
        row, group = key_range(facts.groups, first, first + entities - 1).expand()
        # The excluded fact may be on either side of the time, twice if it is a loop.
        offsets: tuple[int, ...] = (-3, -2, -1, 0, 1, 2) if exclude else (-1, 0)
        here = torch.searchsorted(facts.keys, group * self.num_steps + time[row])[:, None]
        count = facts.counts[group]
        if self.past_only:
            offsets = tuple(offset for offset in offsets if offset < 0)
            count = here[:, 0] - torch.searchsorted(facts.keys, group * self.num_steps)
        gone = []
        if exclude:
            for direction in facts.position.chunk(2):
                position = torch.where(excluded < 0, -1, direction[excluded])[row]
                its_group = torch.where(position < 0, -1, facts.keys[position] // self.num_steps)
                counted = its_group == group
                if self.past_only:
                    counted &= position < here[:, 0]
                count = count - counted.long()
                gone.append(position)
        now = time[row]
        if facts.ends is None:
            distance = self._distance(facts.keys, here, offsets, group, now, gone)
        else:
            held, distance = self._interval_distance(facts, group, now, excluded[row], gone)
            distance = distance.masked_fill(held > 0, 0)
        pair = torch.stack([count, distance], 1).float().log1p()
        features[row, facts.groups[group] - first[row]] = pair
        return features

    def _distance(
        self,
        keys: Tensor,
        here: Tensor,
        offsets: tuple[int, ...],
        group: Tensor,
        time: Tensor,
        gone: list[Tensor],
    ) -> Tensor:
        """Steps from times [m] to the nearest of the keys at offsets from `here` [m, 1], [m].

        Only keys of the same group count, and not those at the positions `gone` [m] each.
        """
        near = here + torch.tensor(offsets, device=time.device)
        key = keys[near.clamp(0, max(0, len(keys) - 1))]
        valid = (near >= 0) & (near < len(keys)) & (key // self.num_steps == group[:, None])
        for position in gone:
            valid &= near != position[:, None]
        distance = (key % self.num_steps - time[:, None]).abs()
        return distance.masked_fill(~valid, self.num_steps).amin(1)

    def _interval_distance(
        self, facts: _SortedFacts, group: Tensor, time: Tensor, excluded: Tensor, gone: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """How many facts of groups [m] hold at times [m], and the distance to the others, [m]."""
        assert facts.ends is not None and self._spans is not None
        ends, end_position = facts.ends
        cell = group * self.num_steps + time
        begun = torch.searchsorted(facts.keys, cell, right=True)
        ended = torch.searchsorted(ends, cell)
        held, gone_ends = begun - ended, []
        start, end = self._spans
        holds = (start[excluded] <= time) & (time <= end[excluded]) & (excluded >= 0)
        for direction, position in zip(end_position.chunk(2), gone, strict=False):
            its_group = torch.where(position < 0, -1, facts.keys[position] // self.num_steps)
            held = held - (holds & (its_group == group)).long()
            gone_ends.append(torch.where(excluded < 0, -1, direction[excluded]))
        before, after = ((-3, -2, -1), (0, 1, 2)) if gone else ((-1,), (0,))
        return held, torch.minimum(
            self._distance(ends, ended[:, None], before, group, time, gone_ends),
            self._distance(facts.keys, begun[:, None], after, group, time, gone),
        )

    def _sort(self, shared: str, facts: Tensor) -> _SortedFacts:
        entity, relation, candidate, time = facts.unbind(1)
        value = self._shared_value(shared, entity, relation) * self.num_entities + candidate
        groups, group, counts = torch.unique(value, return_inverse=True, return_counts=True)
        keys, order = torch.sort(group * self.num_steps + time)
        ends = None
        if self._spans is not None:
            end_keys, end_order = torch.sort(group * self.num_steps + self._spans[1].repeat(2))
            ends = end_keys, torch.argsort(end_order)
        return _SortedFacts(groups, counts, keys, torch.argsort(order), ends)

    def _shared_value(self, shared: str, entity: Tensor, relation: Tensor) -> Tensor:
        value = entity if "s" in shared else torch.zeros_like(entity)
        return value * self.num_directed_relations + relation if "r" in shared else value
