"""The model behind all embedding methods: entities, relations and a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from tempograph.data.calendar import calendar, date_tokens
from tempograph.data.timeline import Queries, Timeline
from tempograph.device import memory_budget
from tempograph.models.base import Model
from tempograph.models.embedding.embedding_settings import EmbeddingSettings
from tempograph.nn.decoders import DECODERS, Decoder, GaussianDecoder, L1TranslationDecoder
from tempograph.nn.entities import (
    AdditiveTimeSeries,
    DiachronicEntities,
    Entities,
    FixedEntities,
    Hyperplanes,
    NamedEntities,
    ProjectedEntities,
    SeriesOptions,
)
from tempograph.nn.name_vectors import NameVectors
from tempograph.nn.padded_groups import chunk_groups, pad_groups, padded_layout
from tempograph.nn.relations import (
    FactoredRelations,
    FixedRelations,
    GaussianRelations,
    ProjectedRelations,
    Relations,
    ShiftedRelations,
    TokenRelations,
)
from tempograph.nn.row_shards import RowShards
from tempograph.nn.sharded_entities import ShardedEntities
from tempograph.nn.shared_weights import copy_sharing_weights


class Embedding(Model):
    """Scores (s, r, o, t) by decoder(s_t, r_t, o_t); `methods` has the published combinations."""

    name = "embedding"
    summary = ""
    formula = ""
    time_dependent = "nothing"
    """What depends on time: "nothing", "entities", "relations" or "entities, relations"."""
    reference = ""
    settings = EmbeddingSettings()
    """The parts and their sizes: the method's defaults on the class, the model's own on a model."""
    train_defaults: Mapping[str, Any] = MappingProxyType({})

    bytes_per_candidate = 24
    probabilistic = True
    uses_train_facts = False

    def __init__(
        self,
        timeline: Timeline,
        settings: EmbeddingSettings | None = None,
        name: str | None = None,
        shards: RowShards | None = None,
    ) -> None:
        super().__init__()
        self.name = name or self.name
        self.timeline = timeline
        # A forecaster learns nothing of the steps after its train facts.
        self.last_known_step = timeline.num_steps - 1
        if timeline.past_only:
            self.last_known_step = int(timeline.facts[-1, 3])
        self.settings = settings = settings or self.settings
        self.decoder = _decoder(settings)
        planes = (
            Hyperplanes(timeline.num_steps, settings.dim)
            if settings.entities == "projected"
            else None
        )
        self.shards = shards
        self.entities = _entities(settings, timeline, planes, shards)
        if settings.names:
            names = NameVectors(timeline, settings.dim, settings.initial_scale)
            self.entities = NamedEntities(self.entities, names)
        self.relations = _relations(settings, timeline, planes, self.decoder)
        self.to(timeline.device)

    @property
    def num_parameters(self) -> int:
        """Number of trained weights, those that other processes hold included."""
        total = super().num_parameters
        if isinstance(self.entities, ShardedEntities):
            own, width = self.entities.entity.shape
            total += (self.entities.count - own) * width
        return total

    def encode_queries(self, queries: Queries) -> Tensor:
        """The query vectors, [n, width]."""
        entity = self.entities(queries.entity, queries.time)
        return self.decoder.compose(entity, self.relations(queries))

    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each query, [queries, entities]."""
        queries = self._at_known_steps(queries)
        return self.score_all(self.encode_queries(queries), queries.time)

    def answer_scores(self, queries: Queries, answer: Tensor) -> Tensor:
        """The score of one entity for each query, [queries]."""
        queries = self._at_known_steps(queries)
        return self.score_pairs(self.encode_queries(queries), queries.time, answer)

    @property
    def scores_blocks(self) -> bool:  # type: ignore[override]
        """Whether one product scores a block of candidates, whatever the times of the queries."""
        return not self.entities.time_dependent

    def candidate_scores(self, queries: Queries, candidates: Tensor) -> Tensor:
        """Scores of some entities, candidates [count], for each query, [queries, count]."""
        if self.entities.time_dependent:
            return super().candidate_scores(queries, candidates)
        queries = self._at_known_steps(queries)
        vectors = self.entities(candidates, torch.zeros_like(candidates))
        return self.decoder.score(self.encode_queries(queries), vectors)

    def score_all(self, query: Tensor, time: Tensor) -> Tensor:
        """Scores of every entity for query vectors [n, width] at times [n]: [n, entities]."""
        if not self.entities.time_dependent:
            return self.decoder.score(query, self.entities.tables(time[:1])[0])
        # Queries of one time share a table; a chunk takes as many tables as fit the budget.
        slots = memory_budget("embedding_tables", self.device) // (4 * self.timeline.num_entities)
        order, parts = [], []
        for times, member, group in chunk_groups(time, max(1, slots // query.shape[1]), slots):
            order.append(member)
            parts.append(self._score_groups(query[member], group, self.entities.tables(times)))
        if not parts:
            return query.new_empty(0, self.timeline.num_entities)
        return torch.cat(parts).index_select(0, torch.argsort(torch.cat(order)))

    def score_candidates(
        self, query: Tensor, group: Tensor, entities: Tensor, times: Tensor
    ) -> Tensor:
        """Scores of the entities [groups, count] of each query's group at its time [groups].

        Query vectors [n, width] and their groups [n] -> [n, count].
        """
        rows: Tensor = self.entities(entities.flatten(), times.repeat_interleave(entities.shape[1]))
        return self._score_groups(query, group, rows.view(*entities.shape, -1))

    def score_pairs(self, query: Tensor, time: Tensor, entity: Tensor) -> Tensor:
        """The score of one entity [n] for each query vector [n, width] at its time [n]: [n]."""
        return self.decoder.score(query[:, None], self.entities(entity, time)[:, None])[:, 0, 0]

    def _score_groups(self, query: Tensor, group: Tensor, candidates: Tensor) -> Tensor:
        """Scores of the candidates [groups, count, width] of each query's group [n]: [n, count]."""
        layout, slot = padded_layout(group, len(candidates))
        # Padded with ones: a Gaussian decoder divides by variances.
        padded = pad_groups(query, layout, slot, fill=1.0)
        return self.decoder.score(padded, candidates).flatten(0, 1).index_select(0, slot)

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> Embedding:
        """The same embeddings; only the evidence changes with the facts."""
        twin = copy_sharing_weights(self)
        twin.timeline = timeline
        return twin

    def counterfactual_scores(self, query: Queries, left_out: Tensor, candidates: Tensor) -> Tensor:
        """The same scores whatever fact is left out, [1 + n, candidates]."""
        return self.scores(query)[:, candidates].expand(1 + len(left_out), -1)

    def _at_known_steps(self, queries: Queries) -> Queries:
        """Queries after the last step that has embeddings use that step."""
        return queries._replace(time=queries.time.clamp(max=self.last_known_step))

    def entity_vectors(self, times: Tensor) -> Tensor:
        """Entity embeddings at times, [times, entities, width]; one table if constant."""
        return self.entities.tables(times if self.entities.time_dependent else times[:1])


def _decoder(s: EmbeddingSettings) -> Decoder:
    if s.decoder == "gaussian":
        return GaussianDecoder()
    return L1TranslationDecoder() if s.distance == "l1" else DECODERS[s.decoder]


def can_shard(s: EmbeddingSettings) -> bool:
    """Whether entities have one vector each, so that several processes can share them out."""
    return s.entities == "fixed" and s.decoder != "gaussian" and not s.names


def _entities(
    s: EmbeddingSettings,
    timeline: Timeline,
    planes: Hyperplanes | None,
    shards: RowShards | None = None,
) -> Entities:
    size = timeline.num_entities, s.dim, s.initial_scale
    if shards is not None:
        return ShardedEntities(*size, shards)
    if s.decoder == "gaussian":
        return AdditiveTimeSeries(*size, _series(s, timeline), drift=s.entities == "drifting")
    if s.entities == "diachronic":
        dates = calendar(timeline.labels).float()
        # Years count from the first one, which keeps the arguments of the waves small.
        dates[:, 0] -= dates[:, 0].min()
        parts = 2 if s.decoder in ("complex", "simple") else 1
        return DiachronicEntities(*size, dates, s.wave_share, parts)
    return FixedEntities(*size) if planes is None else ProjectedEntities(*size, planes)


def _relations(
    s: EmbeddingSettings, timeline: Timeline, planes: Hyperplanes | None, decoder: Decoder
) -> Relations:
    count, steps, size = timeline.num_relations, timeline.num_steps, (s.dim, s.initial_scale)
    if s.decoder == "gaussian":
        drift = s.relations == "drifting"
        return GaussianRelations(
            decoder, count, *size, _series(s, timeline), drift=drift, reciprocal=s.reciprocal
        )
    if s.relations == "shifted":
        return ShiftedRelations(decoder, count, *size, steps)
    if s.relations == "factored":
        return FactoredRelations(
            decoder, count, *size, steps, constant=s.constant, reciprocal=s.reciprocal
        )
    if s.relations == "tokens":
        return TokenRelations(decoder, count, *size, date_tokens(timeline.labels))
    if s.relations == "projected" and planes is not None:
        return ProjectedRelations(decoder, count, *size, planes)
    return FixedRelations(decoder, count, *size, reciprocal=s.reciprocal)


def _series(s: EmbeddingSettings, timeline: Timeline) -> SeriesOptions:
    variances = s.smallest_variance, s.largest_variance
    return SeriesOptions(timeline.num_steps, variances, s.longest_mean)
