"""A run that is audited: its model over the facts it may know, and built again over others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.timeline import Queries, Timeline
from tempograph.evaluation.audit_checks import TOLERANCE, describe, largest_difference
from tempograph.evaluation.evaluator import query_batches
from tempograph.evaluation.history import with_history
from tempograph.models.base import Model
from tempograph.training.runs import Run
from tempograph.typing import SPLITS, Protocol, Split

_REPEATS: Final = 3
"""How often a model built twice is asked, until its scores differ."""


class ScoreChange(NamedTuple):
    """How far scores move when a run is built again over other facts."""

    difference: float
    repeatable: bool
    """Whether building the run twice over the same facts gives the same scores, bit for bit."""

    @property
    def none(self) -> bool:
        """Whether scores do not move, but for rounding where it cannot be avoided."""
        return self.difference <= (0 if self.repeatable else TOLERANCE)

    def __str__(self) -> str:
        words = describe(self.difference)
        if self.repeatable:
            return words
        return f"{words}, but a model built twice from the same facts differs as well"


class AuditedRun:
    """A run, its folder, and how many facts each check asks about."""

    def __init__(self, run: Run, folder: Path, num_facts: int) -> None:
        self.run, self.folder, self.num_facts = run, folder, num_facts
        self.graph, self.model, self.protocol = run.graph, run.model, run.config.protocol

    def sample(self, split: Split, count: int) -> NDArray[np.int64]:
        """Random positions of a split's facts in ascending order."""
        total = len(self.graph.facts(split))
        return np.sort(np.random.default_rng(0).permutation(total)[:count])

    def sampled_test_facts(self) -> Tensor:
        """The test facts that a check asks about, [n, 4]."""
        sampled = self.graph.test[self.sample("test", self.num_facts)]
        return torch.from_numpy(sampled).to(self.model.device)

    def build(self, graph: TemporalGraph) -> Model:
        """The model of the folder, built over the train facts of a graph as training does."""
        timeline = Timeline(graph, self.protocol, self.model.device)
        return Run.load_with(self.folder, graph, timeline).model

    def answering(
        self, model: Model, graph: TemporalGraph, split: Split, protocol: Protocol | None = None
    ) -> Model:
        """The model over the facts of a graph that it may know when it answers about a split."""
        return with_history(model, graph, split, protocol or self.protocol)

    def score_change(
        self, graph: TemporalGraph, queries: Queries, protocol: Protocol | None = None
    ) -> ScoreChange:
        """How far the scores of queries about test move if all facts are those of a graph."""
        model = self.answering(self.model, self.graph, "test", protocol)
        changed = self.answering(self.build(graph), graph, "test", protocol)
        difference = self._compare(model, changed, queries)
        if difference == 0:
            return ScoreChange(difference, repeatable=True)
        again = self.answering(self.build(self.graph), self.graph, "test", protocol)
        repeated = (self._compare(model, again, queries) for _ in range(_REPEATS))
        return ScoreChange(difference, repeatable=not any(repeated))

    @torch.inference_mode()
    def _compare(self, one: Model, other: Model, queries: Queries) -> float:
        """The largest difference of the scores of two models, in the same batches."""
        known = KnownAnswers.from_graph(self.graph, "raw", one.device)
        return max(
            largest_difference(one.scores(batch), other.scores(batch))
            for batch in map(queries.take, query_batches(one, queries, known))
        )


def with_facts(graph: TemporalGraph, facts: Mapping[Split, Facts]) -> TemporalGraph:
    """The graph with other facts in some splits."""
    train, valid, test = (facts.get(split, graph.facts(split)) for split in SPLITS)
    return replace(graph, train=train, valid=valid, test=test)
