"""What every model answers, so that training, ranking, prediction and analysis are written once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.data.timeline import Queries, Timeline
from tempograph.device import memory_budget
from tempograph.errors import QueryError
from tempograph.typing import Split


class Support(NamedTuple):
    """What speaks for an answer: in words, and as train facts [n, 4], best first, with their shares, [n], if any."""

    why: str
    facts: Tensor
    shares: Tensor | None


def within_budget(numbers: Tensor, each: int) -> tuple[Tensor, ...]:
    """Facts to leave out, or relations, in parts whose scores, so many bytes for each, stay within a budget."""
    return torch.split(numbers, max(1, memory_budget("counterfactual", numbers.device) // each))


class CrossFitted(NamedTuple):
    """Who ranks facts that a model was fitted on: scoring functions, which of them ranks each fact [n], and a note."""

    scores: tuple[Callable[[Queries], Tensor], ...]
    of: Tensor
    note: str


class Model(torch.nn.Module, ABC):
    """A model scores every entity as the answer to a question: higher is more plausible, -inf out of the question."""

    name: str
    """The name it is asked for by, such as `ted`."""

    bytes_per_candidate: int
    """Peak memory that scoring takes for each (question, entity), so that callers can keep within a budget."""

    probabilistic = False
    """Whether a softmax over the scores of a question gives probabilities."""

    looks_at_facts = True
    """Whether train facts matter when a question is asked, or only while weights are learned."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where questions must lie and scores will."""

    @abstractmethod
    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each question, [queries, entities]."""

    def own_scores(self, queries: Queries, answer: Tensor) -> Tensor:
        """The score of one entity for each question, [queries]; answer [queries]."""
        return self.scores(queries).gather(1, answer[:, None])[:, 0]

    def relation_scores(self, subject: int, object_: int, time: int) -> Tensor:
        """Scores of every relation for (subject, ?, object, time), [relations]."""
        raise QueryError(
            f"{self.name} ranks entities, not relations; give a relation and one entity"
        )

    def entity_vectors(self, times: Tensor) -> Tensor:
        """Every entity's vector at some distinct times, [times, entities, width]; one table if time changes nothing."""
        raise QueryError(f"{self.name} has no vectors for entities")

    def cross_fitted(self, split: Split, facts: int) -> CrossFitted | None:
        """For a split whose answers the model was fitted to: who else ranks its facts. None if it may do so itself."""
        return None

    @abstractmethod
    def evidence(self, query: Queries, answer: int) -> Support:
        """What speaks for one answer to one question."""

    def with_timeline(self, timeline: Timeline, memory: int = 0) -> Model:
        """The same weights over other train facts, with so many bytes to keep what questions at one time share.

        There may be more time steps than the weights know; what belongs to a step is then that of the last known one.
        """
        raise QueryError(
            f"{self.name} cannot be asked about other facts than those it was trained on"
        )

    def counterfactual_scores(
        self, query: Queries, left_out: Tensor, candidates: Tensor
    ) -> Tensor | None:
        """Scores of some candidates for one question: with all train facts, then as if one of them were not there.

        left_out [n] are distinct positions in the timeline -> [1 + n, candidates]; None where that is not known.
        """
        return None
