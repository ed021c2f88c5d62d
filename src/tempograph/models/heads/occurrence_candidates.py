"""Facts that may happen at a step: those that happened before, and new ones of active pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from tempograph.data.fact_index import FactIndex
from tempograph.data.frequency import check_countable
from tempograph.data.sorted_ranges import Ranges
from tempograph.data.sorted_times import SortedTimes
from tempograph.data.timeline import Queries, Timeline, undirected_facts
from tempograph.device import memory_budget
from tempograph.models.base import Model
from tempograph.models.heads.fact_candidates import Search

_DECAY: Final = 0.7
"""A fact of n steps ago counts as n^-decay facts."""
_ANSWERS_PER_PAIR: Final = 10
"""New answers that are proposed for one entity and relation."""

LogProbs = Callable[[Tensor], Tensor]
"""From scores [n, entities] to log probabilities [n, entities]."""


class OccurrenceCandidates:
    """Proposes facts for a step from the facts before it, the most likely at first sight first."""

    def __init__(self, timeline: Timeline) -> None:
        check_countable(timeline)
        self.timeline = timeline
        subject, relation, object_, time = timeline.facts.unbind(1)
        entities, relations = timeline.num_entities, timeline.num_relations
        self._times = SortedTimes(
            (subject * relations + relation) * entities + object_, time, timeline.num_steps
        )
        values = self._times.values
        self.triples = torch.stack(
            [values // entities // relations, values // entities % relations, values % entities],
            dim=1,
        )
        """Distinct (subject, relation, object) of all facts, [triples, 3]."""
        self._pairs = FactIndex(timeline, "both")

    def recurring(self, now: int, limit: int, search: Search) -> Tensor:
        """Triples of facts before the step `now`, at most `limit`, [n, 3].

        Those come first that happened often and recently.
        """
        weight = self._times.decayed_counts(now, _DECAY)[:-1]
        subject, relation, object_ = self.triples.unbind(1)
        allowed = search.allows_pair(subject, object_) & search.allows("relation", relation)
        weight = torch.where(allowed, weight, 0.0)
        best = weight.topk(min(limit, len(weight)))
        return self.triples[best.indices[best.values > 0]]

    def new(
        self, model: Model, log_probs: LogProbs, now: int, pairs: int, limit: int, search: Search
    ) -> Tensor:
        """The model's best triples that did not happen before the step `now`, at most `limit`.

        They are answers to (e, r, ?, now) for the entities and relations, `pairs` of them, that
        had most facts together recently, in either direction, [n, 3].
        """
        key, weight = self._active_pairs(now, pairs, search)
        directed = 2 * self.timeline.num_relations
        values = self._pairs.values[key]
        queries = Queries(values // directed, values % directed, torch.full_like(key, now))
        size = max(
            1,
            memory_budget("ranking", self.timeline.device)
            // (self.timeline.num_entities * (model.bytes_per_candidate + 16)),
        )
        found, value = [values.new_empty(0, 3)], [weight.new_empty(0)]
        for index in torch.split(torch.arange(len(key), device=key.device), size):
            batch = queries.take(index)
            scores = log_probs(model.scores(batch))
            scores[self._earlier_answers(key[index], now)] = -torch.inf
            best = scores.topk(min(_ANSWERS_PER_PAIR, scores.shape[1]), dim=1)
            row, place = (best.values > -torch.inf).nonzero().unbind(1)
            facts = torch.stack(
                [batch.entity[row], batch.relation[row], best.indices[row, place], batch.time[row]],
                dim=1,
            )
            found.append(undirected_facts(facts, self.timeline.num_relations)[:, :3])
            value.append(weight[index[row]].log() + best.values[row, place])
        order = torch.argsort(torch.cat(value), descending=True, stable=True)[: 2 * limit]
        # A triple may be an answer in both directions; its first place counts.
        distinct, inverse = torch.unique(torch.cat(found)[order], dim=0, return_inverse=True)
        place = torch.full((len(distinct),), len(order), device=order.device)
        place.scatter_reduce_(0, inverse, torch.arange(len(order), device=order.device), "amin")
        triples: Tensor = distinct[torch.argsort(place)[:limit]]
        return triples

    def _active_pairs(self, now: int, limit: int, search: Search) -> tuple[Tensor, Tensor]:
        """The keys of the most active directed pairs before a step, and their weights, [n] each."""
        index = self._pairs
        past = index.time < now
        decayed = (now - index.time[past]).double().pow(-_DECAY)
        weight = decayed.new_zeros(len(index.values)).index_add_(0, index.row_key[past], decayed)
        entity, relation = (
            index.values // index.num_directed_relations,
            index.values % index.num_directed_relations % self.timeline.num_relations,
        )
        allowed = search.allows_pair(entity, entity) & search.allows("relation", relation)
        best = torch.where(allowed, weight, 0.0).topk(min(limit, len(weight)))
        some = best.values > 0
        return best.indices[some], best.values[some]

    def _earlier_answers(self, key: Tensor, now: int) -> tuple[Tensor, Tensor]:
        """Pairs (row, answer) of the answers that keys [n] had before a step."""
        index = self._pairs
        stop = index.first_row_at(key, torch.full_like(key, now))
        row, position = Ranges(index.key_start[key], stop).expand()
        return row, index.rows[position, 2]
