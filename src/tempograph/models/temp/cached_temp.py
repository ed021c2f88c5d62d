"""TeMP behind questions: what questions at one time share is kept, and facts are left out exactly, one at a time."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.cache import TensorCache
from tempograph.data.frequency import PatternFrequencies
from tempograph.data.sorted_ranges import equal_range
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.base import Evidence, Model, within_budget
from tempograph.models.temp.temp import Encoded, Nodes, TeMP, all_pairs
from tempograph.nn.padded_groups import chunk_groups
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.nn.structure import Edges

_TIMES_AT_ONCE: Final = 32
"""Times whose questions are scored together."""


class _Rows(NamedTuple):
    """The pairs (time, entity) that differ from the base, and their vectors, as in `Encoded`."""

    keys: Tensor
    rows: Tensor


class CachedTeMP(Model):
    """A trained TeMP model over a timeline.

    Each snapshot and each time is encoded by itself, so that what is kept of it does not depend on what else was asked.
    """

    probabilistic = True

    def __init__(self, model: TeMP, timeline: Timeline, cache_bytes: int) -> None:
        super().__init__()
        twin = copy_sharing_weights(model)
        if timeline is not model.timeline:
            twin.timeline, twin.frequencies = timeline, PatternFrequencies(timeline)
        self.model = twin
        self.timeline = timeline
        self.name, self.bytes_per_candidate = model.name, model.bytes_per_candidate
        self.cache = TensorCache(cache_bytes)

    @property
    def device(self) -> torch.device:
        """Where the timeline and the weights lie."""
        return self.model.device

    @property
    def window(self) -> tuple[int, int]:
        """Steps before and after a query that are encoded."""
        return self.model.window

    @property
    def caches(self) -> tuple[TensorCache, ...]:
        """The cache of encoded snapshots and times."""
        return (self.cache,)

    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each question, [queries, entities]."""
        scores = torch.empty(len(queries.time), self.timeline.num_entities, device=self.device)
        for times, inside, place in chunk_groups(queries.time, _TIMES_AT_ONCE):
            encoded = [self._at(time) for time in times.tolist()]
            scores[inside] = self._scores_at(queries.take(inside), place, encoded)
        return scores

    def answer_scores(self, queries: Queries, answer: Tensor) -> Tensor:
        """Only what is given and what is asked for is followed through time, [queries]."""
        if not len(answer):
            return self._base.new_empty(0)
        t, (past, future) = self.timeline, self.model.window
        wanted = queries.time.repeat(2) * t.num_entities + torch.cat([queries.entity, answer])
        pairs, place = torch.unique(wanted, return_inverse=True)
        time, entity = pairs // t.num_entities, pairs % t.num_entities
        offsets = torch.arange(-past, future + 1, device=self.device)
        steps = torch.unique(
            (torch.unique(time)[:, None] + offsets).clamp(0, t.num_steps - 1)
        ).tolist()
        nodes = self._nodes([(step, self._step(step)) for step in steps])
        base = self._base
        encoded = self.model.across(time, entity, nodes, nodes, self._alone, t.num_steps, base)
        rows = base.index_select(0, entity).index_copy(0, encoded.keys, encoded.rows)
        given, asked = rows.index_select(0, place).chunk(2)
        return self.model.score(self.model.questions(queries, given).each(), asked[:, None])[
            :, 0, 0
        ]

    def _scores_at(self, queries: Queries, place: Tensor, encoded: list[Encoded]) -> Tensor:
        """Scores of questions whose times are encoded; place [n] is the place of each question's time among them."""
        mine = [(place == number).nonzero()[:, 0] for number in range(len(encoded))]
        base = encoded[0].base
        given = torch.empty(len(place), base.shape[1], dtype=base.dtype, device=self.device)
        for some, each in zip(mine, encoded, strict=True):
            given[some] = each.take(torch.zeros_like(some), queries.entity[some])
        questions = self.model.questions(queries, given)
        # Most entities are as in the base, whatever the time; the others' scores take the place of these, so that no
        # table is made.
        scores = self.model.score(questions, base).float()
        for some, (_, keys, rows) in zip(mine, encoded, strict=True):
            own = self.model.score(questions.take(some), rows).float()
            scores[some] = scores[some].index_copy(1, keys, own)
        return scores

    def relation_scores(self, subject: int, object_: int, time: int) -> Tensor:
        """Scores of every relation for (subject, ?, object, time), [relations]."""
        return self.model.relation_scores(subject, object_, time, self._at(time))

    def evidence(self, query: Queries, answer: int) -> Evidence:
        """The train facts nearest in time that share two parts with the completed fact."""
        return self.model.evidence(query, answer)

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> CachedTeMP:
        """The same weights over other facts."""
        return CachedTeMP(self.model, timeline, cache_bytes)

    def counterfactual_scores(self, query: Queries, left_out: Tensor, candidates: Tensor) -> Tensor:
        """The step of each fact is encoded again without it, then all that follows from that, [1 + n, candidates].

        Steps around it stay as they are, and only the entity asked about and the candidates are followed through time.
        """
        entities, place = torch.unique(torch.cat([query.entity, candidates]), return_inverse=True)
        per_step = self.timeline.max_facts_per_step
        each = 8 * self.model.settings.dim * (4 * per_step + len(entities) * self._width)
        gone = torch.cat([left_out.new_tensor([-1]), left_out])
        parts = [self._without(query, some, entities, place) for some in within_budget(gone, each)]
        return torch.cat(parts)

    def _without(self, query: Queries, gone: Tensor, entities: Tensor, place: Tensor) -> Tensor:
        """Scores as if each fact of gone [n] were not there, -1 for none; place: of the entity, then the candidates."""
        t, count = self.timeline, len(gone)
        step = torch.where(gone < 0, -1, t.facts[gone, 3])
        # Every fact gets steps of its own, `width` of them, with the time asked about at the same place in each.
        first, num_steps = int(query.time) - self.model.window[0], count * self._width
        shift = torch.arange(count, device=t.device) * self._width - first
        keys, x = [], []
        for now in range(max(0, first), min(t.num_steps, first + self._width)):
            nodes = self._step(now)
            found = equal_range(nodes.keys, entities)
            mine = found.lengths.nonzero()[:, 0]
            copy, who = torch.cartesian_prod(
                (step != now).nonzero()[:, 0], torch.arange(len(mine), device=t.device)
            ).T
            keys.append(mine[who] * num_steps + shift[copy] + now)
            x.append(nodes.x[found.start[mine]][who])
        near = ((gone >= 0) & (step >= first) & (step < first + self._width)).nonzero()[:, 0]
        if len(near):
            nodes = self._snapshots(step[near], gone[near])
            row, entity = nodes.keys // t.num_entities, nodes.keys % t.num_entities
            found = equal_range(entities, entity)
            mine = found.lengths.nonzero()[:, 0]
            copy = near[row[mine]]
            keys.append(found.start[mine] * num_steps + shift[copy] + step[copy])
            x.append(nodes.x[mine])
        together = torch.cat(keys)
        order = torch.argsort(together)
        nodes = Nodes(together[order], torch.cat(x)[order])
        alone = self._alone.index_select(0, entities)
        encoded = self.model.across(
            *all_pairs(shift + query.time, len(alone)), nodes, nodes, alone, num_steps
        )
        tables = encoded.tables(count)
        repeated = Queries(*(column.expand(count) for column in query))
        facts = torch.where(gone[:, None] < 0, -1, t.facts[gone])
        counts = self.model.frequencies.count_queries(repeated, *self.model.reach, facts)
        questions = self.model.questions(repeated, tables[:, place[0]], counts)
        return self.model.score(questions.each(), tables[:, place[1:]])[:, 0]

    @property
    def _width(self) -> int:
        """Steps that may matter for a question."""
        past, future = self.model.window
        return past + 1 + future

    @property
    def _alone(self) -> Tensor:
        """Every entity by itself, [entities, dim]."""
        return self.cache("alone", lambda: (self.model.alone(),))[0]

    @property
    def _base(self) -> Tensor:
        """What entities are at times that nothing is known of, [entities, width]."""
        return self.cache("base", lambda: (self.model.base(self._alone),))[0]

    def _at(self, time: int) -> Encoded:
        """All entities at a time."""
        return Encoded(
            self._base, *self.cache(("time", time), lambda: self._encode(time, self._base))
        )

    def _encode(self, time: int, base: Tensor) -> _Rows:
        t, (past, future) = self.timeline, self.model.window
        steps = range(max(0, time - past), min(t.num_steps, time + future + 1))
        nodes = self._nodes([(now, self._step(now)) for now in steps])
        times = torch.tensor([time], device=self.device)
        encoded = self.model.across(
            *all_pairs(times, t.num_entities), nodes, nodes, self._alone, t.num_steps, base
        )
        return _Rows(encoded.keys, encoded.rows)

    def _nodes(self, steps: list[tuple[int, Nodes]]) -> Nodes:
        """The nodes of some steps together."""
        keys = torch.cat([nodes.keys * self.timeline.num_steps + step for step, nodes in steps])
        order = torch.argsort(keys)
        return Nodes(keys[order], torch.cat([nodes.x for _, nodes in steps])[order])

    def _step(self, step: int) -> Nodes:
        """The entities that are active at a step, and what message passing makes of them."""
        return self.cache(
            ("step", step), lambda: self._snapshots(torch.tensor([step], device=self.device))
        )

    def _snapshots(self, steps: Tensor, gone: Tensor | None = None) -> Nodes:
        """Snapshots of some steps side by side, each without a fact; keys are row of the step * entities + entity."""
        t = self.timeline
        row, position = t.edges(steps)
        if gone is not None:
            stays = position != gone[row]
            row, position = row[stays], position[stays]
        subject, relation, object_, _ = t.facts[position].unbind(1)
        also_row, also = (t.extra_pair_keys % t.num_steps == steps[:, None]).nonzero().unbind(1)
        named = [row * t.num_entities + subject, row * t.num_entities + object_]
        kept = also_row * t.num_entities + t.extra_pair_keys[also] // t.num_steps
        keys, node = torch.unique(torch.cat([*named, kept]), return_inverse=True)
        source, target = node[: len(row)], node[len(row) : 2 * len(row)]
        return Nodes(
            keys, self.model.messages(keys % t.num_entities, Edges(source, relation, target))
        )
