"""Sampled candidates that an answer is ranked among, drawn by the rules of TGB 2.0."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import Queries
from tempograph.errors import ConfigError
from tempograph.evaluation.keyed_permutation import hash_key, permute

SEED: Final = 42


class RelationNegatives:
    """Draws entities that are answers to a query's relation at some time, but not at its time.

    These are the negatives of tkgl-wikidata. The pool of a relation holds every entity that is an
    answer to it in any fact, of all splits. A query gets `count` entities of the pool that are not
    known answers to it. If there are fewer, it gets all of them, and the rest is drawn from all
    other entities. As in py-tgb, these may be known answers, even the right one.

    All facts with one query share its negatives. They depend on the query and the seed, not on
    which queries are asked together or on the device. py-tgb draws others from the same pools.
    """

    def __init__(self, known: KnownAnswers, count: int, seed: int = SEED) -> None:
        entities = known.num_entities
        if count > entities:
            raise ConfigError(
                f"cannot sample {count:,} candidates from {entities:,} entities; "
                "take fewer negatives, or rank among all entities"
            )
        self.count, self._known, self._seed = count, known, seed
        self._pairs = known.answers_by_relation()
        """The pools: relation * entities + entity, ascending."""
        relations = torch.arange(2 * known.num_relations + 1, device=self._pairs.device)
        self._start = torch.searchsorted(self._pairs, relations * entities)

    def __call__(self, queries: Queries) -> Tensor:
        """Distinct entities for each query, [n, count]."""
        free, negatives = self._from_pool(queries)
        few = (free < self.count).nonzero()[:, 0]
        negatives[few] = self._fill(queries.take(few), free[few], negatives[few])
        return negatives

    def _from_pool(self, queries: Queries) -> tuple[Tensor, Tensor]:
        """How many of the pool are not known answers [n], and some of these, [n, count].

        If there are fewer than `count`, they come first, in ascending order; the rest is arbitrary.
        """
        relation, num_queries = queries.relation, len(queries.relation)
        row, answer = self._known(queries)
        start = self._start[relation]
        known_in_row = torch.bincount(row, minlength=num_queries)
        first = known_in_row.cumsum(0) - known_in_row
        free = self._start[relation + 1] - start - known_in_row
        index = torch.arange(self.count, device=relation.device).expand(num_queries, -1).clone()
        many = (free > self.count).nonzero()[:, 0]
        key = hash_key(self._seed, *queries)
        index[many] = permute(index[many], free[many], key[many])
        # Known answers come in ascending order. Position p in the pool of the k-th of them means
        # that p - k others are before it, so an index among the others must skip it if it is not
        # smaller.
        pair = relation[row] * self._known.num_entities + answer
        position = torch.searchsorted(self._pairs, pair) - start[row]
        before = position - (torch.arange(len(row), device=row.device) - first[row])
        span = len(self._pairs) + self.count
        rows = torch.arange(num_queries, device=row.device)[:, None]
        skipped = torch.searchsorted(row * span + before, rows * span + index, right=True)
        chosen = start[:, None] + index + skipped - first[:, None]
        pairs = self._pairs[chosen.clamp(max=len(self._pairs) - 1)]
        return free, pairs % self._known.num_entities

    def _fill(self, queries: Queries, free: Tensor, negatives: Tensor) -> Tensor:
        """Replace all but the first `free` [n] of the negatives [n, count] by other entities."""
        index, entities = torch.arange(self.count, device=free.device), self._known.num_entities
        drawn = index < free[:, None]
        key = hash_key(self._seed + 1, *queries)
        others = permute((index - free[:, None]).clamp(min=0), entities - free, key)
        # As above: an index among the others skips the drawn entities that are not larger.
        before = (negatives - index).masked_fill(~drawn, entities)
        others = others + torch.searchsorted(before, others, right=True)
        return torch.where(drawn, negatives, others)
