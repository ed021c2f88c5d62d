"""The pointer: learned copying. Facts near a question vote for their candidates; no entity has a vector."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tempograph.errors import ConfigError
from tempograph.layers.copying import Copying, Key, View
from tempograph.models.contract import Model, Support
from tempograph.models.evidence import nearest_facts
from tempograph.timeline import Queries, Timeline


@dataclass(frozen=True)
class PointerSettings:
    """Which facts vote."""

    most: int = 512
    """Facts of the question's entity that vote at most, those nearest in time; likewise below."""
    most_of_relation: int = 256
    """Facts of the question's relation, whoever is in them; 0 leaves these out."""
    most_of_both: int = 128
    """Facts of the question's entity with its relation; 0 leaves these out."""
    most_of_time: int = 512
    """Facts of the question's time, whoever is in them; 0 leaves these out."""

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ConfigError(f"most must be at least 1, found {self.most}")
        for name in ("most_of_relation", "most_of_both", "most_of_time"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be at least 0, found {getattr(self, name)}")


class Pointer(Model):
    """score(o) = P0[o] + P[r, o] + what o gains by facts of the entity, of the relation, and of the time asked about.

    P is learned for pairs that occur in train, and 0 for others.
    """

    name = "pointer"
    bytes_per_candidate = 24
    probabilistic = True

    def __init__(self, timeline: Timeline, settings: PointerSettings) -> None:
        super().__init__()
        self.timeline = timeline
        self.settings = settings
        self.by_relation = View(timeline, "relation")
        sources: list[tuple[Key, int, float]] = [
            ("entity", settings.most, 1.0),
            ("relation", settings.most_of_relation, 0.1),
            ("both", settings.most_of_both, 0.3),
            ("time", settings.most_of_time, 0.1),
        ]
        self.sources = nn.ModuleList(
            Copying(self.by_relation if key == "relation" else View(timeline, key), timeline.num_relations, most, start)
            for key, most, start in sources
            if most
        )
        named = torch.bincount(timeline.facts[:, [0, 2]].flatten(), minlength=timeline.num_entities)
        self.entity = nn.Parameter(0.3 * torch.log(named + 0.5))
        self.pair = nn.Parameter(torch.zeros(len(self.by_relation.candidates), device=timeline.device))
        self.to(timeline.device)

    @property
    def device(self) -> torch.device:
        """Where the timeline and the weights lie."""
        return self.timeline.device

    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each question, [queries, entities]."""
        return self.score(queries)

    def score(self, queries: Queries, left_out: Tensor | None = None, kept: Tensor | None = None) -> Tensor:
        """Scores [queries, entities], as if the train facts left_out [n] and those not kept were not there."""
        scores = self._prior(queries.relation).flatten()
        for source in self.sources:
            row, candidate, gain = source(queries, left_out, kept)
            scores = scores.index_add(0, row * self.timeline.num_entities + candidate, gain)
        return scores.view(len(queries.relation), self.timeline.num_entities)

    def _prior(self, relation: Tensor) -> Tensor:
        """P0 + P for the relation of each question, [n, entities]."""
        distinct, place = torch.unique(relation, return_inverse=True)
        nothing = torch.zeros_like(distinct)
        row, position = self.by_relation.slots(Queries(nothing, distinct, nothing)).expand()
        table = self.entity.repeat(len(distinct), 1)
        cell = row * self.timeline.num_entities + self.by_relation.candidates[position]
        table = table.flatten().index_add(0, cell, self.pair.index_select(0, position)).view_as(table)
        return table.index_select(0, place)

    def relation_scores(self, subject: int, object_: int, time: int) -> Tensor:
        """Scores of every relation for (subject, ?, object, time): how likely each makes the object, [relations]."""
        relations = torch.arange(self.timeline.num_relations, device=self.device)
        queries = Queries(torch.full_like(relations, subject), relations, torch.full_like(relations, time))
        return torch.log_softmax(self.scores(queries), dim=1)[:, object_]

    def evidence(self, query: Queries, answer: int) -> Support:
        """The facts that speak for an answer, with their shares of all that facts say of it; below 0 if against it."""
        facts, shares = [], []
        for source in self.sources:
            assert isinstance(source, Copying)
            fact, share = source.votes_for(query, answer)
            facts.append(fact)
            shares.append(share)
        if not sum(map(len, facts)):
            return nearest_facts(self.timeline, query, answer)
        # A fact may vote in several ways.
        fact, place = torch.unique(torch.cat(facts), return_inverse=True)
        share = torch.zeros(len(fact), device=self.device).index_add(0, place, torch.cat(shares).detach())
        order = torch.argsort(share, descending=True, stable=True)
        return Support("copied from", self.timeline.facts[fact[order]], share[order] / share.abs().sum())
