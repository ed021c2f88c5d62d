"""Candidate facts: what a candidate did nearest in time says whether it may be the answer.

Who was born twenty years before may play for a team; who died before does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from tempograph.data.fact_index import FactIndex
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.nn.shared_weights import copy_sharing_weights

_BINS: Final = 24
"""Bins of the steps since the end of a fact, or until its start; the last has all longer gaps."""
_PER_OCTAVE: Final = 2
_HOLDS: Final = 4 * _BINS
"""The first of four classes of facts that hold: whether one begins, and whether one ends."""
CLASSES: Final = _HOLDS + 4
_CELLS: Final = 2**22
"""Pairs of a group and a step whose classes are found together."""
_FAR: Final = 2**29
"""Later than any step."""


class CandidateQueries(NamedTuple):
    """The times of queries, and the classes without the facts that do not count, [n] each."""

    time: Tensor
    row: Tensor
    """The query of each group whose class differs from the table, [changed]."""
    group: Tensor
    """The group, [changed]."""
    changed: Tensor
    """Its class without the fact, -1 if it has no other, [changed]."""


class CandidateFacts(nn.Module):
    """contribution(o) = sum over relations r' of facts of o of F[r, r', class]

    The class is that of the fact of o with r' nearest in time, in either direction: how many steps
    ago it ended or until it begins, and whether its other bound is unknown; or that it holds, and
    whether one of them begins or ends at the step. The asked fact does not count while training.

    A *group* is an entity with a directed relation. A table holds the class of each group at each
    step, one byte each.
    """

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        relations = 2 * timeline.num_relations
        self.weight = nn.Parameter(torch.zeros(relations, relations, CLASSES))
        self._index(timeline)

    def _index(self, timeline: Timeline) -> None:
        self.num_steps, self.num_entities = timeline.num_steps, timeline.num_entities
        self.index = index = FactIndex(timeline, "both")
        self.end = timeline.fact_end[index.fact_id]
        self.unknown = timeline.unknown_bounds[index.fact_id]
        self.facts, self.relations = timeline.facts, 2 * timeline.num_relations
        self.group_entity = index.values // self.relations
        self.group_relation = index.values % self.relations
        self.table = self._make_table()
        """The class of each group at each step, [groups, steps]."""

    @staticmethod
    def table_bytes(timeline: Timeline) -> int:
        """Memory of the table, at most."""
        return 2 * len(timeline.facts) * timeline.num_steps

    @property
    def bytes_per_candidate(self) -> int:
        """Memory of one (query, entity) pair, the groups spread over all entities."""
        return 4 + 24 * -(-len(self.group_entity) // self.num_entities)

    def with_timeline(self, timeline: Timeline) -> CandidateFacts:
        """The same weights for other facts."""
        twin = copy_sharing_weights(self)
        twin._index(timeline)
        return twin

    def _make_table(self) -> Tensor:
        groups, steps = len(self.index.values), self.num_steps
        table = torch.empty(groups, steps, dtype=torch.uint8, device=self.end.device)
        for first, stop in _blocks(groups, max(1, _CELLS // steps)):
            rows = slice(int(self.index.key_start[first]), int(self.index.key_start[stop]))
            start, end, unknown = self.index.time[rows], self.end[rows], self.unknown[rows].long()
            base = (self.index.row_key[rows] - first) * (steps + 1)
            size = (stop - first, steps + 1)

            def at(cell: Tensor, value: Tensor, fill: int, how: str, size: Any = size) -> Tensor:
                result = torch.full(size, fill, dtype=torch.int64, device=cell.device)
                result.view(-1).scatter_reduce_(0, cell, value, how)
                return result

            # Of facts at one distance, a class is that of one with an unknown bound.
            ended = at(base + end + 1, 2 * end + unknown, -1, "amax").cummax(1).values
            later = at(base + start, 2 * start + 1 - unknown, 2 * _FAR, "amin")
            later = later.flip(1).cummin(1).values.flip(1)
            holds = at(base + start, torch.ones_like(start), 0, "sum")
            holds -= at(base + end + 1, torch.ones_like(start), 0, "sum")
            begins = at(base + start, torch.ones_like(start), 0, "amax")
            ends = at(base + end, torch.ones_like(start), 0, "amax")
            time = torch.arange(steps + 1, device=end.device)
            found = _classes(time, ended, later, holds.cumsum(1) > 0, begins, ends)
            table[first:stop] = found[:, :steps]
        return table

    def look_up(self, queries: Queries, left_out: Tensor | None = None) -> CandidateQueries:
        """The times of the queries, and what changes without the train facts left_out [n]."""
        none = queries.time[:0]
        if left_out is None:
            return CandidateQueries(queries.time, none, none, none)
        subject, relation, object_, _ = self.facts[left_out].unbind(1)
        inverse = relation + self.relations // 2
        value = torch.cat([subject * self.relations + relation, object_ * self.relations + inverse])
        group, fact = self.index.find_keys(value), left_out.repeat(2)
        row = torch.arange(len(queries.time), device=value.device).repeat(2)
        return CandidateQueries(
            queries.time, row, group, self._classes_without(group, queries.time[row], fact)
        )

    def _classes_without(self, group: Tensor, time: Tensor, fact: Tensor) -> Tensor:
        """The classes of groups at times without some facts, -1 if there are no others, [n]."""
        query, position = self.index.all_rows(group).expand()
        kept = self.index.fact_id[position] != fact[query]
        query, position = query[kept], position[kept]
        start, end, now = self.index.time[position], self.end[position], time[query]
        unknown = self.unknown[position].long()

        def best(where: Tensor, value: Tensor, fill: int, how: str) -> Tensor:
            result = torch.full_like(time, fill)
            return result.scatter_reduce_(0, query[where], value[where], how)

        one = torch.ones_like(start)
        holds = (start <= now) & (now <= end)
        found = _classes(
            time,
            best(end < now, 2 * end + unknown, -1, "amax"),
            best(start > now, 2 * start + 1 - unknown, 2 * _FAR, "amin"),
            best(holds, one, 0, "amax") > 0,
            best(start == now, one, 0, "amax"),
            best(end == now, one, 0, "amax"),
        )
        return torch.where(torch.bincount(query, minlength=len(time)) > 0, found, -1)

    def forward(
        self,
        scores: Tensor,
        relation: Tensor,
        queries: CandidateQueries,
        sample: VoteSample | None = None,
    ) -> Tensor:
        """Add the contributions to scores [n, entities] of queries with relations [n].

        A sample has no effect: tables are not made again in every training step.
        """
        # Queries of one relation and step have the same contributions, but for the asked facts.
        distinct, row = torch.unique(relation * self.num_steps + queries.time, return_inverse=True)
        asked, time = distinct // self.num_steps, distinct % self.num_steps
        of_group = self.group_relation * CLASSES
        cell = self.table[:, time].long() + of_group[:, None]
        cell += asked * self.weight[0].numel()
        contribution = self.weight.flatten().index_select(0, cell.flatten()).view_as(cell)
        total = scores.new_zeros(self.num_entities, len(asked))
        total = total.index_add(0, self.group_entity, contribution)
        scores = scores + total.T.index_select(0, row)
        if not len(queries.row):
            return scores
        group, query = queries.group, queries.row
        usual = self.table[group, queries.time[query]].long()
        flat, base = self.weight.flatten(), relation[query] * self.relations
        base = (base + self.group_relation[group]) * CLASSES
        without = flat[base + queries.changed.clamp(min=0)] * (queries.changed >= 0)
        at = (query, self.group_entity[group])
        return scores.index_put(at, without - flat[base + usual], accumulate=True)

    def fact_contributions(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """No fact is named: a relation that a candidate lacks speaks as well."""
        return query.entity[:0], self.weight[:0, 0, 0]


def _classes(
    time: Tensor, ended: Tensor, later: Tensor, holds: Tensor, begins: Tensor, ends: Tensor
) -> Tensor:
    """The class at a time of facts of which these are the nearest.

    ended: twice the last end before it, plus 1 if the end is unknown, -1 for none; later: twice the
    first start after it, plus 1 unless the start is unknown.
    """
    since = torch.where(ended < 0, _FAR, time - ended.div(2, rounding_mode="floor"))
    until = later.div(2, rounding_mode="floor") - time
    before = since <= until
    unknown = torch.where(before, ended % 2, 1 - later % 2)
    gap = torch.minimum(since, until)
    bins = (_PER_OCTAVE * torch.log2(gap.clamp(min=1).double())).long().clamp(max=_BINS - 1)
    away = (2 * before.long() + unknown) * _BINS + bins
    return torch.where(holds, _HOLDS + 2 * begins.clamp(max=1) + ends.clamp(max=1), away)


def _blocks(count: int, size: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + size, count)) for first in range(0, count, size))
