"""The contract of heads: they score the relations or the time steps of facts."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from tempograph.data.sorted_facts import SortedFacts
from tempograph.data.timeline import Timeline, both_directions
from tempograph.typing import Asked


class QuestionHead(nn.Module, ABC):
    """Scores every candidate for the missing relation or time of a fact; higher is more plausible.

    Only train facts enter. In training, the fact that is asked for is left out.
    """

    asked: Asked
    """The part that it scores."""
    column: int
    """The column of that part in a fact."""

    timeline: Timeline
    """The train facts it is built from."""

    @property
    @abstractmethod
    def num_candidates(self) -> int:
        """The number of relations or of time steps."""

    @property
    @abstractmethod
    def bytes_per_question(self) -> int:
        """Peak memory of scoring one question."""

    @abstractmethod
    def scores(self, facts: Tensor, left_out: Tensor | None = None) -> Tensor:
        """Scores of all candidates, [n, candidates].

        facts [n, 4]: the missing part is not read. left_out [n]: a train fact per question, by its
        position in the timeline, that is treated as if it were not in the data; -1 for none.
        """

    @abstractmethod
    def with_timeline(self, timeline: Timeline) -> QuestionHead:
        """The same weights over other train facts."""


def facts_by_pair(timeline: Timeline) -> SortedFacts:
    """The facts of each ordered pair of entities, in both directions."""
    directed = both_directions(timeline.facts, timeline.num_relations)
    return SortedFacts(timeline, pair_keys(directed[:, 0], directed[:, 2], timeline))


def facts_by_entity(timeline: Timeline) -> SortedFacts:
    """The facts of each entity, in both directions."""
    directed = both_directions(timeline.facts, timeline.num_relations)
    return SortedFacts(timeline, directed[:, 0].contiguous())


def pair_keys(entity: Tensor, other: Tensor, timeline: Timeline) -> Tensor:
    """A number for each ordered pair of entities, [n]."""
    return entity * timeline.num_entities + other
