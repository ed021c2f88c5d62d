"""Negatives that the queries of a step share, and how often each is expected to be drawn.

A softmax over all entities is estimated without bias by the sum over drawn entities of
exp(score) / (expected number of draws), whatever the distribution they are drawn from.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import equal_range
from tempograph.training.settings import Sampling

_POWER: Final = 0.75
"""Frequent entities are drawn more often, but less so than they occur in facts."""


class Negatives(NamedTuple):
    """Candidates that groups of queries share."""

    entity: Tensor
    """The entities that are drawn, repetitions included, [groups, count]."""
    log_expected: Tensor
    """The logarithm of the number of times that each is expected to be drawn, [groups, count]."""
    own: tuple[Tensor, Tensor]
    """Pairs (query, column) of candidates that were drawn because of the query's own fact."""


class NegativeSampler:
    """Draws `count` negatives; all entities, once each, if there are no more than that.

    `uniform` and `frequency` draw one entity from each of `count` equally likely strata, so that
    they rarely repeat themselves. `batch` takes entities of the facts of the step, and `mixed` one
    half from the step and the other uniformly, which reaches entities that have few facts.
    """

    def __init__(self, facts: Tensor, num_entities: int, count: int, sampling: Sampling) -> None:
        self.num_entities = num_entities
        self.count = min(count, num_entities)
        self.sampling = sampling
        self.num_facts = len(facts)
        self.facts_of = torch.bincount(facts[:, [0, 2]].flatten(), minlength=num_entities).double()
        """How often each entity occurs in a train fact, [entities]."""
        self.cumulative = (self.facts_of + 1).pow(_POWER).cumsum(0)

    def draw(self, facts: Tensor, groups: int, generator: torch.Generator) -> Negatives:
        """Negatives for both queries of each fact of a step, objects first.   facts [n, 4].

        `batch` and `mixed` draw for one group, and suppose that the facts are a random sample.
        """
        nothing = facts.new_empty(0)
        if self.count == self.num_entities:
            entity = torch.arange(self.num_entities, device=facts.device).expand(groups, -1)
            return Negatives(entity, torch.zeros_like(entity, dtype=torch.double), (nothing,) * 2)
        if self.sampling == "frequency":
            entity = self._by_frequency(self._points(groups, self.count, generator))
            total, share = self.cumulative[-1], (self.facts_of[entity] + 1).pow(_POWER)
            return Negatives(entity, torch.log(self.count * share / total), (nothing,) * 2)
        if self.sampling == "uniform":
            points = self._points(groups, self.count, generator)
            entity = self._uniform(points)
            expected = torch.full_like(points, math.log(self.count / self.num_entities))
            return Negatives(entity, expected, (nothing,) * 2)
        return self._from_step(facts, generator)

    def _from_step(self, facts: Tensor, generator: torch.Generator) -> Negatives:
        """The entities of the first facts of a step; if `mixed`, then as many uniform ones.

        Those of a query's own fact do not count for it: the other n - 1 facts are drawn from all
        other train facts.
        """
        n = len(facts)
        wanted = self.count // 2 if self.sampling == "mixed" else self.count
        used = min(n, max(1, wanted // 2))
        entity = facts[:used, [0, 2]].T.flatten()
        rest = max(0, self.count - 2 * used) if self.sampling == "mixed" else 0
        if rest:
            uniform = self._uniform(self._points(1, rest, generator)[0])
            entity = torch.cat([entity, uniform])
        draws = used * (n - 1) / (n * max(1, self.num_facts - 1))
        expected = draws * self.facts_of[entity] + rest / self.num_entities
        number = torch.arange(used, device=facts.device)
        query = torch.cat([number, number, number + n, number + n])
        column = torch.cat([number, number + used]).repeat(2)
        return Negatives(entity[None], torch.log(expected)[None], (query, column))

    def _points(self, groups: int, count: int, generator: torch.Generator) -> Tensor:
        """A random number from each of `count` equal parts of [0, 1), [groups, count]."""
        device = self.facts_of.device
        shift = torch.rand(groups, count, dtype=torch.double, device=device, generator=generator)
        return (shift + torch.arange(count, device=device)) / count

    def _uniform(self, points: Tensor) -> Tensor:
        return (points * self.num_entities).long().clamp(max=self.num_entities - 1)

    def _by_frequency(self, points: Tensor) -> Tensor:
        entity = torch.searchsorted(self.cumulative, points * self.cumulative[-1], right=True)
        return entity.clamp(max=self.num_entities - 1)


def columns_of(
    row: Tensor, entity: Tensor, group: Tensor, negatives: Tensor, num_entities: int
) -> tuple[Tensor, Tensor]:
    """Where the entities of pairs (query, entity) are among the negatives of the query's group.

    row, entity [pairs], group [queries], negatives [groups, count] -> (query, column), [matches].
    """
    groups = torch.arange(len(negatives), device=negatives.device)[:, None]
    keys, order = (groups * num_entities + negatives).flatten().sort()
    pair, position = equal_range(keys, group[row] * num_entities + entity).expand()
    return row[pair], order[position] % negatives.shape[1]
