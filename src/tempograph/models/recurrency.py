"""Baselines that only repeat the past: recurrency, EdgeBank and the frequency of past facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor

from tempograph.data.fact_index import FactIndex
from tempograph.data.sorted_ranges import Ranges
from tempograph.data.timeline import Queries, Timeline, undirected_facts
from tempograph.models.base import Evidence, Model
from tempograph.models.sparse_scores import MANY_ENTITIES, ConstantRest, SparseScores
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.typing import NonNegativeInt, check_bounds

DECAYS: Final = (0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Decay rates to choose from, for each relation."""
SHARE_WEIGHTS: Final = (0.0, 1e-5, 1e-3, 0.01, 0.1, 1.0, 10.0, 1000.0)
"""Weights of the relation's frequent answers to choose from, for each relation."""

_BYTES_PER_CANDIDATE: Final = 64
"""Memory of a score and a few temporaries in double precision."""
_BYTES_PER_FACT: Final = 64
"""Memory of a fact that a query repeats."""


@dataclass(frozen=True)
class RecurrencySettings:
    """What counts of the past facts that an answer would repeat."""

    repeats: Literal["sum", "latest", "any"] = "sum"
    """Whether all repeated facts count, the latest alone, or only whether there is one."""
    window: NonNegativeInt = 0
    """Steps before a query in which facts count; 0 for all."""
    fit: bool = True
    """Whether decay and weight are chosen on valid, for each relation; else both are 0."""

    def __post_init__(self) -> None:
        check_bounds(self)


class Recurrency(Model):
    """`score(o) = sum over facts (e, r, o, t') with t' < t of 2^(-decay_r (t - t')) + w_r share(o)`

    for a query (e, r, ?, t). share(o) is the fraction of the relation's facts before t that have
    the answer o. Both decay and w are chosen on valid for each directed relation.

    Gastinger, Meilicke, Errica, Sztyler, Schuelke, Stuckenschmidt: History Repeats Itself: A
    Baseline for Temporal Knowledge Graph Forecasting. IJCAI 2024.
    """

    decay: Tensor
    share_weight: Tensor

    def __init__(
        self,
        timeline: Timeline,
        settings: RecurrencySettings | None = None,
        name: str = "recurrency",
    ) -> None:
        super().__init__()
        self.name, self.settings = name, settings or RecurrencySettings()
        directed = 2 * timeline.num_relations
        self.register_buffer("decay", torch.zeros(directed, dtype=torch.float64))
        self.register_buffer("share_weight", torch.zeros(directed, dtype=torch.float64))
        self._index(timeline)
        self.to(timeline.device)

    def _index(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.by_pair = FactIndex(timeline, "both")
        """Facts by (entity, relation)."""
        self.shares = AnswerShares(timeline)
        # The facts that a query repeats, spread over all entities.
        longest = int(self.by_pair.key_start.diff().max())
        repeated = math.ceil(_BYTES_PER_FACT * longest / timeline.num_entities)
        self.bytes_per_candidate = _BYTES_PER_CANDIDATE + repeated

    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each query, [queries, entities]."""
        entities = self.timeline.num_entities
        row, position, weight = self._repeated(queries)
        cell = row * entities + self.by_pair.rows[position, 2]
        scores = torch.zeros(len(queries.time) * entities, dtype=torch.float64, device=self.device)
        self._add_repeated(scores, cell, weight)
        scores = scores.view(-1, entities)
        weights = self.share_weight[queries.relation]
        if weights.any():
            row, answer, share = self.shares(queries.relation, queries.time)
            scores.view(-1).index_add_(0, row * entities + answer, weights[row] * share)
        return scores

    def sparse_sizes(self, queries: Queries) -> Tensor | None:
        if self.timeline.num_entities < MANY_ENTITIES:
            return None
        sizes = self._repeated_ranges(queries).lengths + 1
        if self.share_weight[queries.relation].any():
            sizes = sizes + self.shares.index.candidate_ranges(queries).lengths
        return sizes

    def sparse_scores(self, queries: Queries) -> SparseScores:
        """Scores of repeated answers, and of frequent ones if they count; the others score 0."""
        entities, rows = self.timeline.num_entities, len(queries.time)
        row, position, weight = self._repeated(queries)
        keys = row * entities + self.by_pair.rows[position, 2]
        shares = weight[:0]
        weights = self.share_weight[queries.relation]
        if weights.any():
            row, answer, share = self.shares(queries.relation, queries.time)
            keys, shares = torch.cat([keys, row * entities + answer]), weights[row] * share
        cells, cell = torch.unique(keys, return_inverse=True)
        scores = torch.zeros(len(cells), dtype=torch.float64, device=self.device)
        self._add_repeated(scores, cell[: len(weight)], weight)
        scores.index_add_(0, cell[len(weight) :], shares)
        rest = ConstantRest(0.0, rows, entities, scores)
        return SparseScores(cells // entities, cells % entities, scores, rest, rows, entities)

    def _add_repeated(self, scores: Tensor, cell: Tensor, weight: Tensor) -> None:
        """Add what repeated facts weigh to the scores of their cells, in place."""
        if self.settings.repeats == "sum":
            scores.index_add_(0, cell, weight)
        else:
            # The weight of the latest fact is the largest.
            latest = self.settings.repeats == "latest"
            scores.scatter_reduce_(0, cell, weight if latest else weight.ceil(), "amax")

    def _repeated(self, queries: Queries) -> tuple[Tensor, Tensor, Tensor]:
        """Facts before each query with its entity and relation: query, row and weight, [n] each."""
        row, position = self._repeated_ranges(queries).expand()
        gap = (queries.time[row] - self.by_pair.time[position]).double()
        return row, position, torch.exp2(-self.decay[queries.relation[row]] * gap)

    def _repeated_ranges(self, queries: Queries) -> Ranges:
        """The facts before each query with its entity and relation, [queries]."""
        index, window = self.by_pair, self.settings.window
        key = index.key_ids(queries)
        stop = index.first_row_at(key, queries.time)
        start = index.key_start[key]
        if window:
            start = index.first_row_at(key, (queries.time - window).clamp(min=0))
        return Ranges(start, stop)

    def evidence(self, query: Queries, answer: int) -> Evidence:
        """The facts that an answer repeats, with their shares of the sum; the latest first."""
        _, position, weight = self._repeated(query)
        same = (self.by_pair.rows[position, 2] == answer).nonzero()[:, 0].flip(0)
        if not len(same):
            return super().evidence(query, answer)
        facts = undirected_facts(self.by_pair.rows[position[same]], self.timeline.num_relations)
        return Evidence("repeated facts", facts, weight[same] / weight[same].sum())

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> Recurrency:
        if timeline is self.timeline:
            return self
        twin = copy_sharing_weights(self)
        twin._index(timeline)
        return twin


class AnswerShares:
    """How the facts of each relation before a time divide into answers."""

    def __init__(self, timeline: Timeline) -> None:
        self.num_steps = timeline.num_steps
        self.index = index = FactIndex(timeline, "relation")
        pair = index.candidate_start[index.row_key] + index.candidate_slot
        self.keys = torch.sort(pair * self.num_steps + index.time).values
        """(answer of a relation, time) of each fact, ascending."""

    def __call__(self, relation: Tensor, time: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, answer and share for relations [n] before times [n], [m] each."""
        index = self.index
        asked, inverse = torch.unique(torch.stack([relation, time], 1), dim=0, return_inverse=True)
        key, now = index.find_keys(asked[:, 0]), asked[:, 1]
        row, pair = Ranges(index.candidate_start[key], index.candidate_start[key + 1]).expand()
        first = pair * self.num_steps
        count = torch.searchsorted(self.keys, first + now[row]) - torch.searchsorted(
            self.keys, first
        )
        total = index.first_row_at(key, now) - index.key_start[key]
        share = count.double() / total[row].clamp(min=1)
        # Queries of one relation and time have the same shares.
        starts = torch.searchsorted(row, torch.arange(len(asked) + 1, device=row.device))
        query, position = Ranges(starts[inverse], starts[inverse + 1]).expand()
        return query, index.candidates[pair[position]], share[position]
