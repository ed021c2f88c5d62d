"""Checks of any model by its contract alone: independent ranks, and each query by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Queries, fact_queries
from tempograph.evaluation.evaluator import rank_facts
from tempograph.evaluation.independent_ranks import RawDataset, SlowRank
from tempograph.models.base import CrossFitted, Model
from tempograph.typing import Protocol, Split

TOLERANCE: Final = 1e-6
"""The largest difference that counts as rounding, as a share of a query's largest score."""
_BATCH_TOLERANCE: Final = 1e-5
"""The same for different batches: the gate of an ensemble enlarges the rounding of its parts."""
_FACTS_PER_BATCH: Final = 64
_FACTS_TOGETHER: Final = 32
_QUERIES_ALONE: Final = 16
"""Queries that are asked one by one: each may cost as much as a batch."""


class AuditCheck(TypedDict):
    """A property that a run should have, whether it holds, and what was compared."""

    name: str
    holds: bool
    detail: str


class AuditSummary(TypedDict):
    """What an audit of a run found, as results.json holds it."""

    protocol: Protocol
    facts: int
    """The largest number of facts that a check asks about, on both sides."""
    holds: bool
    """Whether all checks hold; if the splits are mixed, there is only one."""
    checks: list[AuditCheck]


@dataclass(frozen=True)
class SampledRanks:
    """Ranks of some facts of a split by the evaluator and by a slow loop, objects then subjects."""

    position: NDArray[np.int64]
    """Positions of the facts in the split, [n]."""
    evaluator: list[float]
    """[2n]."""
    slow: list[SlowRank]
    """[2n]."""


class _RecordedModel(Model):
    """A model that records the scores it gives."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.name = model.name
        self.bytes_per_candidate = model.bytes_per_candidate
        self.records: dict[tuple[int, ...], list[float]] = {}
        self.rounding = 0.0
        # A tuple, so that the model does not become a submodule.
        self._model = (model,)

    @property
    def device(self) -> torch.device:
        return self._model[0].device

    def scores(self, queries: Queries) -> Tensor:
        return self.record(0, self._model[0].scores)(queries)

    def record(
        self, scorer: int, score: Callable[[Queries], Tensor]
    ) -> Callable[[Queries], Tensor]:
        """A scoring function that records scores as (scorer, entity, relation, time)."""

        def recorded(queries: Queries) -> Tensor:
            scores = score(queries)
            self.rounding = 1e-12 if scores.dtype == torch.float64 else TOLERANCE
            for query, row in zip(torch.stack(queries, 1).tolist(), scores, strict=True):
                self.records[(scorer, *query)] = row.tolist()
            return scores

        return recorded


@torch.inference_mode()
def rank_sample(
    model: Model, graph: TemporalGraph, split: Split, position: NDArray[np.int64], raw: RawDataset
) -> SampledRanks:
    """Rank some facts of a split by the evaluator and, from the same scores, by a slow loop."""
    known = KnownAnswers.from_graph(graph, "time", model.device)
    cross_fitted = model.cross_fitted(split, len(graph.facts(split)))
    ranks: list[tuple[float, SlowRank]] = []
    subject_ranks: list[tuple[float, SlowRank]] = []
    for part in np.array_split(position, max(1, len(position) // _FACTS_PER_BATCH)):
        recorded, part_cross_fitted, scorer = _RecordedModel(model), None, [0] * len(part)
        if cross_fitted is not None:
            scorers = (recorded.record(n, s) for n, s in enumerate(cross_fitted.scorers))
            chosen = cross_fitted.scorer[torch.from_numpy(part).to(model.device)]
            part_cross_fitted = CrossFitted(tuple(scorers), chosen, cross_fitted.note)
            scorer = chosen.tolist()
        facts = torch.from_numpy(graph.facts(split)[part]).to(model.device)
        by_evaluator = rank_facts(recorded, facts, known, cross_fitted=part_cross_fitted)
        object_ranks = by_evaluator.realistic.tolist()
        for index, (number, which) in enumerate(zip(part.tolist(), scorer, strict=True)):
            subject, relation, object_, time = fact = raw.facts[split][number]
            inverse = relation + len(graph.relations)
            for asks_subject, query, found in (
                (False, (subject, relation, time), ranks),
                (True, (object_, inverse, time), subject_ranks),
            ):
                scores = recorded.records[(which, *query)]
                slow = raw.rank(fact, asks_subject, scores, recorded.rounding)
                found.append((object_ranks[index + asks_subject * len(part)], slow))
    both = ranks + subject_ranks
    return SampledRanks(position, [rank for rank, _ in both], [slow for _, slow in both])


def check_ranks(sample: SampledRanks) -> AuditCheck:
    """The evaluator's ranks equal those of the slow loop."""
    pairs = zip(sample.evaluator, sample.slow, strict=True)
    wrong = [(rank, slow) for rank, slow in pairs if rank != slow.rank]
    detail = f"{len(sample.slow):,} ranks from the raw files are equal"
    if wrong:
        rank, slow = wrong[0]
        detail = (
            f"{len(wrong):,} of {len(sample.slow):,} ranks differ, the first is {rank:g} and "
            f"should be {slow.rank:g}"
        )
    return {"name": "An independent ranker agrees", "holds": not wrong, "detail": detail}


def check_filter(sample: SampledRanks) -> AuditCheck:
    """The evaluator removes only answers of the query's time."""
    dependent = [
        (rank, slow)
        for rank, slow in zip(sample.evaluator, sample.slow, strict=True)
        if slow.rank != slow.rank_without_time
    ]
    right = sum(rank == slow.rank for rank, slow in dependent)
    detail = "no rank in the sample depends on it; ask about more facts"
    if dependent:
        detail = (
            f"{len(dependent):,} of {len(sample.slow):,} ranks would differ without the time, "
            f"{right:,} of them are those of the filter by time"
        )
    holds = right == len(dependent)
    return {"name": "The filter contains the time", "holds": holds, "detail": detail}


@torch.inference_mode()
def check_each_alone(model: Model, facts: Tensor, num_relations: int) -> AuditCheck:
    """Scores do not depend on the other queries of a batch or on their order.

    Both queries of some facts [n, 4] are asked: the entity of one is the answer to the other, so a
    model that lets queries see each other gives the answer away. The model must not have been asked
    before: it might remember queries. So those that are asked alone come first.
    """
    few = facts[:: max(1, len(facts) // _FACTS_TOGETHER)][:_FACTS_TOGETHER]
    queries, _ = fact_queries(few, num_relations)
    every = torch.arange(2 * len(few), device=model.device)
    alone = every[:: max(1, len(every) // _QUERIES_ALONE), None]
    batches = (*alone, every[1::3], every[: len(few)], every.flip(0), every)
    *parts, together = (model.scores(queries.take(batch)) for batch in batches)
    difference = max(
        largest_difference(part, together[batch])
        for part, batch in zip(parts, batches[:-1], strict=True)
    )
    asked = f"{len(alone)} queries alone, {len(every)} in part, reversed and together"
    return {
        "name": "Each query is scored alone",
        "holds": difference <= _BATCH_TOLERANCE,
        "detail": f"{asked}: {describe(difference)}",
    }


def largest_difference(one: Tensor, other: Tensor) -> float:
    """The largest difference of two tables of scores, as a share of the query's largest score.

    [queries, candidates] each; 0 only if they are equal bit for bit, inf if one rules out a
    candidate that the other does not, or if a score is NaN.
    """
    if torch.equal(one, other):
        return 0.0
    one, other = one.double(), other.double()
    finite = torch.isfinite(one) & torch.isfinite(other)
    if not torch.equal(one[~finite], other[~finite]):
        return float("inf")
    scale = one.masked_fill(~finite, 0).abs().amax(1, keepdim=True).clamp(min=1e-30)
    difference = ((one - other).masked_fill(~finite, 0).abs() / scale).max()
    return float(difference)


def describe(difference: float) -> str:
    """A largest difference in words."""
    return (
        "equal bit for bit" if difference == 0 else f"largest relative difference {difference:.1e}"
    )
