"""TeMP for prediction: a cache of encoded snapshots, and exact scores without single facts."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.cache import TensorCache
from tempograph.data.frequency import PatternFrequencies
from tempograph.data.sorted_ranges import equal_range
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.base import Model, within_budget
from tempograph.models.temp.encoder import Encoded, EncodedSnapshots, Nodes, all_pairs
from tempograph.models.temp.gated_decoder import TeMPNetwork
from tempograph.nn.padded_groups import chunk_groups
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.nn.structure import Edges

_TIMES_PER_BATCH: Final = 32


class _Rows(NamedTuple):
    """The part of `Encoded` that depends on time."""

    keys: Tensor
    rows: Tensor


class CachedTeMP(Model):
    """A trained TeMP network over a timeline.

    Snapshots and times are encoded one by one: an encoding does not depend on other queries.
    """

    bytes_per_candidate = 24
    probabilistic = True

    def __init__(
        self, network: TeMPNetwork, name: str, timeline: Timeline, cache_bytes: int
    ) -> None:
        super().__init__()
        self.network = copy_sharing_weights(network)
        if timeline is not network.timeline:
            self.network.timeline = timeline
            self.network.frequencies = PatternFrequencies(timeline)
        self.timeline = timeline
        self.name = name
        self.cache = TensorCache(cache_bytes)

    @property
    def window(self) -> tuple[int, int]:
        return self.network.window

    @property
    def caches(self) -> tuple[TensorCache, ...]:
        return (self.cache,)

    def scores(self, queries: Queries) -> Tensor:
        scores = torch.empty(len(queries.time), self.timeline.num_entities, device=self.device)
        queries = self._within_reach(queries)
        for times, index, time_index in chunk_groups(queries.time, _TIMES_PER_BATCH):
            encoded = [self._encoded(time) for time in times.tolist()]
            scores[index] = self._scores_at(queries.take(index), time_index, encoded)
        return scores

    def answer_scores(self, queries: Queries, answer: Tensor) -> Tensor:
        """The score of one entity for each query, [queries]; encodes no other entities."""
        if not len(answer):
            return self._base.new_empty(0)
        queries = self._within_reach(queries)
        t, (past, future) = self.timeline, self.window
        wanted = queries.time.repeat(2) * t.num_entities + torch.cat([queries.entity, answer])
        pairs, inverse = torch.unique(wanted, return_inverse=True)
        time, entity = pairs // t.num_entities, pairs % t.num_entities
        offsets = torch.arange(-past, future + 1, device=self.device)
        steps = (torch.unique(time)[:, None] + offsets).clamp(0, t.num_steps - 1)
        snapshots, base = self._snapshots(torch.unique(steps).tolist()), self._base
        encoded = self.network.encode_pairs(time, entity, snapshots, base)
        rows = base.index_select(0, entity).index_copy(0, encoded.keys, encoded.rows)
        given, candidate = rows.index_select(0, inverse).chunk(2)
        vectors = self.network.query_vectors(queries, given)
        return self.network.score(vectors.unsqueeze(), candidate[:, None])[:, 0, 0]

    def _scores_at(self, queries: Queries, time_index: Tensor, encoded: list[Encoded]) -> Tensor:
        """Scores of queries; time_index [n] is the position of each query's time in `encoded`."""
        of_time = [(time_index == number).nonzero()[:, 0] for number in range(len(encoded))]
        base = encoded[0].base
        given = torch.empty(len(time_index), base.shape[1], dtype=base.dtype, device=self.device)
        for index, each in zip(of_time, encoded, strict=True):
            given[index] = each.take(torch.zeros_like(index), queries.entity[index])
        vectors = self.network.query_vectors(queries, given)
        # Most entities have their base row: score those once, then overwrite the others.
        scores = self.network.score(vectors, base).float()
        for index, (_, keys, rows) in zip(of_time, encoded, strict=True):
            own = self.network.score(vectors.take(index), rows).float()
            scores[index] = scores[index].index_copy(1, keys, own)
        return scores

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> CachedTeMP:
        return CachedTeMP(self.network, self.name, timeline, cache_bytes)

    def counterfactual_scores(self, query: Queries, left_out: Tensor, candidates: Tensor) -> Tensor:
        """Scores with all facts, then without each of some, [1 + n, candidates].

        The steps of each fact are encoded again without it, others come from the cache. Only the
        query's entity and the candidates go through the temporal encoder.
        """
        query = self._within_reach(query)
        entities, index = torch.unique(torch.cat([query.entity, candidates]), return_inverse=True)
        # A fact that holds for a while may be in every step of the window.
        steps = self._width if self.timeline.has_intervals else 1
        nodes = 4 * steps * self.timeline.max_facts_per_step + len(entities) * self._width
        # -1 leaves no fact out.
        facts = torch.cat([left_out.new_tensor([-1]), left_out])
        parts = within_budget(facts, 8 * self.network.settings.dim * nodes)
        return torch.cat([self._scores_without(query, part, entities, index) for part in parts])

    def _scores_without(
        self, query: Queries, left_out: Tensor, entities: Tensor, index: Tensor
    ) -> Tensor:
        """Scores without each fact of left_out [n], -1 for none, [n, candidates].

        index: position among the entities of the query's entity, then of the candidates.
        """
        t, network, count = self.timeline, self.network, len(left_out)
        start = torch.where(left_out < 0, t.num_steps, t.facts[left_out, 3])
        end = t.fact_end[left_out]
        # Each fact has its own copy of the window, `width` steps long.
        first, num_steps = int(query.time) - self.window[0], count * self._width
        shift = torch.arange(count, device=t.device) * self._width - first
        keys, x = [], []
        window = range(max(0, first), min(t.num_steps, first + self._width))
        for now in window:
            nodes = self._step(now)
            match = equal_range(nodes.keys, entities)
            active = match.lengths.nonzero()[:, 0]
            copy, which = torch.cartesian_prod(
                ((start > now) | (end < now)).nonzero()[:, 0],
                torch.arange(len(active), device=t.device),
            ).T
            keys.append(active[which] * num_steps + shift[copy] + now)
            x.append(nodes.x[match.start[active]][which])
        steps = torch.tensor(window, device=t.device)
        near, which = ((start[:, None] <= steps) & (steps <= end[:, None])).nonzero().unbind(1)
        if len(near):
            nodes = self._encode_steps(steps[which], left_out[near])
            row, entity = nodes.keys // t.num_entities, nodes.keys % t.num_entities
            match = equal_range(entities, entity)
            active = match.lengths.nonzero()[:, 0]
            copy = near[row[active]]
            keys.append(match.start[active] * num_steps + shift[copy] + steps[which][row[active]])
            x.append(nodes.x[active])
        nodes = _sorted_nodes(keys, x)
        isolated = self._isolated.index_select(0, entities)
        encoded = network.encode_pairs(
            *all_pairs(shift + query.time, len(isolated)), self._around(nodes, isolated, num_steps)
        )
        tables = encoded.tables(count)
        repeated = Queries(*(column.expand(count) for column in query))
        facts = torch.where(left_out[:, None] < 0, -1, t.rows[left_out])
        frequencies = network.gate_frequencies(repeated, facts)
        vectors = network.query_vectors(repeated, tables[:, index[0]], frequencies)
        return network.score(vectors.unsqueeze(), tables[:, index[1:]])[:, 0]

    @property
    def _width(self) -> int:
        """Steps that may matter for a query."""
        return sum(self.window) + 1

    @property
    def _isolated(self) -> Tensor:
        """Every entity without an edge, [entities, dim]."""
        return self.cache("isolated", lambda: (self.network.isolated(),))[0]

    @property
    def _base(self) -> Tensor:
        """Entities without an active step in their window, [entities, width]."""
        return self.cache("base", lambda: (self.network.encode_inactive(self._isolated),))[0]

    def _encoded(self, time: int) -> Encoded:
        """All entities at a time."""

        def encode() -> _Rows:
            t, (past, future) = self.timeline, self.window
            steps = range(max(0, time - past), min(t.num_steps, time + future + 1))
            pairs = all_pairs(torch.tensor([time], device=self.device), t.num_entities)
            encoded = self.network.encode_pairs(*pairs, self._snapshots(list(steps)), self._base)
            return _Rows(encoded.keys, encoded.rows)

        return Encoded(self._base, *self.cache(("time", time), encode))

    def _snapshots(self, steps: list[int]) -> EncodedSnapshots:
        """The encoded snapshots of some steps together."""
        num_steps, nodes = self.timeline.num_steps, [self._step(step) for step in steps]
        keys = [each.keys * num_steps + step for step, each in zip(steps, nodes, strict=True)]
        together = _sorted_nodes(keys, [each.x for each in nodes])
        return self._around(together, self._isolated, num_steps)

    def _around(self, nodes: Nodes, isolated: Tensor, num_steps: int) -> EncodedSnapshots:
        """Nodes at the times of queries and around them; a forecast knows none at its time."""
        current = Nodes(nodes.keys[:0], nodes.x[:0]) if self.timeline.past_only else nodes
        return EncodedSnapshots(current, nodes, isolated, num_steps)

    def _within_reach(self, queries: Queries) -> Queries:
        """Forecasts far ahead of the history as if they were for the step after it."""
        return queries._replace(time=queries.time.clamp(max=self.timeline.history_end + 1))

    def _step(self, step: int) -> Nodes:
        """The encoded snapshot of one step; keys are its active entities."""
        return self.cache(
            ("step", step), lambda: self._encode_steps(torch.tensor([step], device=self.device))
        )

    def _encode_steps(self, steps: Tensor, left_out: Tensor | None = None) -> Nodes:
        """Snapshots of steps [n] side by side, each without one fact, left_out [n].

        Keys are index of the step * entities + entity.
        """
        t = self.timeline
        row, position = t.edges(steps)
        if left_out is not None:
            stays = position != left_out[row]
            row, position = row[stays], position[stays]
        subject, relation, object_, _ = t.facts[position].unbind(1)
        other_row, other = (t.extra_pair_keys % t.num_steps == steps[:, None]).nonzero().unbind(1)
        keys, node = torch.unique(
            torch.cat(
                [
                    row * t.num_entities + subject,
                    row * t.num_entities + object_,
                    other_row * t.num_entities + t.extra_pair_keys[other] // t.num_steps,
                ]
            ),
            return_inverse=True,
        )
        edges = Edges(node[: len(row)], relation, node[len(row) : 2 * len(row)])
        return Nodes(keys, self.network.pass_messages(keys % t.num_entities, edges))


def _sorted_nodes(keys: list[Tensor], x: list[Tensor]) -> Nodes:
    together = torch.cat(keys)
    order = torch.argsort(together)
    return Nodes(together[order], torch.cat(x)[order])
