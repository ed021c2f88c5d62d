"""Known answers, which filtered ranking (`evaluation.ranking`) and the losses leave out."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph
from tempograph.data.sorted_ranges import Ranges, equal_range
from tempograph.data.spans import EVENT_COLUMNS
from tempograph.data.suggestions import refuse_unknown
from tempograph.data.timeline import Queries, both_directions
from tempograph.typing import FILTERS, Filter


class KnownAnswers:
    """The known answers to a query: the entities that complete it to one of the given facts.

    Filter `time` uses the facts that hold at the step, `static` those of any step, `raw` none.
    facts [n, 4] of events or [n, 6] of facts that hold for a while.
    """

    def __init__(
        self, facts: Tensor, sizes: tuple[int, int, int, int], filter: Filter = "time"
    ) -> None:
        refuse_unknown("filter", filter, FILTERS)
        self.filter: Filter = filter
        self.num_entities, self.num_relations, _, self.num_steps = sizes
        if facts.shape[1] == EVENT_COLUMNS or filter == "static":
            facts = facts[:, :EVENT_COLUMNS]
        facts = both_directions(facts if filter != "raw" else facts[:0], self.num_relations)
        self._span: tuple[Tensor, Tensor] | None = None
        """The first and last step of each row if facts hold for a while, [rows] each."""
        self._keyed_by_step = filter != "static" and facts.shape[1] == EVENT_COLUMNS
        # One row for each distinct (query, answer), sorted by query; with its span if it has one.
        key = self._key(Queries(facts[:, 0], facts[:, 1], facts[:, 3]))
        if facts.shape[1] == EVENT_COLUMNS:
            distinct, number = torch.unique(key, return_inverse=True)
            pairs = torch.unique(number * self.num_entities + facts[:, 2])
            self._query_key = distinct[pairs // self.num_entities]
            self._answer = pairs % self.num_entities
        else:
            rows = torch.unique(torch.column_stack([key, facts[:, 2:5]]), dim=0)
            self._query_key, self._answer = rows[:, 0].contiguous(), rows[:, 1].contiguous()
            self._span = rows[:, 2].contiguous(), rows[:, 3].contiguous()

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
        if self._span is None:
            return row, self._answer[position]
        holds = self._holds(position, queries.time[row])
        pair = torch.unique(row[holds] * self.num_entities + self._answer[position[holds]])
        return pair // self.num_entities, pair % self.num_entities

    def padded_answers(self, queries: Queries, answer: Tensor) -> tuple[Tensor, Tensor]:
        """The same pairs, padded to `max_answers` per query with its own answer [n].

        The number of pairs is known without waiting for a GPU.
        """
        ranges = self._ranges(queries)
        position = ranges.start[:, None] + torch.arange(self.max_answers, device=answer.device)
        inside = position < ranges.stop[:, None]
        position = position.clamp(max=max(0, len(self._answer) - 1))
        if self._span is not None:
            inside = inside & self._holds(position, queries.time[:, None])
        row = torch.arange(len(answer), device=answer.device)[:, None].expand_as(position)
        padded = torch.where(inside, self._answer[position], answer[:, None])
        return row.flatten(), padded.flatten()

    @cached_property
    def max_answers(self) -> int:
        """The largest number of known answers to one query, or of facts behind them."""
        counts = torch.unique_consecutive(self._query_key, return_counts=True)[1]
        return int(counts.max()) if len(counts) else 0

    def answers_by_relation(self) -> Tensor:
        """The distinct answers to each relation, as relation * entities + answer, ascending."""
        pair = self._query_key // self.num_steps if self._keyed_by_step else self._query_key
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
        return pair * self.num_steps + queries.time if self._keyed_by_step else pair

    def _holds(self, position: Tensor, time: Tensor) -> Tensor:
        """Whether the facts at positions hold at times."""
        assert self._span is not None
        start, end = self._span
        return (start[position] <= time) & (time <= end[position])
