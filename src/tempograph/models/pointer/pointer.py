"""The pointer: learned copying. Facts near a question vote for their candidates; no entity has a vector."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import torch
from torch import Tensor, nn

from tempograph.data.common_neighbors import NeighborQueries
from tempograph.data.fact_index import FactIndex, Key
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.base import Evidence, Model, within_budget
from tempograph.models.evidence import nearest_facts
from tempograph.models.pointer.copying import Copying
from tempograph.models.pointer.paths import Paths
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.nn.votes import VoteRanges
from tempograph.typing import NonNegativeInt, PositiveInt, check_bounds

_BYTES_PER_VOTE: Final = 100
"""Memory that each fact that votes takes on a CPU; the kernels of a GPU lay out no votes."""

Source = Copying | Paths


@dataclass(frozen=True)
class PointerSettings:
    """Which facts vote."""

    most: PositiveInt = 512
    """Facts of the question's entity that vote at most, those nearest in time; likewise below."""
    most_of_relation: PositiveInt = 256
    """Facts of the question's relation, whoever is in them."""
    most_of_both: NonNegativeInt = 128
    """Facts of the question's entity with its relation; 0 leaves these out."""
    most_of_time: NonNegativeInt = 512
    """Facts of the question's time, whoever is in them; 0 leaves these out."""
    most_of_any: NonNegativeInt = 0
    """Facts of any kind, those nearest to the question's time; 0 leaves these out."""
    paths: bool = False
    """Whether candidates gain by the entities that both they and the question's entity have met."""

    def __post_init__(self) -> None:
        check_bounds(self)


class Pointer(Model):
    """score(o) = P0[o] + P[r, o] + what o gains by facts of the entity, of the relation, and of the time asked about.

    If so set, o gains by those whom both it and the entity have met as well. P is learned for pairs that occur in
    train, and 0 for others.
    """

    name = "pointer"
    bytes_per_candidate = 28
    probabilistic = True

    def __init__(self, timeline: Timeline, settings: PointerSettings) -> None:
        super().__init__()
        self.timeline = timeline
        self.settings = settings
        asked: list[tuple[Key, int, float]] = [
            ("entity", settings.most, 1.0),
            ("relation", settings.most_of_relation, 0.1),
            ("both", settings.most_of_both, 0.3),
            ("time", settings.most_of_time, 0.1),
            ("any", settings.most_of_any, 0.1),
        ]
        sources: list[Source] = [
            Copying(FactIndex(timeline, key), most, start, prior=key == "relation")
            for key, most, start in asked
            if most
        ]
        if timeline.device.type == "cpu":
            # A question's votes count as shared out among all entities; those of one source are gone before the next.
            votes = max(most for _, most, _ in asked)
            self.bytes_per_candidate += math.ceil(_BYTES_PER_VOTE * votes / timeline.num_entities)
        # Those of one source are gone before the next as well.
        rows = max(
            source.pair.bytes_per_question for source in sources if isinstance(source, Copying)
        )
        self.bytes_per_candidate += math.ceil(rows / timeline.num_entities)
        if settings.paths:
            paths = Paths(timeline, start=0.1)
            sources.append(paths)
            self.bytes_per_candidate += paths.bytes_per_candidate
        self.sources = nn.ModuleList(sources)
        named = torch.bincount(timeline.facts[:, [0, 2]].flatten(), minlength=timeline.num_entities)
        self.entity = nn.Parameter(0.3 * torch.log(named + 0.5))
        self.to(timeline.device)

    @property
    def device(self) -> torch.device:
        """Where the timeline and the weights lie."""
        return self.timeline.device

    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each question, [queries, entities]."""
        return self.score(queries.relation, self.ballots(queries))

    def ballots(
        self, queries: Queries, left_out: Tensor | None = None
    ) -> list[VoteRanges | NeighborQueries]:
        """Which facts the questions look at, for each source, as if the train facts left_out [n] were not there."""
        return [source.ballot(queries, left_out) for source in self.ways]

    def score(
        self,
        relation: Tensor,
        ballots: Sequence[VoteRanges | NeighborQueries],
        fact_mask: Tensor | None = None,
    ) -> Tensor:
        """Scores [n, entities] of questions for relations [n]; train facts that are not kept do not vote."""
        scores = self.entity.repeat(len(relation), 1)
        for source, ballot in zip(self.ways, ballots, strict=True):
            scores = source(scores, relation, ballot, fact_mask)
        return scores

    @property
    def ways(self) -> Iterable[Source]:
        """The sources, each a way in which facts speak for candidates."""
        return cast(Iterable[Source], self.sources)

    def relation_scores(self, subject: int, object_: int, time: int) -> Tensor:
        """Scores of every relation for (subject, ?, object, time): how likely each makes the object, [relations]."""
        found = []
        relations = torch.arange(self.timeline.num_relations, device=self.device)
        for some in within_budget(relations, self.bytes_per_candidate * self.timeline.num_entities):
            queries = Queries(torch.full_like(some, subject), some, torch.full_like(some, time))
            scores = self.scores(queries)
            found.append(scores[:, object_] - torch.logsumexp(scores, 1))
        return torch.cat(found)

    def evidence(self, query: Queries, answer: int) -> Evidence:
        """The facts that speak for an answer, with their shares of all that facts say of it; below 0 if against it."""
        facts, shares = [], []
        for source in self.ways:
            fact, share = source.votes_for(query, answer)
            facts.append(fact)
            shares.append(share)
        if not sum(map(len, facts)):
            return nearest_facts(self.timeline, query, answer)
        # A fact may vote in several ways.
        fact, place = torch.unique(torch.cat(facts), return_inverse=True)
        share = torch.zeros(len(fact), device=self.device).index_add(
            0, place, torch.cat(shares).detach()
        )
        order = torch.argsort(share, descending=True, stable=True)
        return Evidence(
            "copied from", self.timeline.facts[fact[order]], share[order] / share.abs().sum()
        )

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> Pointer:
        """The same weights, with other facts that vote."""
        if timeline is self.timeline:
            return self
        twin = copy_sharing_weights(self)
        twin.timeline = timeline
        twin.sources = nn.ModuleList(source.with_timeline(timeline) for source in self.ways)
        return twin

    def counterfactual_scores(self, query: Queries, left_out: Tensor, candidates: Tensor) -> Tensor:
        """Every fact in turn neither votes nor counts, [1 + n, candidates]."""
        scores = [self.scores(query)[:, candidates]]
        for some in within_budget(left_out, self.bytes_per_candidate * self.timeline.num_entities):
            repeated = Queries(*(column.expand(len(some)) for column in query))
            scores.append(
                self.score(repeated.relation, self.ballots(repeated, some))[:, candidates]
            )
        return torch.cat(scores)
