"""Known answers, which filtered ranking (`evaluation.ranking`) and the losses leave out."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph
from tempograph.data.sorted_ranges import Ranges, equal_range
from tempograph.data.suggestions import refuse_unknown
from tempograph.data.timeline import Queries, both_directions
from tempograph.typing import FILTERS, Filter


class KnownAnswers:
    """The known answers to a query: the entities that complete it to one of the given facts.

    Filter `time` uses the facts of the same step, `static` those of any step, `raw` none.
    """

    def __init__(
        self, facts: Tensor, sizes: tuple[int, int, int, int], filter: Filter = "time"
    ) -> None:
        refuse_unknown("filter", filter, FILTERS)
        self.filter: Filter = filter
        self.num_entities, self.num_relations, _, self.num_steps = sizes
        facts = both_directions(facts if filter != "raw" else facts[:0], self.num_relations)
        # One row for each distinct (query, answer), sorted by query.
        key = self._key(Queries(facts[:, 0], facts[:, 1], facts[:, 3]))
        distinct, number = torch.unique(key, return_inverse=True)
        pairs = torch.unique(number * self.num_entities + facts[:, 2])
        self._query_key = distinct[pairs // self.num_entities]
        self._answer = pairs % self.num_entities

    @staticmethod
    def from_graph(
        graph: TemporalGraph, filter: Filter = "time", device: torch.device | str = "cpu"
    ) -> KnownAnswers:
        """The answers known from all splits, for ranks that are reported."""
        return KnownAnswers(torch.from_numpy(graph.all_facts).to(device), graph.sizes, filter)

    @staticmethod
    def from_train_and_valid(
        graph: TemporalGraph, device: torch.device | str = "cpu"
    ) -> KnownAnswers:
        """The answers known from train and valid: what is fitted on valid must not see test."""
        facts = torch.from_numpy(np.concatenate([graph.train, graph.valid]))
        return KnownAnswers(facts.to(device), graph.sizes)

    def __call__(self, queries: Queries) -> tuple[Tensor, Tensor]:
        """Distinct pairs (row of the query, known answer), [pairs] each."""
        row, position = self._ranges(queries).expand()
        return row, self._answer[position]

    def padded_answers(self, queries: Queries, answer: Tensor) -> tuple[Tensor, Tensor]:
        """The same pairs, padded to `max_answers` per query with its own answer [n].

        The number of pairs is known without waiting for a GPU.
        """
        ranges = self._ranges(queries)
        position = ranges.start[:, None] + torch.arange(self.max_answers, device=answer.device)
        known = self._answer[position.clamp(max=max(0, len(self._answer) - 1))]
        row = torch.arange(len(answer), device=answer.device)[:, None].expand_as(position)
        padded = torch.where(position < ranges.stop[:, None], known, answer[:, None])
        return row.flatten(), padded.flatten()

    @cached_property
    def max_answers(self) -> int:
        """The largest number of known answers to one query."""
        counts = torch.unique_consecutive(self._query_key, return_counts=True)[1]
        return int(counts.max()) if len(counts) else 0

    def answers_by_relation(self) -> Tensor:
        """The distinct answers to each relation, as relation * entities + answer, ascending."""
        pair = self._query_key if self.filter == "static" else self._query_key // self.num_steps
        relation = pair % (2 * self.num_relations)
        pairs: Tensor = torch.unique(relation * self.num_entities + self._answer)
        return pairs

    def contains(self, queries: Queries, entities: Tensor) -> Tensor:
        """Which entities [n, count] are known answers to their query."""
        row, answer = self(queries)
        keys = (row * self.num_entities + answer).sort().values
        rows = torch.arange(len(entities), device=entities.device)[:, None]
        return equal_range(keys, rows * self.num_entities + entities).lengths > 0

    def _ranges(self, queries: Queries) -> Ranges:
        return equal_range(self._query_key, self._key(queries))

    def _key(self, queries: Queries) -> Tensor:
        pair = queries.entity * 2 * self.num_relations + queries.relation
        return pair if self.filter == "static" else pair * self.num_steps + queries.time
