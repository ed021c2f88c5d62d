"""The training loss of the pointer: each fact is queried as if it were not in the data.

A forecaster is asked from the facts before it, as it will be when it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tempograph.data.timeline import Queries, fact_queries
from tempograph.device import memory_budget
from tempograph.models.pointer.candidate_facts import CandidateFacts, CandidateQueries
from tempograph.models.pointer.pointer_model import NAME_WIDTH, Lookup, Pointer
from tempograph.models.pointer.sparse_layout import Lookups, SparseLayout
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.models.sparse_scores import BYTES_PER_CELL, split_by_size
from tempograph.nn.loss_functions import softmax_loss
from tempograph.nn.votes import VoteList
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.settings import PointerTrainSettings

_LOOKUP_BATCH: Final = 2**17
"""Queries that are looked up together before training."""


class PointerLoss(TrainingLoss):
    """The mean loss of both queries of each fact of a batch, the fact itself left out."""

    def __init__(self, model: Pointer, settings: PointerTrainSettings) -> None:
        super().__init__(model.timeline)
        self.model = model
        self.settings = settings

    def batches(self, generator: torch.Generator) -> Sequence[Tensor]:
        """Shuffled positions of train facts, `facts_per_step` in each batch."""
        return self.shuffled_facts(self.settings.facts_per_step, generator)

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """Positions of facts [n] -> a scalar."""
        query_ids = torch.cat([batch, batch + len(self.timeline.facts)])
        sample = self._sample(len(query_ids), generator)
        packed = self._packed(query_ids)
        chunks = self._chunks(len(query_ids), packed)
        if len(chunks) == 1:
            return self._loss(query_ids, packed, sample)
        # Backward computes the scores of one chunk again instead of saving those of all.
        losses = []
        for rows in chunks:
            part = sample
            if sample.name_mask is not None:
                part = sample._replace(name_mask=sample.name_mask[rows])
            columns = None if packed is None else packed[:, rows]
            loss = checkpoint(self._loss, query_ids[rows], columns, part, use_reentrant=False)
            losses.append(len(rows) * loss)
        return torch.stack(losses).sum() / len(query_ids)

    @property
    def layout(self) -> SparseLayout | None:
        """Lays out the candidates that differ from the rest, if there are many entities."""
        return self.model.layout

    def _packed(self, query_ids: Tensor) -> Tensor | None:
        """What was looked up for queries by their id, [8 per source, n].

        None for facts that hold for a while, which are asked at other steps in each epoch.
        """
        if not self.model.packs_lookups:
            return None
        return self._pack(query_ids) if self.layout else self._lookups.index_select(1, query_ids)

    def _chunks(self, num_queries: int, packed: Tensor | None) -> Sequence[Tensor]:
        """Rows of the queries whose scores fit the memory budget together."""
        budget, rows = (
            memory_budget("pointer_loss", self.timeline.device),
            torch.arange(num_queries, device=self.timeline.device),
        )
        if self.layout is None or packed is None:
            bytes_each = self.model.bytes_per_candidate * self.timeline.num_entities
            return torch.split(rows, max(1, budget // bytes_each))
        sizes = self.layout.sizes(cast(Lookups, self._unpack(packed)))
        return split_by_size(rows, sizes, budget // BYTES_PER_CELL)

    def _sample(self, num_queries: int, generator: torch.Generator) -> VoteSample:
        """Draw the train facts that vote in a step, and what counts of the names."""

        def draw(rate: float, *size: int) -> Tensor:
            return torch.rand(*size, device=self.timeline.device, generator=generator) >= rate

        s, fact_mask, name_mask = self.settings, None, None
        if s.fact_dropout:
            fact_mask = draw(s.fact_dropout, len(self.timeline.facts))
        if s.name_dropout and self.model.settings.names:
            name_mask = draw(s.name_dropout, num_queries, NAME_WIDTH) / (1 - s.name_dropout)
        return VoteSample(fact_mask, name_mask)

    @cached_property
    def _queries(self) -> tuple[Queries, Tensor]:
        """Both queries of every train fact, objects first, and their answers, [2 facts] each."""
        return fact_queries(self.timeline.facts, self.timeline.num_relations)

    @cached_property
    def _lookups(self) -> Tensor:
        """What the sources look up for each query without its fact, [8 per source, 2 facts]."""
        ids = torch.arange(2 * len(self.timeline.facts), device=self.timeline.device)
        return torch.cat([self._pack(part) for part in torch.split(ids, _LOOKUP_BATCH)], dim=1)

    def _pack(self, query_ids: Tensor) -> Tensor:
        """What the sources look up for queries by their id, [8 per source, n]."""
        # What is asked from its past alone need not be left out.
        left_out = None if self.timeline.past_only else query_ids % len(self.timeline.facts)
        lookups = self.model.look_up(self._queries[0].take(query_ids), left_out)
        unpacked = (VoteList, CandidateQueries)
        return torch.cat([each.pack() for each in lookups if not isinstance(each, unpacked)])

    def _unpack(self, packed: Tensor) -> list[Lookup]:
        return [
            source.unpack(each)
            for source, each in zip(
                self.model.vote_sources, packed.chunk(len(self.model.sources)), strict=True
            )
            if not isinstance(source, CandidateFacts)
        ]

    def _asked(self, query_ids: Tensor) -> tuple[Queries, Tensor, Tensor]:
        """Queries by their id at the steps of this epoch, their answers and the facts behind."""
        fact = query_ids % len(self.timeline.facts)
        both, answers = fact_queries(self.asked_facts(fact), self.timeline.num_relations)
        number = torch.arange(len(fact), device=fact.device)
        number = number + len(fact) * (query_ids >= len(self.timeline.facts))
        return both.take(number), answers[number], fact

    def _loss(self, query_ids: Tensor, packed: Tensor | None, sample: VoteSample) -> Tensor:
        """The mean loss of queries by their id, with what was looked up for them."""
        if packed is None:
            queries, answer, left_out = self._asked(query_ids)
            lookups = self.model.look_up(queries, left_out)
        else:
            queries, answer = self._queries[0].take(query_ids), self._queries[1][query_ids]
            lookups = self._unpack(packed)
        if layout := self.layout:
            # Each pair is laid out, so they are not padded as `true_answers` may do.
            sparse, known = cast(Lookups, lookups), self.known(queries)
            return layout.losses(queries.relation, sparse, answer, known, sample).mean().float()
        scores = self.model.score(queries.relation, lookups, sample)
        known = self.true_answers(queries, answer)
        rows = torch.arange(len(answer), device=answer.device)
        return softmax_loss(scores.float(), rows, answer, known).mean()
