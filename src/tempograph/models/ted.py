"""TED, temporal exponential decay: rank answers by decayed counts of similar facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from tempograph.data.held_facts import signed_gap
from tempograph.data.timeline import Queries, Timeline, both_directions, undirected_facts
from tempograph.errors import ConfigError
from tempograph.models.base import Evidence, Model
from tempograph.models.decayed_counts import MAX_FACTS, DecayedCounts
from tempograph.models.sparse_scores import MANY_ENTITIES, ConstantRest, SparseScores
from tempograph.nn.padded_groups import pad_groups, padded_layout

PAPER_SIGMAS: Final = (1e-5, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e5)
"""Decay rates of the paper's sensitivity table; `sigma = "auto"` chooses among them on valid."""

SAME: Final = ("same entity and relation", "same entity", "same relation")
"""What a copied fact shares with the query, best first."""

_LARGEST_SIGMA: Final = 64.0
"""exp(-64) vanishes next to 1 in double precision: a larger sigma gives the same order."""


@dataclass(frozen=True)
class TEDSettings:
    """Settings of TED."""

    sigma: float | str = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.sigma, str):
            valid = self.sigma == "auto"
        else:
            valid = math.isfinite(self.sigma) and self.sigma >= 0
        if not valid:
            shown = repr(self.sigma)
            raise ConfigError(f"sigma must be a number of at least 0 or 'auto', found {shown}")


class TED(Model):
    """`score(o) = sum over train facts (e', r', o, t') with t' != t of exp(-sigma |t - t'|)`

    for a query (e, r, ?, t), over three sets of facts: same entity and relation, same entity, same
    relation. Answers of the first set rank before those of the second, the third and the rest.
    To forecast, it takes facts with t' < t. For a fact that holds for a while, |t - t'| is 0 while
    it holds, else the steps since its end or until its start; a fact of t alone does not count.
    The baseline of Wu, Cao, Cheung, Hamilton: TeMP: Temporal Message Passing for Temporal Knowledge
    Graph Completion. EMNLP 2020.
    """

    name = "ted"
    # The widest set may hold every entity: eleven temporaries of 8 bytes, and the scores.
    bytes_per_candidate = 96

    def __init__(self, timeline: Timeline, sigma: float, min_capacity: int = 0) -> None:
        """Scores are scaled for the number of facts, or for min_capacity facts if that is more.

        Those of a forecaster are scaled for any number: it does not know how many facts come later.
        """
        super().__init__()
        self.sigma = sigma
        self.timeline = timeline
        self.num_relations = timeline.num_relations
        self.num_entities = timeline.num_entities
        self.facts = both_directions(timeline.facts, timeline.num_relations)
        self.ends = timeline.fact_end.repeat(2)
        """The last step of each of `facts`."""
        # Smaller logarithms leave more digits for the counts.
        self.rate = rate = min(sigma, _LARGEST_SIGMA)
        answer, start = self.facts[:, 2], self.facts[:, 3]
        end = self.ends if timeline.has_intervals else None
        self.sets = [
            DecayedCounts(key, answer, start, rate, timeline, end)
            for key in self._keys(self.facts[:, 0], self.facts[:, 1])
        ]
        self.capacity = max(min_capacity, MAX_FACTS if timeline.past_only else len(self.facts))

    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each query, [queries, entities].

        The log of an entity's sum, scaled to 0..1, plus 2, 1 or 0 for its set; -inf for the rest.
        """
        # Queries with one relation and time share the widest set.
        distinct, same = torch.unique(queries.relation * 2**32 + queries.time, return_inverse=True)
        shared = self._no_scores(len(distinct), self.num_entities)
        self._put_set(shared, 2, distinct // 2**32, distinct % 2**32)
        scores = shared[same]
        # Better sets overwrite the others.
        keys = self._keys(queries.entity, queries.relation)
        for number in (1, 0):
            self._put_set(scores, number, keys[number], queries.time)
        return scores

    def _set_scores(self, number: int, key: Tensor, time: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Row, answer and score of a set, the narrowest of which is number 0, for its keys [n]."""
        row, answer, value = self.sets[number].at(key, time)
        return row, answer, self._scaled(value, time[row]) + (2 - number)

    def _scaled(self, value: Tensor, time: Tensor) -> Tensor:
        """Logs of sums, scaled to 0..1 for the steps of the data and those up to the query.

        Steps after both do not matter, so that a longer time grid has the same answers.
        """
        lowest = -self.rate * (time.clamp(min=self.timeline.history_end) + 1).double()
        return (value - lowest) / (math.log(self.capacity) - lowest + 1)

    def _put_set(self, scores: Tensor, number: int, key: Tensor, time: Tensor) -> None:
        """Write the scores of a set for its keys [n]."""
        row, answer, score = self._set_scores(number, key, time)
        scores[row, answer] = score

    def sparse_sizes(self, queries: Queries) -> Tensor | None:
        if self.num_entities < MANY_ENTITIES:
            return None
        # Answers of the first set are in the second as well.
        keys = self._keys(queries.entity, queries.relation)[1:]
        sizes: Tensor = sum(
            (counts.num_answers(key) for counts, key in zip(self.sets[1:], keys, strict=True)),
            torch.ones_like(queries.entity),
        )
        return sizes

    def sparse_scores(self, queries: Queries) -> SparseScores:
        """Scores of the answers of the three sets; the others are ruled out."""
        found = []
        for number, key in enumerate(self._keys(queries.entity, queries.relation)):
            row, answer, score = self._set_scores(number, key, queries.time)
            found.append((row * self.num_entities + answer, score))
        keys, cell = torch.unique(torch.cat([keys for keys, _ in found]), return_inverse=True)
        scores = torch.full_like(keys, -math.inf, dtype=torch.float64)
        # The better set has the higher score.
        scores.scatter_reduce_(0, cell, torch.cat([score for _, score in found]), "amax")
        rows = len(queries.time)
        rest = ConstantRest(-math.inf, rows, self.num_entities, scores)
        row, candidate = keys // self.num_entities, keys % self.num_entities
        return SparseScores(row, candidate, scores, rest, rows, self.num_entities)

    def _no_scores(self, rows: int, columns: int) -> Tensor:
        return torch.full((rows, columns), -math.inf, dtype=torch.float64, device=self.device)

    def evidence(self, query: Queries, answer: int) -> Evidence:
        """The facts behind the rank of an answer, nearest first, with their shares of the sum."""
        counts = (self.facts[:, 2] == answer) & self._counts_for(query)
        eligible, distance = self.facts[counts], self._distances(query)[counts]
        entity, relation = eligible[:, 0], eligible[:, 1]
        for shared, key, query_key in zip(
            SAME, self._keys(entity, relation), self._keys(*query[:2]), strict=True
        ):
            facts, gap = eligible[key == query_key], distance[key == query_key]
            if len(facts):
                order = torch.argsort(gap, stable=True)
                shares = torch.softmax(-self.sigma * gap[order].double(), dim=0)
                return Evidence(shared, undirected_facts(facts[order], self.num_relations), shares)
        return Evidence("nothing", self.facts[:0], torch.empty(0, dtype=torch.float64))

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> TED:
        return self if timeline is self.timeline else TED(timeline, self.sigma, self.capacity)

    def counterfactual_scores(self, query: Queries, left_out: Tensor, candidates: Tensor) -> Tensor:
        entity, relation, answer, _ = self.facts.unbind(1)
        scores, distance = (
            self._no_scores(1 + len(left_out), len(candidates)),
            self._distances(query),
        )
        column = torch.full((self.num_entities,), -1, device=self.device)
        column[candidates] = torch.arange(len(candidates), device=self.device)
        row = torch.zeros(len(self.timeline.facts), dtype=torch.int64, device=self.device)
        row[left_out] = torch.arange(1, 1 + len(left_out), device=self.device)
        for level, counts, key, query_key in zip(
            (2, 1, 0), self.sets, self._keys(entity, relation), self._keys(*query[:2]), strict=True
        ):
            matches = (key == query_key) & self._counts_for(query) & (column[answer] >= 0)
            facts = matches.nonzero()[:, 0]
            its_column, its_row = column[answer[facts]], row[facts % len(self.timeline.facts)]
            weight = -self.rate * distance[facts].double()
            whole, without = sums_without_each(weight, its_column, len(candidates))
            value = whole.repeat(1 + len(left_out), 1)
            # A fact is in a set in one direction only, so one candidate loses it.
            removed = its_row > 0
            value[its_row[removed], its_column[removed]] = without[removed]
            value = counts.round_ties(value)
            scaled = self._scaled(value, query.time) + level
            scores = torch.where((scores == -math.inf) & (value > -math.inf), scaled, scores)
        return scores

    def _counts_for(self, query: Queries) -> Tensor:
        """Which facts are at a time that counts for one query, [2 facts]."""
        start = self.facts[:, 3]
        if self.timeline.past_only:
            return start < query.time
        return (start != query.time) | (self.ends != query.time)

    def _distances(self, query: Queries) -> Tensor:
        """Steps between facts and one query, 0 while a fact holds, [2 facts]."""
        return signed_gap(self.facts[:, 3], self.ends, query.time).abs()

    def _keys(self, entity: Tensor, relation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What a fact must share with a query to be in each of the three sets, [n] each."""
        side = relation // self.num_relations
        return entity * 2 * self.num_relations + relation, entity * 2 + side, relation


def sums_without_each(logs: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Log-sum-exp of each group, [groups], and of each member's group without it, [n]."""
    layout, slot = padded_layout(group, groups)
    laid = pad_groups(logs, layout, slot, fill=-math.inf)
    before, after = (torch.logcumsumexp(each, 1) for each in (laid, laid.flip(1)))
    nothing = laid.new_full((groups, 1), -math.inf)
    before, after = (torch.cat([nothing, each], 1) for each in (before, after))
    without = torch.logaddexp(before[:, :-1], after[:, :-1].flip(1))
    return before[:, -1], without.flatten()[slot]
