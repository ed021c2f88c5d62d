"""The training loss of the pointer: each fact is queried as if it were not in the data.

A forecaster is asked from the facts before it, as it will be when it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tempograph.data.timeline import Queries, fact_queries
from tempograph.device import memory_budget
from tempograph.models.pointer.pointer_model import NAME_WIDTH, Lookup, Pointer
from tempograph.models.pointer.vote_sample import VoteSample
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
        chunk = memory_budget("pointer_loss", self.timeline.device) // (
            self.model.bytes_per_candidate * self.timeline.num_entities
        )
        if chunk >= len(query_ids):
            return self._loss(query_ids, sample)
        # Backward computes the scores of one chunk again instead of saving those of all.
        losses = []
        for rows in torch.split(torch.arange(len(query_ids), device=batch.device), max(1, chunk)):
            part = sample
            if sample.name_mask is not None:
                part = sample._replace(name_mask=sample.name_mask[rows])
            loss = checkpoint(self._loss, query_ids[rows], part, use_reentrant=False)
            losses.append(len(rows) * loss)
        return torch.stack(losses).sum() / len(query_ids)

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
        queries, facts = self._queries[0], len(self.timeline.facts)
        ids = torch.arange(2 * facts, device=self.timeline.device)
        parts = []
        for part in torch.split(ids, _LOOKUP_BATCH):
            # What is asked from its past alone need not be left out.
            left_out = None if self.timeline.past_only else part % facts
            lookups = self.model.look_up(queries.take(part), left_out)
            packed = [each.pack() for each in lookups if not isinstance(each, VoteList)]
            parts.append(torch.cat(packed))
        return torch.cat(parts, dim=1)

    def _asked(self, query_ids: Tensor) -> tuple[Queries, Tensor, Tensor]:
        """Queries by their id at the steps of this epoch, their answers and the facts behind."""
        fact = query_ids % len(self.timeline.facts)
        both, answers = fact_queries(self.asked_facts(fact), self.timeline.num_relations)
        number = torch.arange(len(fact), device=fact.device)
        number = number + len(fact) * (query_ids >= len(self.timeline.facts))
        return both.take(number), answers[number], fact

    def _loss(self, query_ids: Tensor, sample: VoteSample) -> Tensor:
        """The mean loss of queries by their id."""
        if self.model.packs_lookups:
            queries, answer = self._queries[0].take(query_ids), self._queries[1][query_ids]
            packed = self._lookups.index_select(1, query_ids).chunk(len(self.model.sources))
            lookups: list[Lookup] = [
                source.unpack(each)
                for source, each in zip(self.model.vote_sources, packed, strict=True)
            ]
        else:
            queries, answer, left_out = self._asked(query_ids)
            lookups = self.model.look_up(queries, left_out)
        scores = self.model.score(queries.relation, lookups, sample)
        rows = torch.arange(len(answer), device=answer.device)
        known = self.true_answers(queries, answer)
        return softmax_loss(scores.float(), rows, answer, known).mean()
