"""From encoded entities to scores: the frequency gate and the decoder."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tempograph.data.frequency import PatternFrequencies
from tempograph.data.sorted_ranges import equal_range
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.temp.encoder import Encoded, TeMPEncoder
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.nn.decoders import DECODERS, inner_products
from tempograph.nn.frequency_gate import FrequencyGate
from tempograph.nn.inplace import put_at
from tempograph.nn.padded_groups import pad_groups, padded_layout
from tempograph.nn.relations import FixedRelations


class QueryVectors(NamedTuple):
    """Query vectors [..., dim], and alpha of the candidates [...] if there is a gate."""

    vector: Tensor
    alpha: Tensor | None

    def pad(self, layout: tuple[int, int], slot: Tensor) -> QueryVectors:
        """The queries [n] at their slots of a layout, zero elsewhere: [groups, members, dim]."""
        alpha = None if self.alpha is None else pad_groups(self.alpha, layout, slot)
        return QueryVectors(pad_groups(self.vector, layout, slot), alpha)

    def take(self, index: Tensor) -> QueryVectors:
        """The queries at an index."""
        return QueryVectors(self.vector[index], None if self.alpha is None else self.alpha[index])

    def unsqueeze(self) -> QueryVectors:
        """Every query in a group of its own: [n, 1, dim]."""
        alpha = None if self.alpha is None else self.alpha[:, None]
        return QueryVectors(self.vector[:, None], alpha)


class TeMPNetwork(TeMPEncoder):
    """h = alpha x + (1 - alpha) z, score = decoder(h_s, r, h_o), on top of the encoders.

    alpha = gate(frequencies of the query in the window), one for the entity of the query and
    another for the candidates.
    """

    def __init__(self, timeline: Timeline, settings: TeMPSettings) -> None:
        super().__init__(timeline, settings)
        self.gate = FrequencyGate() if settings.gate else None
        self.time: nn.Parameter | None = None
        if settings.time_embedding:
            self.time = nn.Parameter(torch.zeros(timeline.num_steps, settings.dim))
        self.decoder = DECODERS[settings.decoder]
        self.relations = FixedRelations(
            self.decoder, timeline.num_relations, settings.dim, settings.initial_scale
        )
        if settings.initialization == "xavier":
            nn.init.xavier_uniform_(self.relations.relation, gain=math.sqrt(2))
        self.frequencies = PatternFrequencies(timeline)
        self.to(timeline.device)

    @property
    def frequency_window(self) -> tuple[int, int]:
        """Steps before and after a query in which facts are counted."""
        return self.settings.window, self.settings.window if self.bidirectional else 0

    def gate_frequencies(self, queries: Queries, left_out: Tensor | None = None) -> Tensor:
        """What the gate looks at: facts of the entity, of the relation and of both, [n, 3].

        Each query may be counted without one fact, left_out [n, 4].
        """
        return self.frequencies.count_queries(queries, *self.frequency_window, left_out)

    def query_vectors(
        self, queries: Queries, given: Tensor, frequencies: Tensor | None = None
    ) -> QueryVectors:
        """Combine the encoded entity of each query, given [n, width], with its relation.

        The frequencies [n, 3] that the gate looks at are counted unless they are passed.
        """
        alpha = None
        if self.gate is not None:
            if frequencies is None:
                frequencies = self.gate_frequencies(queries)
            side = queries.relation // self.timeline.num_relations
            alpha_given, alpha = self.gate(frequencies, side)
            x, z = given.chunk(2, 1)
            given = z + alpha_given[:, None] * (x - z)
        relation = self.relations(queries)
        if self.time is None:
            return QueryVectors(self.decoder.compose(given, relation), alpha)
        # The embedding of the time is added to every entity, also to the candidates.
        time = self.time.index_select(0, queries.time.clamp(max=len(self.time) - 1))
        vector = self.decoder.compose(given + time, relation)
        return QueryVectors(self.decoder.shift_candidates(vector, time), alpha)

    def score(self, queries: QueryVectors, candidates: Tensor) -> Tensor:
        """Scores of encoded candidates [..., candidates, width], [..., n, candidates].

        The gate is applied to the query, `<q, alpha x + (1 - alpha) z>` being
        `<[alpha q, (1 - alpha) q], [x, z]>`: queries with different alpha share one matrix product.
        """
        vector, alpha = queries
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

    def score_all(
        self, queries: QueryVectors, time_index: Tensor, encoded: Encoded, num_times: int
    ) -> tuple[Tensor, Tensor]:
        """Scores of all entities [rows, entities], and the row of each query in them, [n].

        time_index [n] is the index of each query's time among the encoded times.
        """
        layout, slot = padded_layout(time_index, num_times)
        grouped, entities = queries.pad(layout, slot), len(encoded.base)
        if 2 * len(encoded.keys) > num_times * entities:
            return self.score(grouped, encoded.tables(num_times)).flatten(0, 1), slot
        # Most entities have their base row: score those once, then overwrite the others.
        scores = self.score(queries, encoded.base)
        time, entity = encoded.keys // entities, encoded.keys % entities
        row_layout, row_slot = padded_layout(time, num_times)
        own = self.score(grouped, pad_groups(encoded.rows, row_layout, row_slot))
        rows = equal_range(time, time_index)
        query, row = rows.expand()
        values = own.flatten().index_select(0, (slot * row_layout[1] - rows.start)[query] + row)
        scores = put_at(scores, query * entities + entity[row], values)
        return scores, torch.arange(len(time_index), device=time_index.device)
