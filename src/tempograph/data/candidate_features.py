"""What train facts tell of each candidate of a question: how often it stood in facts like it, and how near in time."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.data.common_neighbors import CommonNeighbors
from tempograph.data.frequency import refuse_uncountable
from tempograph.data.sorted_ranges import key_range
from tempograph.data.timeline import Queries, Timeline, both_directions

SHARED: Final = ("sr", "s", "r", "")
"""What a fact shares with a question beside the candidate: its entity and relation, one of them, or nothing."""
_STEEPNESS: Final = 1000.0
"""Of how well an entity knows a candidate through others before the logarithm: mostly a thousandth to ten."""


class _Met(NamedTuple):
    """Facts sorted by (what is shared, candidate, time); the first two as the place of their value."""

    values: Tensor
    """Each value of (what is shared, candidate) that occurs, ascending."""
    counts: Tensor
    """How many facts have it."""
    keys: Tensor
    """(place of the value, time) of each fact, ascending."""
    place: Tensor
    """Where each fact stands among the keys; those asking for subjects after those asking for objects."""


class CandidateFeatures:
    """The train facts of a timeline as each question sees its candidates, sorted once."""

    def __init__(self, timeline: Timeline, through_others: bool = False) -> None:
        self.sizes = timeline.num_entities, 2 * timeline.num_relations
        self.num_steps = timeline.num_steps
        refuse_uncountable(timeline)
        facts = both_directions(timeline.facts, timeline.num_relations)
        self._met = {shared: self._sorted(shared, facts) for shared in SHARED}
        self._known = CommonNeighbors.of(timeline) if through_others else None
        self.told = 2 * len(SHARED) + through_others
        """How many numbers are told of a candidate."""

    def of_candidates(self, queries: Queries, left_out: Tensor | None = None) -> Tensor:
        """log(1 + number of facts) and log(1 + steps to the nearest), for all that may be shared, [n, entities, told].

        What never happened is as far as there are steps. Where it is asked for, how well the entity knows the candidate
        through others comes last. Left_out [n] is for each question the position of a fact that is as if it were not
        there, or -1.
        """
        told = torch.empty(len(queries.time), self.sizes[0], self.told, device=queries.time.device)
        gone = torch.full_like(queries.time, -1) if left_out is None else left_out
        for number, shared in enumerate(SHARED):
            value = self._value(shared, queries.entity, queries.relation)
            # Questions of one time and, say, one relation see the same.
            asked, which = torch.unique(
                torch.stack([value, queries.time, gone], 1), dim=0, return_inverse=True
            )
            found = self._of_each(self._met[shared], asked, left_out is not None)
            told[:, :, 2 * number : 2 * number + 2] = found[which]
        if self._known is not None:
            asked, which = torch.unique(
                torch.stack([queries.entity, gone], 1), dim=0, return_inverse=True
            )
            known, _ = self._known.through_others(self._known.ask(*asked.unbind(1)))
            told[:, :, -1] = torch.log1p(_STEEPNESS * known)[which]
        return told

    def _of_each(self, met: _Met, asked: Tensor, without: bool) -> Tensor:
        """The two numbers of every candidate for (what is shared, time, fact left out), [n, 3] -> [n, entities, 2]."""
        (shared, time, gone), entities = asked.unbind(1), self.sizes[0]
        told = torch.zeros(len(time), entities, 2, device=time.device)
        told[:, :, 1] = math.log1p(self.num_steps)
        first = shared * entities
        row, value = key_range(met.values, first, first + entities - 1).expand()
        count = met.counts[value]
        # A fact that is left out may stand on either side of the time, and a loop does so twice.
        beside = (-3, -2, -1, 0, 1, 2) if without else (-1, 0)
        near = torch.searchsorted(met.keys, value * self.num_steps + time[row])[:, None]
        near = near + torch.tensor(beside, device=row.device)
        key = met.keys[near.clamp(0, max(0, len(met.keys) - 1))]
        there = (near >= 0) & (near < len(met.keys)) & (key // self.num_steps == value[:, None])
        if without:
            for direction in met.place.chunk(2):
                place = torch.where(gone < 0, -1, direction[gone])[row]
                its_value = torch.where(place < 0, -1, met.keys[place] // self.num_steps)
                count = count - (its_value == value).long()
                there &= near != place[:, None]
        gap = (
            (key % self.num_steps - time[row][:, None])
            .abs()
            .masked_fill(~there, self.num_steps)
            .amin(1)
        )
        told[row, met.values[value] - first[row]] = torch.stack([count, gap], 1).float().log1p()
        return told

    def _sorted(self, shared: str, facts: Tensor) -> _Met:
        entity, relation, candidate, time = facts.unbind(1)
        value = self._value(shared, entity, relation) * self.sizes[0] + candidate
        values, which, counts = torch.unique(value, return_inverse=True, return_counts=True)
        keys, order = torch.sort(which * self.num_steps + time)
        place = torch.empty_like(order).scatter_(
            0, order, torch.arange(len(order), device=order.device)
        )
        return _Met(values, counts, keys, place)

    def _value(self, shared: str, entity: Tensor, relation: Tensor) -> Tensor:
        value = torch.zeros_like(entity)
        if "s" in shared:
            value = entity
        return value * self.sizes[1] + relation if "r" in shared else value
