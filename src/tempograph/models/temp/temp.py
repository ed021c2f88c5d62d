"""TeMP, temporal message passing: structure inside snapshots, memory across them, a decoder to rank answers."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tempograph.data.frequency import PATTERNS, PatternFrequencies
from tempograph.data.sorted_ranges import equal_range, key_range
from tempograph.data.timeline import Queries, Timeline
from tempograph.device import memory_budget
from tempograph.models.base import Evidence, Model
from tempograph.models.evidence import nearest_facts
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.nn.decoders import DECODERS, inner_products
from tempograph.nn.frequency_gate import FrequencyGate
from tempograph.nn.inplace import put_at
from tempograph.nn.losses import dropout
from tempograph.nn.padded_groups import chunk_groups, pad_groups, padded_layout
from tempograph.nn.relations import FixedRelations
from tempograph.nn.structure import STRUCTURES, Edges, LayerShape, add_inverse_edges, edge_weights
from tempograph.nn.temporal import Context, DecayedGRU, Imputation, TemporalAttention, Windows

_ACTIVATIONS = {"none": nn.Identity(), "relu": nn.ReLU(), "tanh": nn.Tanh()}


class Encoded(NamedTuple):
    """All entities at some times: a row of `base` for most, and one of `rows` for the pairs (time, entity) in `keys`.

    Rows hold the structural vector, the temporal one, or both side by side when a gate mixes them.
    """

    base: Tensor
    keys: Tensor
    rows: Tensor

    def tables(self, num_times: int) -> Tensor:
        """Every entity at every time, [times, entities, width]."""
        flat = self.base.repeat(num_times, 1)
        return flat.index_copy_(0, self.keys, self.rows.to(flat.dtype)).view(
            num_times, *self.base.shape
        )

    def take(self, time: Tensor, entity: Tensor) -> Tensor:
        """Some entities at some times (places in the list of times), [n, width]."""
        usual = self.base.index_select(0, entity)
        if not len(self.rows):
            return usual
        place = equal_range(self.keys, time * len(self.base) + entity)
        own = self.rows.index_select(0, place.start.clamp(max=len(self.rows) - 1))
        return torch.where(place.lengths[:, None] > 0, own, usual)


class TeMP(Model):
    """Structural encoder, temporal encoder, imputation, frequency gate and decoder over one timeline."""

    bytes_per_candidate = 24
    probabilistic = True

    def __init__(self, timeline: Timeline, settings: TeMPSettings, name: str = "temp-gru") -> None:
        super().__init__()
        self.name = name
        self.timeline = timeline
        self.settings = settings
        dim, relations = settings.dim, timeline.num_relations
        self.edge_types = relations * (1 + settings.inverse_edges)
        self.entity = nn.Parameter(torch.empty(timeline.num_entities, dim))
        nn.init.normal_(self.entity, std=settings.initial_scale)
        self.structure = nn.ModuleList() if settings.structure == "none" else self._structure()
        self.temporal: DecayedGRU | TemporalAttention | None = None
        if settings.temporal == "gru":
            self.temporal = DecayedGRU(dim, settings.bidirectional)
        elif settings.temporal == "attention":
            self.temporal = TemporalAttention(dim, settings.heads)
        self.imputation = Imputation() if settings.imputation else None
        self.gate = FrequencyGate() if settings.gate else None
        self.time = (
            nn.Parameter(torch.zeros(timeline.num_steps, dim)) if settings.time_embedding else None
        )
        self.decoder = DECODERS[settings.decoder]
        self.relations = FixedRelations(self.decoder, relations, dim, settings.initial_scale)
        self.frequencies = PatternFrequencies(timeline)
        self.to(timeline.device)

    def _structure(self) -> nn.ModuleList:
        s = self.settings
        shape = LayerShape(
            s.dim,
            self.edge_types,
            self.timeline.num_relations,
            s.blocks or s.dim,
            s.heads,
            s.composition,
        )
        return nn.ModuleList(STRUCTURES[s.structure](shape) for _ in range(s.layers))

    @property
    def device(self) -> torch.device:
        """Where the timeline and the weights lie."""
        return self.entity.device

    def encode(self, times: Tensor, sample: Sample | None = None) -> Encoded:
        """All entities at some distinct times; with a sample, as a training step sees them."""
        here = self._snapshot(self._steps(times), sample.keep if sample else None)
        around = None
        if self.temporal is not None:
            around = self._snapshot(
                self._steps_around(times), sample.context_keep if sample else None
            )
        x_here, x_around, alone = self._propagate(here, around, sample)
        context = None if around is None else Nodes(around.keys, x_around)
        return self.across(
            *all_pairs(times, len(alone)),
            Nodes(here.keys, x_here),
            context,
            alone,
            self.timeline.num_steps,
        )

    def across(
        self,
        time: Tensor,
        entity: Tensor,
        here: Nodes,
        around: Nodes | None,
        alone: Tensor,
        num_steps: int,
        base: Tensor | None = None,
    ) -> Encoded:
        """Pairs of a time and an entity [n], by the nodes at these times, those around them, and entities alone.

        An entity is a place in `alone` [entities, dim], keys of nodes are entity * num_steps + step, rising, and those
        of what is encoded places among the pairs. Nodes around may be those of the times as well: a pair looks for
        them beside its own time. The base may be at hand already.
        """
        s, first = self.settings, entity * num_steps
        active = equal_range(here.keys, first + time)
        if around is None or self.temporal is None:
            keys = active.lengths.nonzero()[:, 0]
            return Encoded(alone, keys, here.x[active.start[keys]])

        past = key_range(around.keys, first + (time - s.window).clamp(min=0), first + time - 1)
        future = None
        touched = active.lengths + past.lengths
        if s.bidirectional:
            last = (time + s.window).clamp(max=num_steps - 1)
            future = key_range(around.keys, first + time + 1, first + last)
            touched = touched + future.lengths
        keys = touched.nonzero()[:, 0]
        windows = Windows(
            time[keys], past.take(keys), None if future is None else future.take(keys)
        )
        context = Context(around.x, around.keys % num_steps)
        x = alone.index_select(0, entity[keys])
        if self.imputation is not None:
            x = self.imputation(x, windows, context)
        there = (active.lengths[keys] > 0).nonzero()[:, 0]
        x = x.index_copy(0, there, here.x[active.start[keys[there]]].to(x.dtype))
        z = self.temporal(x, windows, context)
        base = self.base(alone) if base is None else base
        return Encoded(base, keys, z if self.gate is None else torch.cat([x, z], dim=1))

    def base(self, alone: Tensor) -> Tensor:
        """What entities are at times that nothing is known of, [entities, width]."""
        if self.temporal is None:
            return alone
        z = self.temporal.without_context(alone)
        return z if self.gate is None else torch.cat([alone, z], dim=1)

    def ask(
        self, queries: Queries, place: Tensor, encoded: Encoded, counts: Tensor | None = None
    ) -> Questions:
        """The questions as vectors; place [n] is the place of each question's time among the times encoded."""
        return self.questions(queries, encoded.take(place, queries.entity), counts)

    def questions(self, queries: Queries, given: Tensor, counts: Tensor | None = None) -> Questions:
        """The questions as vectors of what is given [n, width]; a gate's frequencies [n, 3] may be at hand already."""
        alpha = None
        if self.gate is not None:
            counts = (
                self.frequencies.count_queries(queries, *self.reach) if counts is None else counts
            )
            alpha_given, alpha = self.gate(counts, queries.relation // self.timeline.num_relations)
            x, z = given.chunk(2, 1)
            given = z + alpha_given[:, None] * (x - z)
        if self.time is not None:
            given = given + self.time.index_select(0, queries.time.clamp(max=len(self.time) - 1))
        return Questions(self.decoder.compose(given, self.relations(queries)), alpha)

    @property
    def reach(self) -> tuple[int, int]:
        """Steps of the past and of the future in the window."""
        return self.settings.window, self.settings.window if self.settings.bidirectional else 0

    @property
    def window(self) -> tuple[int, int]:
        """Steps before and after a query that are encoded; none without a temporal encoder."""
        return self.reach if self.temporal is not None else (0, 0)

    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each question, [queries, entities]."""
        width = self.settings.dim * (2 if self.gate is not None else 1)
        slots = memory_budget("temp_tables", self.device) // (4 * self.timeline.num_entities)
        scores = torch.empty(len(queries.time), self.timeline.num_entities, device=self.device)
        for times, inside, place in chunk_groups(queries.time, max(1, slots // width), slots):
            encoded = self.encode(times)
            questions = self.ask(queries.take(inside), place, encoded)
            every, row = self.score_all(questions, place, encoded, len(times))
            scores[inside] = every[row].float()
        return scores

    def relation_scores(
        self, subject: int, object_: int, time: int, encoded: Encoded | None = None
    ) -> Tensor:
        """Scores of every relation for (subject, ?, object, time), [relations]; the time may be encoded already."""
        relations = torch.arange(self.timeline.num_relations, device=self.device)
        queries = Queries(
            torch.full_like(relations, subject), relations, torch.full_like(relations, time)
        )
        place = torch.zeros_like(relations)
        encoded = self.encode(queries.time[:1]) if encoded is None else encoded
        answer = encoded.take(place[:1], torch.full_like(place[:1], object_))
        return self.score(self.ask(queries, place, encoded), answer)[:, 0]

    def score_all(
        self, questions: Questions, place: Tensor, encoded: Encoded, num_times: int
    ) -> tuple[Tensor, Tensor]:
        """Every entity's score [rows, entities], and each question's row in it, [n]; place is that of its time, [n]."""
        layout, slot = padded_layout(place, num_times)
        asked, entities = questions.laid_out(layout, slot), len(encoded.base)
        if 2 * len(encoded.keys) > num_times * entities:
            return self.score(asked, encoded.tables(num_times)).flatten(0, 1), slot
        # Most entities are as in the base, whatever the time: the others' scores take the place of these.
        scores = self.score(questions, encoded.base)
        time, entity = encoded.keys // entities, encoded.keys % entities
        of_rows, row_slot = padded_layout(time, num_times)
        own = self.score(asked, pad_groups(encoded.rows, of_rows, row_slot))
        mine = equal_range(time, place)
        question, row = mine.expand()
        found = own.flatten().index_select(0, (slot * of_rows[1] - mine.start)[question] + row)
        scores = put_at(scores, question * entities + entity[row], found)
        return scores, torch.arange(len(place), device=place.device)

    def score(self, questions: Questions, candidates: Tensor) -> Tensor:
        """Scores of candidates [..., candidates, width] for questions [..., n, dim] -> [..., n, candidates]."""
        vector, alpha = questions
        if alpha is None:
            return self.decoder.score(vector, candidates)
        alpha = alpha[..., None]
        product = inner_products(
            torch.cat([alpha * vector, (1 - alpha) * vector], dim=-1), candidates
        )
        norms = None
        if self.decoder.needs_norms:
            x, z = candidates.chunk(2, -1)
            xx, xz, zz = (
                (one * other).sum(-1)[..., None, :] for one, other in ((x, x), (x, z), (z, z))
            )
            norms = alpha**2 * xx + 2 * alpha * (1 - alpha) * xz + (1 - alpha) ** 2 * zz
        return self.decoder.score_products(vector, product, norms)

    def draw(self, generator: torch.Generator) -> Sample:
        """Which facts a training step sees: each is dropped at the rate of its place or, if so set, its frequency."""
        rates = self.drop_rates if self.settings.dropout_by_frequency else None
        chance = torch.rand(2, len(self.timeline.facts), device=self.device, generator=generator)
        keep = chance[0] >= (self.settings.edge_dropout if rates is None else rates)
        return Sample(keep, chance[1] >= self.settings.context_dropout, generator)

    @cached_property
    def drop_rates(self) -> Tensor:
        """0.2 for a train fact whose subject and object have no other fact in the window, 0.8 for the busiest pair."""
        counts = (
            self.frequencies.count(self.timeline.facts, *self.reach)[:, PATTERNS.index("so")]
            .float()
            .log1p()
        )
        return 0.2 + 0.6 * counts / counts.max().clamp(min=0.5)

    def _propagate(
        self, here: Snapshot, around: Snapshot | None, sample: Sample | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The structural encoder over all nodes at once: of the snapshots, of those around, entities by themselves."""
        t = self.timeline
        parts = [here] if around is None else [here, around]
        sizes = [len(part.keys) for part in parts]
        everyone = torch.arange(t.num_entities, device=t.device)
        entity = torch.cat([*(part.keys // t.num_steps for part in parts), everyone])
        offsets = [0, sizes[0]]
        edges = Edges(
            torch.cat(
                [part.edges.source + offset for part, offset in zip(parts, offsets, strict=False)]
            ),
            torch.cat([part.edges.relation for part in parts]),
            torch.cat(
                [part.edges.target + offset for part, offset in zip(parts, offsets, strict=False)]
            ),
        )
        x = self.messages(entity, edges, sample)
        split = [*sizes, t.num_entities] if around is not None else [sizes[0], 0, t.num_entities]
        x_here, x_around, alone = torch.split(x, split)
        return x_here, x_around, self.entity if self.settings.inactive == "embedding" else alone

    def messages(self, entity: Tensor, edges: Edges, sample: Sample | None = None) -> Tensor:
        """The structural encoder: what nodes that are entities [nodes] become by their edges, [nodes, dim]."""
        x = self.entity.index_select(0, entity)
        if self.settings.inverse_edges:
            edges = add_inverse_edges(edges, self.timeline.num_relations)
        weights = edge_weights(edges, self.edge_types, self.settings.norm)
        for index, layer in enumerate(self.structure):
            last = index == len(self.structure) - 1
            x = layer(x, edges, weights)
            x = _ACTIVATIONS[
                self.settings.last_activation if last else self.settings.inner_activation
            ](x)
            if sample is not None and self.settings.feature_dropout:
                x = dropout(x, self.settings.feature_dropout, sample.generator)
        return x

    def alone(self) -> Tensor:
        """Every entity without any edge, [entities, dim]."""
        if self.settings.inactive == "embedding":
            return self.entity
        everyone = torch.arange(self.timeline.num_entities, device=self.device)
        return self.messages(everyone, Edges(*(everyone[:0] for _ in Edges._fields)))

    def _steps(self, times: Tensor) -> Tensor:
        """Which steps are among the times, [steps]."""
        wanted = torch.zeros(self.timeline.num_steps, dtype=torch.bool, device=times.device)
        wanted[times] = True
        return wanted

    def _steps_around(self, times: Tensor) -> Tensor:
        """Which steps are in the window of one of the times, [steps]."""
        (past, future), steps = self.reach, self.timeline.num_steps
        before, after = (
            torch.arange(*ends, device=times.device) for ends in ((-past, 0), (1, future + 1))
        )
        # Room on both sides for steps that there are not.
        wanted = torch.zeros(past + steps + future, dtype=torch.bool, device=times.device)
        wanted[(past + times[:, None] + torch.cat([before, after])).flatten()] = True
        return wanted[past : past + steps]

    def _snapshot(self, steps: Tensor, keep: Tensor | None) -> Snapshot:
        """The nodes and edges of some steps: who is active there, and the facts that are kept."""
        t = self.timeline
        there = steps[t.facts[:, 3]]
        kept = (there if keep is None else there & keep).nonzero()[:, 0]
        subject, object_ = t.subject_pair[kept], t.object_pair[kept]
        if t.protocol == "strict":
            alive = torch.zeros(len(t.pair_keys), dtype=torch.bool, device=t.device)
            alive[subject] = True
            alive[object_] = True
        else:
            alive = steps[t.pair_time]
        node = alive.cumsum(0) - 1
        return Snapshot(t.pair_keys[alive], Edges(node[subject], t.facts[kept, 1], node[object_]))

    def entity_vectors(self, times: Tensor) -> Tensor:
        """What the encoders make of every entity; with a gate the structural vector, then the temporal one."""
        return self.encode(times).tables(len(times))

    def evidence(self, query: Queries, answer: int) -> Evidence:
        """The train facts nearest in time that share two parts with the completed fact."""
        return nearest_facts(self.timeline, query, answer)

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> Model:
        """The same weights over other facts, with a memory."""
        from tempograph.models.temp.cached_temp import CachedTeMP

        return CachedTeMP(self, timeline, cache_bytes)


class Sample(NamedTuple):
    """What a training step sees: facts kept at its times, facts kept around them, [train facts] each, and chance."""

    keep: Tensor
    context_keep: Tensor
    generator: torch.Generator


class Questions(NamedTuple):
    """Question vectors [..., dim], and with a gate how much of the candidates is structural, [...]."""

    vector: Tensor
    alpha: Tensor | None

    def laid_out(self, layout: tuple[int, int], slot: Tensor) -> Questions:
        """The questions [n] at their slots of a layout (groups, most), zero elsewhere: [groups, most, dim]."""
        alpha = None if self.alpha is None else pad_groups(self.alpha, layout, slot)
        return Questions(pad_groups(self.vector, layout, slot), alpha)

    def take(self, index: Tensor) -> Questions:
        """Some of the questions."""
        return Questions(self.vector[index], None if self.alpha is None else self.alpha[index])

    def each(self) -> Questions:
        """Every question by itself: [n, 1, dim]."""
        return Questions(self.vector[:, None], None if self.alpha is None else self.alpha[:, None])


class Snapshot(NamedTuple):
    """Nodes of some steps, as sorted keys of (entity, step) pairs [nodes], and the edges between them."""

    keys: Tensor
    edges: Edges


class Nodes(NamedTuple):
    """Sorted keys of nodes [nodes] and their vectors [nodes, dim]."""

    keys: Tensor
    x: Tensor

    def take(self, which: Tensor) -> Nodes:
        """Some of them."""
        return Nodes(self.keys[which], self.x[which])


def all_pairs(times: Tensor, entities: int) -> tuple[Tensor, Tensor]:
    """All pairs of some times [n] and the entities from 0, time by time, [n * entities] each."""
    return times.repeat_interleave(entities), torch.arange(entities, device=times.device).repeat(
        len(times)
    )
