"""Who has met whom in train facts, and how well entities know each other through others."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.ranges import equal_range, key_range
from tempograph.timeline import Timeline

_DENSE: Final = 8
"""A table of all pairs of entities is made where at least one of so many has met."""


class Asked(NamedTuple):
    """Whose acquaintances are looked at, and the train fact that is as if it were not there, -1 for none, [n] each."""

    entity: Tensor
    fact: Tensor

    def pack(self) -> Tensor:
        """Both in one tensor of half the size, [2, n]."""
        return torch.stack(self).int()


class Acquaintances:
    """Which entities have met in train facts, whatever the relation and the time, and how often.

    s knows o through others by the sum over x of w(s, x) w(x, o) / (1 + d(x)), with w = log(1 + facts of the two) and d
    the number of entities that one has met; nobody meets himself.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.facts, self.entities = timeline.facts, timeline.num_entities
        subject, object_ = self._met(self.facts)
        both = torch.cat([subject * self.entities + object_, object_ * self.entities + subject])
        self.keys, self.count = torch.unique(both[both >= 0], return_counts=True)
        """Pairs of those who have met as entity * entities + other, ascending, and their facts, [pairs] each."""
        one, other = self.keys // self.entities, self.keys % self.entities
        self.degree = torch.bincount(one, minlength=self.entities)
        met = torch.sparse_coo_tensor(
            torch.stack([one, other]),
            self.count.float(),
            2 * [self.entities],
            is_coalesced=True,
            check_invariants=False,
        )
        self.met = met.to_dense() if _DENSE * len(one) >= self.entities**2 else met
        """The facts of every pair, [entities, entities]."""

    def _met(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Subject and object of facts, where they are one entity far below 0."""
        subject, object_ = facts[:, 0], facts[:, 2]
        nobody = subject == object_
        return torch.where(nobody, -self.entities, subject), torch.where(nobody, -self.entities, object_)

    def through_others(self, asked: Asked, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """How well questions' entities know every entity through others, and whether they have met, [n, entities] each.

        As if a fact were not there: its two entities have met once less, and if that was the only time each of them has
        met one fewer.
        """
        entity, every = asked.entity, torch.arange(len(asked.entity), device=asked.entity.device)
        subject, object_ = self._met(self.facts[asked.fact.clamp(min=0)])
        gone = (asked.fact >= 0) & (subject >= 0)
        subject, object_ = subject.clamp(min=0), object_.clamp(min=0)
        times = self.times(subject, object_) * gone
        row, position = key_range(self.keys, entity * self.entities, (entity + 1) * self.entities - 1).expand()
        other = self.keys[position] % self.entities
        of_fact = (other == subject[row]) | (other == object_[row])
        own = (entity == subject) | (entity == object_)
        count = self.count[position] - ((gone & own)[row] & of_fact).long()
        degree = self.degree[other] - ((times == 1)[row] & of_fact).long()
        near = torch.zeros(self.entities, len(entity), dtype=dtype, device=entity.device)
        near[other, row] = count.to(dtype).log1p() / (1 + degree)
        sums = (self.met.to(dtype).log1p() @ near).T.contiguous()
        less = torch.where(gone, (times - 1).clamp(min=0).to(dtype).log1p() - times.to(dtype).log1p(), 0)
        sums[every, object_] += near[subject, every] * less
        sums[every, subject] += near[object_, every] * less
        sums[every, entity] = 0
        return sums.clamp_(min=0), (near > 0).T.contiguous()

    def times(self, one: Tensor, other: Tensor) -> Tensor:
        """How many facts pairs have, [n]."""
        place = equal_range(self.keys, one * self.entities + other)
        if not len(self.count):
            return torch.zeros_like(one)
        return torch.where(place.lengths > 0, self.count[place.start.clamp(max=len(self.count) - 1)], 0)

    def facts_between(self, entity: int, others: Tensor) -> tuple[Tensor, Tensor]:
        """The train facts of an entity with any of others, a mask [entities], and with whom each is, [facts] each."""
        subject, object_ = self._met(self.facts)
        whom = torch.where(subject == entity, object_, torch.where(object_ == entity, subject, -1))
        fact = ((whom >= 0) & others[whom.clamp(min=0)]).nonzero()[:, 0]
        return fact, whom[fact]
