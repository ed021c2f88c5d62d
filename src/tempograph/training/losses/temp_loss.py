"""The training loss of TeMP: edge dropout, queries of whole snapshots, all or sampled negatives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.data.frequency import PATTERNS
from tempograph.data.timeline import Queries, fact_queries
from tempograph.models.sparse_scores import MANY_ENTITIES
from tempograph.models.temp.encoder import DropoutSample
from tempograph.models.temp.temp_model import TeMP
from tempograph.nn.loss_functions import corrected_loss, sampled_loss, softmax_loss
from tempograph.nn.padded_groups import padded_layout
from tempograph.training.losses.negative_sampling import NegativeSampler, columns_of
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.settings import SnapshotTrainSettings


class TeMPLoss(TrainingLoss):
    """The mean loss of both queries of each fact at some times."""

    def __init__(self, model: TeMP, settings: SnapshotTrainSettings) -> None:
        super().__init__(model.timeline)
        self.model = model
        self.settings = settings
        self.sampler: NegativeSampler | None = None
        if settings.negatives != "all" and settings.negative_sampling != "uncorrected":
            self.sampler = NegativeSampler(
                model.timeline.facts,
                model.timeline.num_entities,
                settings.negatives,
                settings.negative_sampling,
            )

    def batches(self, generator: torch.Generator) -> Sequence[Tensor]:
        """Shuffled times with facts, `times_per_step` in each batch."""
        return self.shuffled_times(self.settings.times_per_step, generator)

    def forward(self, times: Tensor, generator: torch.Generator) -> Tensor:
        """Distinct times [n] -> a scalar; 0 if no fact is a target."""
        timeline = self.timeline
        dropout = self.sample_dropout(generator)
        time_index, position = self.facts_asked_at(times)
        if timeline.longest > 1:
            # A fact must not answer for itself at the other steps at which it holds.
            dropout = dropout.without(position)
        elif self.settings.targets == "dropped" and not timeline.past_only:
            # A forecaster does not see the edges of its own step, so all of them are targets.
            targets = ~dropout.keep[position]
            time_index, position = time_index[targets], position[targets]
        if timeline.max_facts_per_step > self.settings.max_facts:
            time_index, position = sample_per_group(
                time_index, position, self.settings.max_facts, generator
            )
        encoded = None if self._encodes_some else self.model.encode(times, dropout)
        if not len(position):
            weights = self.model.relations.relation if encoded is None else encoded.base
            return weights.sum() * 0
        queries, answer = fact_queries(self.asked_facts(position), timeline.num_relations)
        time_index = time_index.repeat(2)
        frequencies = self._frequencies_of(queries, position)
        if self.settings.negatives == "all":
            assert encoded is not None
            given = encoded.take(time_index, queries.entity)
            vectors = self.model.query_vectors(queries, given, frequencies)
            scores, row = self.model.score_all(vectors, time_index, encoded, len(times))
            known = self.true_answers(queries, answer)
            losses = softmax_loss(scores.float(), row, answer, known)
        else:
            negatives = self._negatives(queries, time_index, generator)
            index = torch.cat([time_index.repeat(2), negatives.time_index])
            entity = torch.cat([queries.entity, answer, negatives.entity.flatten()])
            if encoded is None:
                rows = self._encode_distinct(times, index, entity, dropout)
            else:
                rows = encoded.take(index, entity)
            losses = self._sampled_losses(queries, negatives, rows, frequencies)
        if self.settings.reduction == "mean":
            return losses.mean()
        # Each time has one mean for each direction, over half of its queries.
        return 2 * (losses / torch.bincount(time_index)[time_index]).sum()

    @property
    def _encodes_some(self) -> bool:
        """Whether a step encodes only the entities that it scores, if there are many.

        Not if facts hold for a while: their snapshots are laid out as a whole.
        """
        many = self.timeline.num_entities >= MANY_ENTITIES and not self.timeline.has_intervals
        return many and self.settings.negatives != "all"

    def _encode_distinct(
        self, times: Tensor, time_index: Tensor, entity: Tensor, dropout: DropoutSample
    ) -> Tensor:
        """Entities [n] at times given by their index [n], each pair encoded once, [n, width]."""
        entities = self.timeline.num_entities
        pairs, inverse = torch.unique(time_index * entities + entity, return_inverse=True)
        rows = self.model.encode_some(times[pairs // entities], pairs % entities, dropout)
        return rows.index_select(0, inverse)

    def sample_dropout(self, generator: torch.Generator) -> DropoutSample:
        """The train facts a step keeps, by edge_dropout at its times, context_dropout around."""
        s, facts = self.model.settings, len(self.timeline.facts)
        uniform = torch.rand(2, facts, device=self.timeline.device, generator=generator)
        rate = self._frequency_rates if s.dropout_by_frequency else s.context_dropout
        return DropoutSample(uniform[0] >= s.edge_dropout, uniform[1] >= rate, generator)

    @cached_property
    def _frequency_rates(self) -> Tensor:
        """Dropout of each train fact by the frequency of its entity pair, from 0.2 to 0.8."""
        patterns = self.model.frequencies.count(self.timeline.facts, *self.model.frequency_window)
        counts = patterns[:, PATTERNS.index("so")].float().log1p()
        return 0.2 + 0.6 * counts / counts.max().clamp(min=0.5)

    def _frequencies_of(self, queries: Queries, position: Tensor) -> Tensor | None:
        """What the gate looks at for both queries of the facts at positions [n], [2n, 3]."""
        if self.model.gate is not None and self.timeline.longest > 1:
            # Each fact may hold in its window, and is asked at another step in each epoch.
            left_out = self.timeline.rows[position].repeat(2, 1)
            return self.model.gate_frequencies(queries, left_out)
        frequencies = self._frequencies
        return None if frequencies is None else frequencies[:, position].flatten(0, 1)

    @cached_property
    def _frequencies(self) -> Tensor | None:
        """What the gate looks at for both queries of all train facts, [2, facts, 3]."""
        if self.model.gate is None:
            return None
        queries, _ = fact_queries(self.timeline.facts, self.timeline.num_relations)
        return self.model.gate_frequencies(queries).view(2, -1, 3)

    def _negatives(
        self, queries: Queries, time_index: Tensor, generator: torch.Generator
    ) -> _Negatives:
        """Entities drawn for each time and side."""
        timeline, count = self.timeline, self.settings.negatives
        assert count != "all"
        group = time_index * 2 + queries.relation // timeline.num_relations
        groups, group = torch.unique(group, return_inverse=True)
        expected: Tensor | None = None
        if self.sampler is not None:
            sampled, expected, _ = self.sampler.draw(timeline.facts[:0], len(groups), generator)
        else:
            size = len(groups), count
            sampled = torch.randint(
                timeline.num_entities, size, device=group.device, generator=generator
            )
        times = (groups // 2).repeat_interleave(sampled.shape[1])
        return _Negatives(group, times, sampled, expected)

    def _sampled_losses(
        self, queries: Queries, negatives: _Negatives, rows: Tensor, frequencies: Tensor | None
    ) -> Tensor:
        """The loss of each query against the negatives of its group, [n].

        rows: the encoded entities of the queries, their answers and the negatives, one after
        another, [2 n + negatives, width].
        """
        group, _, sampled, log_expected = negatives
        sizes = [len(group), len(group), sampled.numel()]
        given, own, others = torch.split(rows, sizes)
        vectors = self.model.query_vectors(queries, given, frequencies)
        layout, slot = padded_layout(group, len(sampled))
        grouped = vectors.pad(layout, slot)
        others = others.view(*sampled.shape, -1)
        negative = self.model.score(grouped, others).flatten(0, 1)[slot]
        positive = self.model.score(vectors.unsqueeze(), own[:, None])[:, 0, 0]
        # Few negatives are known answers: to look each one up would take more than its score.
        known = columns_of(*self.known(queries), group, sampled, self.timeline.num_entities)
        if log_expected is not None:
            expected = log_expected.to(torch.float32)[group]
            return corrected_loss(positive.float(), negative.float(), expected, known)
        excluded = torch.zeros_like(negative, dtype=torch.bool)
        excluded[known] = True
        return sampled_loss(positive.float(), negative.float(), excluded)


class _Negatives(NamedTuple):
    """The group of each query, [n], and what is drawn for each group of one time and side."""

    group: Tensor
    time_index: Tensor
    """The time of each negative, [groups * count]."""
    entity: Tensor
    """[groups, count]"""
    log_expected: Tensor | None
    """Of how often each is expected to be drawn, [groups, count], to correct for it."""


def sample_per_group(
    group: Tensor, member: Tensor, max_members: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """At most max_members random members of each group.   group [n], rising, and member [n]."""
    count = torch.bincount(group)
    shuffled = torch.argsort(
        group + torch.rand(len(group), device=group.device, generator=generator).double()
    )
    within = (
        torch.arange(len(group), device=group.device) - (count.cumsum(0) - count)[group[shuffled]]
    )
    chosen = shuffled[within < max_members].sort().values
    return group[chosen], member[chosen]
