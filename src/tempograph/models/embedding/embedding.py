"""Methods that give each entity and relation a vector, fixed or dependent on time, and compare them by a decoder."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.data.calendar import calendar, date_tokens
from tempograph.data.timeline import Queries, Timeline
from tempograph.device import memory_budget
from tempograph.models.base import Model, Support
from tempograph.models.embedding.embedding_settings import EmbeddingSettings
from tempograph.models.evidence import nearest_facts
from tempograph.nn.decoders import DECODERS, Decoder, Gaussian, TransEL1
from tempograph.nn.entities import (
    DiachronicEntities,
    Entities,
    FixedEntities,
    Planes,
    ProjectedEntities,
    Series,
    Span,
)
from tempograph.nn.grouped_layout import laid_out, layout_of, parts_of
from tempograph.nn.relations import (
    FactoredRelations,
    FixedRelations,
    GaussianRelations,
    ProjectedRelations,
    Relations,
    ShiftedRelations,
    TokenRelations,
)
from tempograph.nn.shared_weights import copy_sharing_weights


class _Sampled(NamedTuple):
    entity: Tensor
    score: Tensor


class Embedding(Model):
    """Entities, relations and a decoder."""

    bytes_per_candidate = 24
    probabilistic = True
    looks_at_facts = False

    def __init__(self, timeline: Timeline, settings: EmbeddingSettings, name: str) -> None:
        super().__init__()
        self.name = name
        self.timeline = timeline
        self.last_known_step = timeline.num_steps - 1
        self.settings = settings
        self.decoder = _decoder(settings)
        planes = (
            Planes(timeline.num_steps, settings.dim) if settings.entities == "projected" else None
        )
        self.entities = _entities(settings, timeline, planes)
        self.relations = _relations(settings, timeline, planes, self.decoder)
        self.to(timeline.device)

    @property
    def device(self) -> torch.device:
        """Where the timeline and the weights lie."""
        return self.timeline.device

    def ask(self, queries: Queries, relation: Tensor | None = None) -> Tensor:
        """Each question as a vector, [n, width]; the relations' vectors [n, width] may be at hand already."""
        given = self.entities.take(queries.entity, queries.time)
        return self.decoder.join(given, self.relations(queries) if relation is None else relation)

    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each question, [queries, entities]."""
        queries = self._at_known_steps(queries)
        return self.score_all(self.ask(queries), queries.time)

    def own_scores(self, queries: Queries, answer: Tensor) -> Tensor:
        """The score of one entity for each question, and of no other, [queries]."""
        queries = self._at_known_steps(queries)
        return self.score_own(self.ask(queries), queries.time, answer)

    def score_all(self, questions: Tensor, time: Tensor) -> Tensor:
        """Scores of every entity for questions [n, width] at their times [n] -> [n, entities]."""
        if not self.entities.timed:
            return self.decoder.compare(questions, self.entities.tables(time[:1])[0])
        # Questions of one time share a table; as many times at once as their tables may take memory.
        slots = memory_budget("embedding_tables", self.device) // (4 * self.timeline.num_entities)
        order, parts = [], []
        for times, inside, place in parts_of(time, max(1, slots // questions.shape[1]), slots):
            order.append(inside)
            parts.append(self._compare(questions[inside], place, self.entities.tables(times)))
        if not parts:
            return questions.new_empty(0, self.timeline.num_entities)
        return torch.cat(parts).index_select(0, torch.argsort(torch.cat(order)))

    def score_some(
        self, questions: Tensor, time: Tensor, count: int, generator: torch.Generator
    ) -> _Sampled:
        """Scores of entities drawn at random, the same for all questions of a time, or for all where time is nothing.

        Questions [n, width] at their times [n] -> which entities and their scores, [n, count] each.
        """
        times, place = torch.unique(time, return_inverse=True)
        if not self.entities.timed:
            times, place = times[:1], torch.zeros_like(place)
        pool = torch.randint(
            self.timeline.num_entities, (len(times), count), device=self.device, generator=generator
        )
        rows = self.entities.take(pool.flatten(), times.repeat_interleave(count)).view(
            *pool.shape, -1
        )
        return _Sampled(pool[place], self._compare(questions, place, rows))

    def score_own(self, questions: Tensor, time: Tensor, entity: Tensor) -> Tensor:
        """The score of one entity for each question.   [n, width], [n], [n] -> [n]."""
        return self.decoder.compare(questions[:, None], self.entities.take(entity, time)[:, None])[
            :, 0, 0
        ]

    def _compare(self, questions: Tensor, group: Tensor, candidates: Tensor) -> Tensor:
        """Questions [n, width] of groups [n] with the candidates [groups, count, width] of theirs -> [n, count]."""
        layout, slot = layout_of(group, len(candidates))
        # Ones where there is no question: a variance of 0 would be divided by.
        laid = laid_out(questions, layout, slot, fill=1.0)
        return self.decoder.compare(laid, candidates).flatten(0, 1).index_select(0, slot)

    def relation_scores(self, subject: int, object_: int, time: int) -> Tensor:
        """Scores of every relation for (subject, ?, object, time), [relations]."""
        relations = torch.arange(self.timeline.num_relations, device=self.device)
        queries = Queries(
            torch.full_like(relations, subject), relations, torch.full_like(relations, time)
        )
        queries = self._at_known_steps(queries)
        return self.score_own(self.ask(queries), queries.time, torch.full_like(relations, object_))

    def with_timeline(self, timeline: Timeline, memory: int = 0) -> Embedding:
        """The same vectors; only evidence changes with the facts."""
        twin = copy_sharing_weights(self)
        twin.timeline = timeline
        return twin

    def counterfactual_scores(self, query: Queries, left_out: Tensor, candidates: Tensor) -> Tensor:
        """The same scores whatever fact is left out, [1 + n, candidates]."""
        return self.scores(query)[:, candidates].expand(1 + len(left_out), -1)

    def _at_known_steps(self, queries: Queries) -> Queries:
        """Questions about steps after the last one that has vectors are asked at that one."""
        return queries._replace(time=queries.time.clamp(max=self.last_known_step))

    def entity_vectors(self, times: Tensor) -> Tensor:
        """Vectors at times, or one table if they are the same at all."""
        return self.entities.tables(times if self.entities.timed else times[:1])

    def evidence(self, query: Queries, answer: int) -> Support:
        """The train facts nearest in time that share two parts with the completed fact."""
        return nearest_facts(self.timeline, query, answer)


def _decoder(s: EmbeddingSettings) -> Decoder:
    if s.decoder == "gaussian":
        return Gaussian()
    return TransEL1() if s.distance == "l1" else DECODERS[s.decoder]


def _entities(s: EmbeddingSettings, timeline: Timeline, planes: Planes | None) -> Entities:
    count = timeline.num_entities
    if s.decoder == "gaussian":
        return Series(
            count, s.dim, s.initial_scale, _span(s, timeline), drift=s.entities == "drifting"
        )
    if s.entities == "diachronic":
        dates = calendar(timeline.labels).float()
        # Years are counted from the first, which keeps the waves' arguments small.
        dates[:, 0] -= dates[:, 0].min()
        halves = 2 if s.decoder in ("complex", "simple") else 1
        return DiachronicEntities(count, s.dim, s.initial_scale, dates, s.wave_share, halves)
    if planes is not None:
        return ProjectedEntities(count, s.dim, s.initial_scale, planes)
    return FixedEntities(count, s.dim, s.initial_scale)


def _relations(
    s: EmbeddingSettings, timeline: Timeline, planes: Planes | None, decoder: Decoder
) -> Relations:
    count, steps, size = timeline.num_relations, timeline.num_steps, (s.dim, s.initial_scale)
    if s.decoder == "gaussian":
        drift = s.relations == "drifting"
        return GaussianRelations(
            decoder, count, *size, _span(s, timeline), drift=drift, reciprocal=s.reciprocal
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


def _span(s: EmbeddingSettings, timeline: Timeline) -> Span:
    return Span(timeline.num_steps, (s.smallest_variance, s.largest_variance), s.longest_mean)
