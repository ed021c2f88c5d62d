"""The pointer: facts near a query vote for their candidates; no entity has an embedding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, cast

import torch
from torch import Tensor, nn

from tempograph.data.common_neighbors import NeighborQueries
from tempograph.data.fact_index import FactIndex, Key
from tempograph.data.nearest_intervals import NearestIntervals
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import ConfigError
from tempograph.models.base import Evidence, Model, within_budget
from tempograph.models.pointer.candidate_facts import CandidateFacts, CandidateQueries
from tempograph.models.pointer.copying import Copying
from tempograph.models.pointer.entity_counts import EntityCounts
from tempograph.models.pointer.names import Names
from tempograph.models.pointer.partners import PartnerRanges
from tempograph.models.pointer.paths import Paths
from tempograph.models.pointer.recent_paths import RecentPaths
from tempograph.models.pointer.relation_prior import SortedPrior
from tempograph.models.pointer.removed_facts import RemovedFacts
from tempograph.models.pointer.similar_entities import SimilarEntities, SimilarQueries
from tempograph.models.pointer.sparse_layout import Lookups, SparseLayout, uses_sparse_layout
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.models.sparse_scores import BYTES_PER_CELL, SparseScores
from tempograph.nn.kept_value import KeptValue
from tempograph.nn.path_sums import PathQueries
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.nn.votes import VoteLookup
from tempograph.typing import NonNegativeInt, PositiveInt, check_bounds

_BYTES_PER_VOTE: Final = 100
"""Memory of a vote on a CPU; the kernels of a GPU store no votes."""
_BYTES_PER_LISTED_VOTE: Final = 240
"""Memory of a vote of a fact that holds for a while, which is listed on any device."""

NAME_WIDTH: Final = 64
"""Numbers in the vector of a name."""

VoteSource = Copying | Paths | RecentPaths | EntityCounts | Names | CandidateFacts | SimilarEntities
Lookup = (
    VoteLookup
    | NeighborQueries
    | PathQueries
    | SimilarQueries
    | RemovedFacts
    | PartnerRanges
    | CandidateQueries
)
"""What a source looked up for some queries, independent of any weight."""


@dataclass(frozen=True)
class PointerSettings:
    """How many facts of each kind vote, those nearest in time."""

    max_facts: PositiveInt = 512
    """Facts of the query's entity."""
    max_facts_per_relation: PositiveInt = 256
    """Facts of the query's relation, of any entity."""
    max_facts_per_pair: NonNegativeInt = 128
    """Facts of the query's entity with its relation; 0 for none."""
    max_facts_per_time: NonNegativeInt = 512
    """Facts at the query's time, of any entity; 0 for none, as for facts of several steps."""
    max_facts_overall: NonNegativeInt = 0
    """Facts of any kind; 0 for none."""
    max_facts_per_hop: NonNegativeInt = 0
    """Latest facts of an entity that are steps of a path of two, in forecasts; 0 for no paths."""
    paths: bool = False
    """Whether candidates gain by the neighbors they share with the query's entity."""
    names: bool = False
    """Whether candidates gain by words in their name and in that of the query's entity.

    What an entity gains as such is then a matter of how many facts it has, except in forecasts.
    """

    max_similar: NonNegativeInt = 0
    """Entities with the most neighbors in common with the query's entity, whose facts vote; 0 for
    none."""
    candidate_facts: bool = False
    """Whether candidates gain by the facts they have themselves and by how long ago these were, if
    facts hold for a while."""
    prior: Literal["entities", "counts"] = "entities"
    """Whether what an entity gains as such, in all or as an answer to a relation, is learned for
    each, or only by how many facts it has. The latter, without forecasts, is for few facts each."""
    counts: Literal["all", "voting"] = "all"
    """Whether the facts of a group that are too far away to vote count for every candidate, or only
    for those that another fact votes for. Those of the relation always do, except in forecasts."""
    layout: Literal["auto", "dense", "sparse"] = "auto"
    """Whether all entities are scored, or only those that differ from the rest, to the same effect:
    by default, the latter with many entities."""

    aliases: ClassVar[Mapping[str, str]] = {
        "most": "max_facts",
        "most_of_relation": "max_facts_per_relation",
        "most_of_both": "max_facts_per_pair",
        "most_of_time": "max_facts_per_time",
        "most_of_any": "max_facts_overall",
    }

    def __post_init__(self) -> None:
        check_bounds(self)


class Pointer(Model):
    """`score(o) = P0[o] + P[r, o] + sum over sources of contribution(o)`

    The sources are `Copying` of facts of the query's entity, relation, both, time and overall, and
    `Paths`. P is trained for (relation, candidate) pairs that occur in train, and 0 for others.
    With the setting `names` there are `Names`, and `EntityCounts` takes the place of P0.
    """

    name = "pointer"
    bytes_per_candidate = 28
    probabilistic = True

    def __init__(self, timeline: Timeline, settings: PointerSettings) -> None:
        super().__init__()
        self.timeline = timeline
        self.settings = settings
        if timeline.past_only:
            if settings.paths or settings.max_similar:
                name, off = ("paths", "false") if settings.paths else ("max_similar", 0)
                raise ConfigError(
                    "a forecaster must not look at facts after the query, "
                    f"as model.{name} does; set model.{name}={off}, and model.max_facts_per_hop "
                    "for paths of earlier facts"
                )
            self.bytes_per_candidate += 8
        # Nothing is known of the day that a forecast is about. Of facts of several steps, the
        # other sources have those that hold.
        by_counts = settings.prior == "counts" and not timeline.past_only
        has_time = not timeline.past_only and timeline.longest == 1
        keys: list[tuple[Key, int, float]] = [
            ("entity", settings.max_facts, 1.0),
            ("relation", settings.max_facts_per_relation, 0.1),
            ("both", settings.max_facts_per_pair, 0.3),
            ("time", settings.max_facts_per_time if has_time else 0, 0.1),
            ("any", settings.max_facts_overall, 0.1),
        ]
        copying = [
            _copying(
                timeline,
                key,
                max_facts,
                gain,
                count_all=key == "relation" or settings.counts == "all",
                prior=key == "relation" and not by_counts,
            )
            for key, max_facts, gain in keys
            if max_facts
        ]
        # Sources run one after another, so the largest decides, spread over all entities.
        per_query = [max(source.pair.bytes_per_query for source in copying)]
        if timeline.has_intervals:
            # All sources look up their votes before the first one runs.
            votes = sum(max_facts for _, max_facts, _ in keys)
            per_query.append(_BYTES_PER_LISTED_VOTE * votes)
        elif timeline.device.type == "cpu":
            per_query.append(_BYTES_PER_VOTE * max(max_facts for _, max_facts, _ in keys))
        self.bytes_per_candidate += sum(
            math.ceil(size / timeline.num_entities) for size in per_query
        )
        self.sources = nn.ModuleList(copying)
        if settings.paths:
            paths = Paths(timeline, initial_gain=0.1)
            self.sources.append(paths)
            self.bytes_per_candidate += paths.bytes_per_candidate
        if settings.max_facts_per_hop and timeline.past_only:
            self.sources.append(RecentPaths(timeline, settings.max_facts_per_hop, 0.1))
            votes = _BYTES_PER_VOTE * settings.max_facts_per_hop**2
            self.bytes_per_candidate += 12 + math.ceil(votes / timeline.num_entities)
        if settings.max_similar:
            similar = SimilarEntities(timeline, settings.max_similar, initial_gain=0.1)
            self.sources.append(similar)
            self.bytes_per_candidate += similar.bytes_per_candidate
        if settings.candidate_facts:
            candidate_facts = _candidate_facts(timeline)
            self.sources.append(candidate_facts)
            self.bytes_per_candidate += candidate_facts.bytes_per_candidate
        named = torch.bincount(timeline.facts[:, [0, 2]].flatten(), minlength=timeline.num_entities)
        self.entity = nn.Parameter(0.3 * torch.log(named + 0.5))
        if (settings.names or by_counts) and not timeline.past_only:
            self.sources.append(EntityCounts(timeline))
            self.entity.requires_grad_(False).zero_()
        if settings.names:
            self.sources.append(Names(timeline, NAME_WIDTH))
        self._kept_prior = KeptValue[SortedPrior]()
        self.to(timeline.device)

    @property
    def packs_lookups(self) -> bool:
        """Whether what sources look up has a packed form: not if facts hold for a while."""
        return not self.timeline.has_intervals

    @property
    def vote_sources(self) -> Iterable[VoteSource]:
        """`sources`, with their types."""
        return cast(Iterable[VoteSource], self.sources)

    @property
    def layout(self) -> SparseLayout | None:
        """Lays out the candidates that differ from the rest; None if all entities are scored."""
        entities = self.timeline.num_entities
        if not uses_sparse_layout(self.settings.layout, entities, self.sources):
            return None
        return SparseLayout(self.entity, self.sources)

    def prepare(self) -> bool:
        return any(each.prepare() for each in self.vote_sources if isinstance(each, Paths))

    def scores(self, queries: Queries) -> Tensor:
        return self.score(queries.relation, self.look_up(queries))

    def answer_scores(self, queries: Queries, answer: Tensor) -> Tensor:
        if self.layout is None:
            return super().answer_scores(queries, answer)
        row = torch.arange(len(answer), device=answer.device)
        return self.sparse_scores(queries).at(row, answer)

    def sparse_sizes(self, queries: Queries) -> Tensor | None:
        layout = self.layout
        return None if layout is None else layout.sizes(cast(Lookups, self.look_up(queries)))

    def sparse_scores(self, queries: Queries) -> SparseScores:
        return self._sparse_scores(queries, None)

    def _sparse_scores(self, queries: Queries, left_out: Tensor | None) -> SparseScores:
        layout, lookups = self.layout, cast(Lookups, self.look_up(queries, left_out))
        if layout is None:
            return super().sparse_scores(queries)
        return layout.sparse_scores(
            queries.relation, lookups, layout.sorted_prior(self._kept_prior)
        )

    def look_up(self, queries: Queries, left_out: Tensor | None = None) -> list[Lookup]:
        """What each source looks up for the queries, without the train facts left_out [n]."""
        return [source.look_up(queries, left_out) for source in self.vote_sources]

    def score(
        self, relation: Tensor, lookups: Sequence[Lookup], sample: VoteSample | None = None
    ) -> Tensor:
        """Scores [n, entities] of queries with relations [n], with a sample as a step sees them."""
        scores = self.entity.repeat(len(relation), 1)
        for source, lookup in zip(self.vote_sources, lookups, strict=True):
            scores = source(scores, relation, lookup, sample)
        return scores

    def evidence(self, query: Queries, answer: int) -> Evidence:
        """The facts that vote for an answer, with their shares of all votes.

        With names, the reason says what they add to the score of the answer.
        """
        facts, contributions = zip(
            *(source.fact_contributions(query, answer) for source in self.vote_sources), strict=True
        )
        # A fact may vote in several sources.
        fact, inverse = torch.unique(torch.cat(facts), return_inverse=True)
        if not len(fact):
            return super().evidence(query, answer)
        total = torch.zeros(len(fact), device=self.device)
        total = total.index_add(0, inverse, torch.cat(contributions).detach())
        order = torch.argsort(total, descending=True, stable=True)
        shares = total[order] / total.abs().sum()
        reason = "".join(["learned copying", *self._describe_names(query, answer)])
        return Evidence(reason, self.timeline.facts[fact[order]], shares)

    @torch.no_grad()
    def _describe_names(self, query: Queries, answer: int) -> list[str]:
        """How far names raise an answer above the mean of all entities, if the model uses them."""
        gains = []
        for source in self.vote_sources:
            if isinstance(source, Names):
                scores = torch.zeros_like(self.entity)[None]
                scores = source(scores, query.relation, source.look_up(query))[0]
                gains.append(f", names {float(scores[answer] - scores.mean()):+.2f}")
        return gains

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> Pointer:
        if timeline is self.timeline:
            return self
        twin = copy_sharing_weights(self)
        twin.timeline, twin._kept_prior = timeline, KeptValue()
        twin.sources = nn.ModuleList(source.with_timeline(timeline) for source in self.vote_sources)
        return twin

    def counterfactual_scores(self, query: Queries, left_out: Tensor, candidates: Tensor) -> Tensor:
        if self.layout is not None:
            return self._sparse_counterfactual_scores(query, left_out, candidates)
        scores = [self.scores(query)[:, candidates]]
        for part in within_budget(left_out, self.bytes_per_candidate * self.timeline.num_entities):
            repeated = Queries(*(column.expand(len(part)) for column in query))
            without = self.score(repeated.relation, self.look_up(repeated, part))
            scores.append(without[:, candidates])
        return torch.cat(scores)

    def _sparse_counterfactual_scores(
        self, query: Queries, left_out: Tensor, candidates: Tensor
    ) -> Tensor:
        scores = [self.sparse_scores(query).at(torch.zeros_like(candidates), candidates)[None]]
        cells = int(cast(Tensor, self.sparse_sizes(query)).max())
        for part in within_budget(left_out, cells * BYTES_PER_CELL):
            repeated = Queries(*(column.expand(len(part)).contiguous() for column in query))
            row = torch.arange(len(part), device=part.device).repeat_interleave(len(candidates))
            without = self._sparse_scores(repeated, part)
            scores.append(without.at(row, candidates.repeat(len(part))).view(len(part), -1))
        return torch.cat(scores)


def _candidate_facts(timeline: Timeline) -> CandidateFacts:
    if not timeline.has_intervals:
        raise ConfigError(
            "model.candidate_facts is for facts with a start and an end; "
            "set model.candidate_facts=false"
        )
    return CandidateFacts(timeline)


def _copying(
    timeline: Timeline, key: Key, max_facts: int, gain: float, *, count_all: bool, prior: bool
) -> Copying:
    index = FactIndex(timeline, key)
    # Facts of one time are events, even if they are written as intervals.
    listed = timeline.has_intervals and key != "time"
    intervals = NearestIntervals(timeline, index) if listed else None
    return Copying(index, max_facts, gain, intervals, prior=prior, count_all=count_all)
