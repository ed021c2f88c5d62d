"""What is known to be true: answers to be taken out before ranking, or out of the loss."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph
from tempograph.data.sorted_ranges import equal_range
from tempograph.data.timeline import Queries, both_directions
from tempograph.errors import refuse_unknown
from tempograph.typing import FILTERS, Filter


class KnownAnswers:
    """The answers that some facts make true for a question.

    Filter `time` counts facts at the same step, `static` facts at any step, `raw` none.
    """

    def __init__(
        self, facts: Tensor, sizes: tuple[int, int, int, int], filter: Filter = "time"
    ) -> None:
        refuse_unknown("filter", filter, FILTERS)
        self.filter: Filter = filter
        self.num_entities, self.num_relations, _, self.num_steps = sizes
        facts = both_directions(facts if filter != "raw" else facts[:0], self.num_relations)
        # One row for each distinct (question, answer), sorted by question.
        key = self._key(Queries(facts[:, 0], facts[:, 1], facts[:, 3]))
        question, place = torch.unique(key, return_inverse=True)
        pairs = torch.unique(place * self.num_entities + facts[:, 2])
        self._question = question[pairs // self.num_entities]
        self._answer = pairs % self.num_entities

    @staticmethod
    def of(
        graph: TemporalGraph, filter: Filter = "time", device: torch.device | str = "cpu"
    ) -> KnownAnswers:
        """The answers that the facts of every split make true, to take out before ranks are reported."""
        return KnownAnswers(torch.from_numpy(graph.all_facts).to(device), graph.sizes, filter)

    @staticmethod
    def to_fit_on_valid(graph: TemporalGraph, device: torch.device | str = "cpu") -> KnownAnswers:
        """The answers that train and valid make true: what is fitted on valid must not learn from test."""
        return KnownAnswers(
            torch.from_numpy(np.concatenate([graph.train, graph.valid])).to(device), graph.sizes
        )

    def __call__(self, queries: Queries) -> tuple[Tensor, Tensor]:
        """Distinct pairs (row of the question, known answer), [pairs] each."""
        row, position = equal_range(self._question, self._key(queries)).expand()
        return row, self._answer[position]

    def padded(self, queries: Queries, answer: Tensor) -> tuple[Tensor, Tensor]:
        """The same pairs, `most` for each question; one that has fewer is filled up with its own answer [n].

        How many pairs that makes is known without waiting for a GPU.
        """
        places = equal_range(self._question, self._key(queries))
        position = places.start[:, None] + torch.arange(self.most, device=answer.device)
        known = self._answer[position.clamp(max=max(0, len(self._answer) - 1))]
        row = torch.arange(len(answer), device=answer.device)[:, None].expand_as(position)
        return row.flatten(), torch.where(
            position < places.stop[:, None], known, answer[:, None]
        ).flatten()

    @cached_property
    def most(self) -> int:
        """Answers of the question that has most."""
        return (
            int(torch.unique_consecutive(self._question, return_counts=True)[1].max())
            if len(self._question)
            else 0
        )

    def among(self, queries: Queries, entities: Tensor) -> Tensor:
        """Which entities [n, count] are known answers to their questions."""
        question, entity = self(queries)
        keys = (question * self.num_entities + entity).sort().values
        wanted = (
            torch.arange(len(entities), device=entities.device)[:, None] * self.num_entities
            + entities
        )
        return equal_range(keys, wanted).lengths > 0

    def _key(self, queries: Queries) -> Tensor:
        pair = queries.entity * 2 * self.num_relations + queries.relation
        return pair if self.filter == "static" else pair * self.num_steps + queries.time
