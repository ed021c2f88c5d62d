"""Who has met whom in train facts, and how well entities know each other through others."""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import equal_range, key_range
from tempograph.data.timeline import Timeline
from tempograph.device import memory_budget

_MANY: Final = 256
"""Questions at once for which such tables are made."""
_AT_ONCE: Final = 1024
"""Rows of a table that are made at once."""
ROUNDING: Final = 1e-6
"""The share of a sum below which what is left of it, once the paths over a fact are taken out, is nothing."""


def pair_tables_fit(entities: int, device: torch.device) -> bool:
    """Whether there is room for what so many entities know of each other: two numbers for each pair."""
    return 8 * entities**2 <= memory_budget("pair_tables", device)


class Asked(NamedTuple):
    """Whose acquaintances are looked at, and what changes without a fact that is as if it were not there, [n] each."""

    entity: Tensor
    one: Tensor
    """The entities of that fact, one and the other; any where there is no such fact."""
    other: Tensor
    parted: Tensor
    """Whom the entity has met in that fact alone; -1 for nobody."""
    by_one: Tensor
    """What w(s, x) / (1 + d(x)) gains where x is the one, and the other."""
    by_other: Tensor
    to_one: Tensor
    """What the sum gains besides where the candidate is the one, and the other."""
    to_other: Tensor

    def part(self, some: slice) -> Asked:
        """Some of the questions."""
        return Asked(*(column[some] for column in self))

    def pack(self) -> Tensor:
        """All of it in one tensor, [8, n]."""
        numbers = torch.stack(self[4:]).float().view(torch.int32)
        return torch.cat([torch.stack(self[:4]).int(), numbers])

    @staticmethod
    def unpack(packed: Tensor) -> Asked:
        """What was packed, or some columns of it."""
        return Asked(*packed[:4].long(), *packed[4:].contiguous().view(torch.float32))


class Tables(NamedTuple):
    """How well entities know all others through others, and w, with a row for each entity that a question needs."""

    through_others: Tensor
    """[rows, entities]; that of a question's entity is where it is in w."""
    weight: Tensor
    """[rows, entities]."""
    rows: Tensor
    """Of the entity, the one and the other of each question, [3, n]."""

    def part(self, some: slice) -> Tables:
        """The same for some of the questions."""
        return self._replace(rows=self.rows[:, some])


class CommonNeighbors:
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
        self.weight = self.count.double().log1p()
        self.degree = torch.bincount(self.keys // self.entities, minlength=self.entities)
        self.fits = pair_tables_fit(self.entities, self.keys.device)
        """Whether there is room for tables of all pairs."""

    @staticmethod
    def of(timeline: Timeline) -> CommonNeighbors:
        """Those of a timeline, the same for all who ask: tables are large."""
        if timeline not in _MADE:
            _MADE[timeline] = CommonNeighbors(timeline)
        return _MADE[timeline]

    def _met(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Subject and object of facts, where they are one entity far below 0."""
        subject, object_ = facts[:, 0], facts[:, 2]
        nobody = subject == object_
        return torch.where(nobody, -self.entities, subject), torch.where(
            nobody, -self.entities, object_
        )

    def ask(self, entity: Tensor, fact: Tensor | None = None) -> Asked:
        """Questions about entities [n], as if train facts [n] were not there; -1 for none.

        The two entities of such a fact have met once less, and if that was the only time each of them has met one
        fewer.
        """
        fact = torch.full_like(entity, -1) if fact is None else fact
        one, other = self._met(self.facts[fact.clamp(min=0)])
        gone = (fact >= 0) & (one >= 0)
        one, other = one.clamp(min=0), other.clamp(min=0)
        times = self.times(one, other)
        last = gone & (times == 1)
        less = torch.where(
            gone, (times - 1).clamp(min=0).double().log1p() - times.double().log1p(), 0
        )
        is_one, is_other = entity == one, entity == other

        def nearness(x: Tensor, is_beyond: Tensor) -> tuple[Tensor, Tensor]:
            """w(s, x) / (1 + d(x)) with the fact and without it."""
            weight, degree = self.times(entity, x).double().log1p(), self.degree[x]
            return weight / (1 + degree), (weight + less * is_beyond) / (1 + degree - last.long())

        near_one, near_one_without = nearness(one, is_other)
        near_other, near_other_without = nearness(other, is_one)
        whom = torch.where(is_one, other, torch.where(is_other, one, -1))
        return Asked(
            entity,
            one,
            other,
            torch.where(last, whom, -1),
            by_one=near_one_without - near_one,
            by_other=near_other_without - near_other,
            to_one=near_other_without * less,
            to_other=near_one_without * less,
        )

    def through_others(
        self, asked: Asked, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """How well questions' entities know all through others, and whether they have met, [n, entities] each."""
        return look_up(self.tables(asked, dtype), asked)

    def tables(self, asked: Asked, dtype: torch.dtype) -> Tables:
        """What is looked up, with every fact: of all entities where there is room, or of those asked."""
        if self.fits and len(asked.entity) >= _MANY and dtype == torch.float32:
            return Tables(*self._of_all, torch.stack(asked[:3]))
        named = torch.cat(asked[:3])
        table = self._rows(asked.entity).to(dtype)
        return Tables(
            table,
            self._weights(named, dtype),
            torch.arange(len(named), device=named.device).view(3, -1),
        )

    @cached_property
    def _of_all(self) -> tuple[Tensor, Tensor]:
        """How well all know each other through others, and w, [entities, entities] each."""
        tables = torch.empty(2, self.entities, self.entities, device=self.keys.device)
        for some in torch.split(torch.arange(self.entities, device=self.keys.device), _AT_ONCE):
            tables[0, some], tables[1, some] = (
                self._rows(some).float(),
                self._weights(some, torch.float32),
            )
        return tables[0], tables[1]

    def _weights(self, entity: Tensor, dtype: torch.dtype) -> Tensor:
        """The w of entities and all others, [n] -> [n, entities]."""
        row, position = key_range(
            self.keys, entity * self.entities, (entity + 1) * self.entities - 1
        ).expand()
        weights = torch.zeros(len(entity), self.entities, dtype=dtype, device=entity.device)
        weights[row, self.keys[position] % self.entities] = self.weight[position].to(dtype)
        return weights

    def _rows(self, entity: Tensor) -> Tensor:
        """How well entities know all others through others, themselves included, [n] -> [n, entities]."""
        near = self._weights(entity, torch.float64).div_(1 + self.degree)
        return (self._sparse @ near.T).T.contiguous()

    @cached_property
    def _sparse(self) -> Tensor:
        """The w of all pairs, where it is not 0, [entities, entities]."""
        pairs = torch.stack([self.keys // self.entities, self.keys % self.entities])
        with torch.sparse.check_sparse_tensor_invariants(enable=False):  # type: ignore[no-untyped-call]
            return torch.sparse_coo_tensor(
                pairs, self.weight, 2 * [self.entities], is_coalesced=True
            )

    def times(self, one: Tensor, other: Tensor) -> Tensor:
        """How many facts pairs have, [n]."""
        place = equal_range(self.keys, one * self.entities + other)
        if not len(self.count):
            return torch.zeros_like(one)
        return torch.where(
            place.lengths > 0, self.count[place.start.clamp(max=len(self.count) - 1)], 0
        )

    def facts_between(self, entity: int, others: Tensor) -> tuple[Tensor, Tensor]:
        """The train facts of an entity with any of others, a mask [entities], and with whom each is, [facts] each."""
        subject, object_ = self._met(self.facts)
        whom = torch.where(subject == entity, object_, torch.where(object_ == entity, subject, -1))
        fact = ((whom >= 0) & others[whom.clamp(min=0)]).nonzero()[:, 0]
        return fact, whom[fact]


_MADE: Final[WeakKeyDictionary[Timeline, CommonNeighbors]] = WeakKeyDictionary()


def look_up(tables: Tables, asked: Asked) -> tuple[Tensor, Tensor]:
    """What `CommonNeighbors.through_others` finds, from the tables of the same questions."""
    (own, *rows), every = tables.rows, torch.arange(len(asked.entity), device=asked.entity.device)
    with_all = tables.through_others.index_select(0, own)
    sums = with_all.clone()
    for row, more in zip(rows, (asked.by_one, asked.by_other), strict=True):
        # Mostly one of the two is the question's entity, over which no path of its own goes.
        some = more.nonzero()[:, 0]
        sums.index_add_(
            0, some, tables.weight.index_select(0, row[some]).mul_(more[some, None].to(sums.dtype))
        )
    for candidate, more in ((asked.one, asked.to_one), (asked.other, asked.to_other)):
        sums[every, candidate] += more.to(sums.dtype)
    sums.masked_fill_(sums <= with_all.mul_(ROUNDING), 0)
    sums[every, asked.entity] = 0
    met = tables.weight.index_select(0, own) > 0
    met[every, asked.parted.clamp(min=0)] &= asked.parted < 0
    return sums, met
