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
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.base import Model
from tempograph.models.heads.fact_candidates import Search
from tempograph.models.heads.new_answers import new_answers

_DECAY: Final = 0.7
"""A fact of n steps ago counts as n^-decay facts."""

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

        def scores(index: Tensor) -> Tensor:
            found = log_probs(model.scores(queries.take(index)))
            found[self._earlier_answers(key[index], now)] = -torch.inf
            return found

        return new_answers(model, queries, weight.log(), scores, limit)[:, :3]

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
