"""Common neighbors: which entities share train facts, and the two-step paths between them."""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import equal_range, key_range
from tempograph.data.timeline import Timeline
from tempograph.device import memory_budget

_MIN_QUERIES_FOR_TABLES: Final = 256
"""The smallest batch for which building the tables of all pairs pays off."""
_TABLE_ROWS_PER_CHUNK: Final = 1024
_ALLOCATION: Final = Lock()
ROUNDING: Final = 1e-6
"""A path score that falls below this share of itself when a fact is removed counts as 0."""


def pair_tables_fit(entities: int, device: torch.device) -> bool:
    """Whether two float tables of all pairs of entities fit in the memory budget."""
    return 8 * entities**2 <= memory_budget("pair_tables", device)


class NeighborQueries(NamedTuple):
    """Entities whose path scores are wanted, each without one removed train fact, [n] each."""

    entity: Tensor
    removed_subject: Tensor
    """Any entity if no fact is removed; likewise the object."""
    removed_object: Tensor
    lost_neighbor: Tensor
    """The neighbor that the entity has through the removed fact alone; -1 for none."""
    delta_via_subject: Tensor
    """Change of w(s, x) / (1 + d(x)) where x is the removed fact's subject."""
    delta_via_object: Tensor
    delta_to_subject: Tensor
    """Further change of the score where the candidate is the removed fact's subject."""
    delta_to_object: Tensor

    def take(self, rows: slice) -> NeighborQueries:
        """Some of the queries."""
        return NeighborQueries(*(column[rows] for column in self))

    def pack(self) -> Tensor:
        """All columns in one int32 tensor, [8, n]."""
        numbers = torch.stack(self[4:]).float().view(torch.int32)
        return torch.cat([torch.stack(self[:4]).int(), numbers])

    @staticmethod
    def unpack(packed: Tensor) -> NeighborQueries:
        """The queries behind a packed tensor or some columns of it."""
        return NeighborQueries(*packed[:4].long(), *packed[4:].contiguous().view(torch.float32))


class NeighborTables(NamedTuple):
    """Path scores and weights w before any fact is removed, [rows, entities] each."""

    path_scores: Tensor
    weight: Tensor
    rows: Tensor
    """Rows of each query's entity, removed subject and removed object, [3, n].

    The first are rows of both tables, the others of `weight`.
    """

    def take(self, rows: slice) -> NeighborTables:
        """The tables of some of the queries."""
        return self._replace(rows=self.rows[:, rows])


class CommonNeighbors:
    """Which entities share train facts, whatever the relation and the time, and how many.

    path_score(s, o) = sum over x of w(s, x) w(x, o) / (1 + d(x)), with w = log(1 + facts of the
    pair) and d the number of neighbors; no entity is its own neighbor.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.facts, self.num_entities = timeline.facts, timeline.num_entities
        subject, object_ = self._endpoints(self.facts)
        both = torch.cat(
            [subject * self.num_entities + object_, object_ * self.num_entities + subject]
        )
        self.keys, self.count = torch.unique(both[both >= 0], return_counts=True)
        """Pairs of neighbors as entity * num_entities + neighbor, ascending, and their facts."""
        self.weight = self.count.double().log1p()
        self.degree = torch.bincount(self.keys // self.num_entities, minlength=self.num_entities)
        self.tables_fit = pair_tables_fit(self.num_entities, self.keys.device)
        self._pair_tables: Tensor | None = None
        self._rows_made = 0

    @staticmethod
    def for_timeline(timeline: Timeline) -> CommonNeighbors:
        """The common neighbors of a timeline, shared by all callers: the tables are large."""
        if timeline not in _SHARED:
            _SHARED[timeline] = CommonNeighbors(timeline)
        return _SHARED[timeline]

    def _endpoints(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Subject and object of each fact, negative for loops."""
        subject, object_ = facts[:, 0], facts[:, 2]
        loop = subject == object_
        nobody = -self.num_entities
        return torch.where(loop, nobody, subject), torch.where(loop, nobody, object_)

    def queries(self, entity: Tensor, fact: Tensor | None = None) -> NeighborQueries:
        """Queries for entities [n] as if the train facts [n] did not exist; -1 removes none.

        Without the fact its two entities share one fact less. If it was their only one, each has
        one neighbor less.
        """
        fact = torch.full_like(entity, -1) if fact is None else fact
        subject, object_ = self._endpoints(self.facts[fact.clamp(min=0)])
        removed = (fact >= 0) & (subject >= 0)
        subject, object_ = subject.clamp(min=0), object_.clamp(min=0)
        count = self.fact_counts(subject, object_)
        last = removed & (count == 1)
        weight_change = torch.where(
            removed, (count - 1).clamp(min=0).double().log1p() - count.double().log1p(), 0
        )
        is_subject, is_object = entity == subject, entity == object_

        def weight_over_degree(x: Tensor, is_other: Tensor) -> tuple[Tensor, Tensor]:
            """w(s, x) / (1 + d(x)) with the fact and without it."""
            weight, degree = self.fact_counts(entity, x).double().log1p(), self.degree[x]
            without = (weight + weight_change * is_other) / (1 + degree - last.long())
            return weight / (1 + degree), without

        via_subject, via_subject_without = weight_over_degree(subject, is_object)
        via_object, via_object_without = weight_over_degree(object_, is_subject)
        neighbor = torch.where(is_subject, object_, torch.where(is_object, subject, -1))
        return NeighborQueries(
            entity,
            subject,
            object_,
            torch.where(last, neighbor, -1),
            delta_via_subject=via_subject_without - via_subject,
            delta_via_object=via_object_without - via_object,
            delta_to_subject=via_object_without * weight_change,
            delta_to_object=via_subject_without * weight_change,
        )

    def path_scores(
        self, queries: NeighborQueries, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """Path scores to every entity, and whether it is a neighbor, [n, entities] each."""
        return look_up_paths(self.tables(queries, dtype), queries)

    def tables(self, queries: NeighborQueries, dtype: torch.dtype) -> NeighborTables:
        """The tables to look queries up in: of all entities if they fit, else of those queried."""
        if self.tables_fit and dtype == torch.float32:
            if len(queries.entity) >= _MIN_QUERIES_FOR_TABLES:
                self.make_rows(self.num_entities)
            if self._pair_tables is not None and self._rows_made == self.num_entities:
                scores, weights = self._pair_tables
                return NeighborTables(scores, weights, torch.stack(queries[:3]))
        entities = torch.cat(queries[:3])
        return NeighborTables(
            self._path_scores(queries.entity).to(dtype),
            self._weights(entities, dtype),
            torch.arange(len(entities), device=entities.device).view(3, -1),
        )

    # A table that was made in inference mode could not be filled outside of it.
    @torch.inference_mode(False)
    def make_rows(self, count: int) -> bool:
        """Make the next rows of the tables of all pairs, if they fit; return whether more are left.

        Once all are made, small batches look paths up in the tables as well. Two threads may make
        the same rows.
        """
        if not self.tables_fit:
            return False
        with _ALLOCATION:
            if self._pair_tables is None:
                self._pair_tables = torch.empty(
                    2, self.num_entities, self.num_entities, device=self.keys.device
                )
        first, last = self._rows_made, min(self.num_entities, self._rows_made + count)
        scores, weights = self._pair_tables
        for rows in torch.split(
            torch.arange(first, last, device=self.keys.device), _TABLE_ROWS_PER_CHUNK
        ):
            scores[rows] = self._path_scores(rows).float()
            weights[rows] = self._weights(rows, torch.float32)
        self._rows_made = max(self._rows_made, last)
        return last < self.num_entities

    def _weights(self, entity: Tensor, dtype: torch.dtype) -> Tensor:
        """Weights w between entities and all others, [n] -> [n, entities]."""
        first = entity * self.num_entities
        row, position = key_range(self.keys, first, first + self.num_entities - 1).expand()
        weights = torch.zeros(len(entity), self.num_entities, dtype=dtype, device=entity.device)
        weights[row, self.keys[position] % self.num_entities] = self.weight[position].to(dtype)
        return weights

    def _path_scores(self, entity: Tensor) -> Tensor:
        """Path scores from entities to all, themselves included, [n] -> [n, entities]."""
        scaled = self._weights(entity, torch.float64).div_(1 + self.degree)
        return (self._sparse_weights @ scaled.T).T.contiguous()

    @cached_property
    def _sparse_weights(self) -> Tensor:
        """Weights w of all pairs as a sparse tensor, [entities, entities]."""
        pairs = torch.stack([self.keys // self.num_entities, self.keys % self.num_entities])
        with torch.sparse.check_sparse_tensor_invariants(enable=False):
            return torch.sparse_coo_tensor(
                pairs, self.weight, 2 * [self.num_entities], is_coalesced=True
            )

    def fact_counts(self, entity: Tensor, other: Tensor) -> Tensor:
        """Train facts that each pair of entities shares, [n]."""
        if not len(self.count):
            return torch.zeros_like(entity)
        matches = equal_range(self.keys, entity * self.num_entities + other)
        return torch.where(
            matches.lengths > 0, self.count[matches.start.clamp(max=len(self.count) - 1)], 0
        )

    def facts_between(self, entity: int, others: Tensor) -> tuple[Tensor, Tensor]:
        """Train facts of an entity with any of others, and the other entity of each, [facts] each.

        others: mask [entities].
        """
        subject, object_ = self._endpoints(self.facts)
        other = torch.where(subject == entity, object_, torch.where(object_ == entity, subject, -1))
        fact = ((other >= 0) & others[other.clamp(min=0)]).nonzero()[:, 0]
        return fact, other[fact]


_SHARED: Final[WeakKeyDictionary[Timeline, CommonNeighbors]] = WeakKeyDictionary()


def look_up_paths(tables: NeighborTables, queries: NeighborQueries) -> tuple[Tensor, Tensor]:
    """`CommonNeighbors.path_scores`, from the tables of the same queries."""
    (own, *rows), every = tables.rows, torch.arange(len(queries.entity), device=tables.rows.device)
    with_all = tables.path_scores.index_select(0, own)
    scores = with_all.clone()
    for row, delta in zip(rows, (queries.delta_via_subject, queries.delta_via_object), strict=True):
        # Usually one of the two is the query's entity, through which no path of its own leads.
        some = delta.nonzero()[:, 0]
        weights = tables.weight.index_select(0, row[some])
        scores.index_add_(0, some, weights.mul_(delta[some, None].to(scores.dtype)))
    scores[every, queries.removed_subject] += queries.delta_to_subject.to(scores.dtype)
    scores[every, queries.removed_object] += queries.delta_to_object.to(scores.dtype)
    scores.masked_fill_(scores <= with_all.mul_(ROUNDING), 0)
    scores[every, queries.entity] = 0
    is_neighbor = tables.weight.index_select(0, own) > 0
    is_neighbor[every, queries.lost_neighbor.clamp(min=0)] &= queries.lost_neighbor < 0
    return scores, is_neighbor
