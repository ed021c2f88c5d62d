"""The contract of every model, so that no other package needs to know a model by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.cache import TensorCache
from tempograph.data.held_facts import signed_gap
from tempograph.data.timeline import Queries, Timeline
from tempograph.device import memory_budget
from tempograph.errors import QueryError
from tempograph.models.sparse_scores import SparseScores
from tempograph.nn.row_shards import RowShards
from tempograph.typing import Split


@dataclass(frozen=True, eq=False)
class Evidence:
    """The train facts behind one answer, most important first."""

    reason: str
    """Why these facts, in words."""
    facts: Tensor
    """[n, 4] ids of subject, relation, object and time."""
    shares: Tensor | None = None
    """[n] parts of the score that the model itself ascribes to each fact; NaN for none."""
    effects: Tensor | None = None
    """[n] how far the score falls when each fact is taken out; below 0 if it rises."""
    total: int | None = None
    """How many facts are behind the answer, if more than those listed."""

    @property
    def count(self) -> int:
        """How many facts are behind the answer."""
        return len(self.facts) if self.total is None else self.total


class CrossFitted(NamedTuple):
    """Scoring functions for facts a model was fitted on, none fitted on the facts it scores."""

    scorers: tuple[Callable[[Queries], Tensor], ...]
    scorer: Tensor
    """[facts] index of the function that scores each fact."""
    note: str
    """A note to show beside the resulting figures."""


class Model(torch.nn.Module, ABC):
    """Scores every entity as the answer to a query (entity, relation, ?, time).

    Higher is more plausible; -inf rules an entity out. Relation r + |R| is the inverse of r and
    asks for a subject.

    A model of your own sets `name`, `bytes_per_candidate` and `timeline` and implements `scores`;
    everything else has a default. Register it with `ModelKind` (models/registry.py) and say how it
    is trained with `register_recipe` (training/recipes.py).
    """

    name: str
    """The name in the registry, such as `ted`."""

    note: str | None = None
    """A note to show beside all figures, such as that the model has learned from valid facts."""

    bytes_per_candidate: int
    """Peak memory of scoring one (query, entity) pair; callers choose batch sizes by it."""

    probabilistic = False
    """Whether a softmax over the scores of a query gives probabilities, as ensembles need."""

    scores_blocks = False
    """Whether `candidate_scores` scores only the candidates, so that many are scored in blocks."""

    uses_train_facts = True
    """Whether train facts matter at prediction time, or only while the weights are trained."""

    timeline: Timeline
    """The train facts it is built from."""

    shards: RowShards | None = None
    """How entities are shared out over processes.

    `scores` then has the columns of the own entities; all processes must call it, with the same
    queries.
    """

    @property
    def device(self) -> torch.device:
        """The device of queries and scores."""
        return self.timeline.device

    @property
    def window(self) -> tuple[int, int] | None:
        """Steps before and after a query that its scores depend on; None if unbounded."""
        return None

    @property
    def caches(self) -> tuple[TensorCache, ...]:
        """Caches of what queries at one time share, with their sizes and budgets in bytes."""
        return ()

    @property
    def num_parameters(self) -> int:
        """Number of trained weights, those of the models it combines included."""
        return sum(parameter.numel() for parameter in self.parameters())

    def prepare(self) -> bool:
        """Make a part of what speeds up later queries; return whether more is left to make.

        A service calls this while it is idle, so a part takes a fraction of a second.
        """
        return False

    @abstractmethod
    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each query, [queries, entities]."""

    def answer_scores(self, queries: Queries, answer: Tensor) -> Tensor:
        """The score of one entity, answer [queries], for each query, [queries]."""
        return self.scores(queries).gather(1, answer[:, None])[:, 0]

    def candidate_scores(self, queries: Queries, candidates: Tensor) -> Tensor:
        """Scores of some entities, candidates [count], for each query, [queries, count]."""
        return self.scores(queries)[:, candidates]

    def sparse_sizes(self, queries: Queries) -> Tensor | None:
        """How many candidates `sparse_scores` lays out for each query at most, [queries].

        None if it is better to score all of them.
        """
        return None

    def sparse_scores(self, queries: Queries) -> SparseScores:
        """The scores of every entity, as those that differ from the rest and the rest.

        Only where `sparse_sizes` is not None.
        """
        raise QueryError(f"{self.name} scores all entities")

    def entity_vectors(self, times: Tensor) -> Tensor:
        """Vectors of all entities, [times, entities, width], or [1, ...] if constant in time."""
        raise QueryError(f"{self.name} has no vectors for entities")

    def cross_fitted(self, split: Split, num_facts: int) -> CrossFitted | None:
        """Scoring functions for a split the model was fitted on; None if it was not."""
        return None

    def evidence(self, query: Queries, answer: int) -> Evidence:
        """The train facts behind one answer to one query.

        By default those that share two parts with the completed fact: more shared first, then the
        nearest in time. Behind a forecast, there are only earlier facts.
        """
        facts, relations = self.timeline.facts, self.timeline.num_relations
        given, relation = int(query.entity), int(query.relation)
        subject, object_ = (answer, given) if relation >= relations else (given, answer)
        completed = torch.tensor([subject, relation % relations, object_], device=facts.device)
        num_shared = (facts[:, :3] == completed).sum(1)
        counts = num_shared >= 2
        if self.timeline.past_only:
            counts &= facts[:, 3] < query.time
        similar = counts.nonzero()[:, 0]
        gap = signed_gap(facts[similar, 3], self.timeline.fact_end[similar], query.time).abs()
        order = torch.argsort(-num_shared[similar] * self.timeline.num_steps + gap, stable=True)
        return Evidence("two of three parts in common", facts[similar[order]])

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> Model:
        """The same weights over other train facts, with a cache for what queries at one time share.

        Steps after the last one of training take the weights of that one.
        """
        raise QueryError(f"{self.name} can only be queried with the facts it was trained on")

    def counterfactual_scores(
        self, query: Queries, left_out: Tensor, candidates: Tensor
    ) -> Tensor | None:
        """Scores of candidates for one query with all train facts, then without each of some.

        left_out [n]: distinct positions in the timeline -> [1 + n, candidates], or None if unknown.
        """
        return None


def within_budget(ids: Tensor, bytes_each: int) -> tuple[Tensor, ...]:
    """Split ids [n] into chunks whose scores, bytes_each for each id, fit the memory budget."""
    return torch.split(ids, max(1, memory_budget("counterfactual", ids.device) // bytes_each))
