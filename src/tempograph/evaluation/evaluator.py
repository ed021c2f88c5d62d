"""Filtered ranking of a split for any model, in bounded memory, as a table of ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.timeline import Queries, fact_queries
from tempograph.device import explain_out_of_memory, memory_budget
from tempograph.errors import DataError
from tempograph.evaluation.ranking import Ranks, filtered_ranks, metrics
from tempograph.models.base import CrossFitted, Model
from tempograph.typing import Filter, Progress, Protocol, Split

_RANK_TYPES: Final = (torch.float64, torch.int64, torch.int64)


def query_batches(
    model: Model,
    queries: Queries,
    known: KnownAnswers,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Tensor]:
    """Positions of questions in order of time, as many at once as the budget in bytes allows, but at least one."""
    order = torch.argsort(queries.time * 2 * known.num_relations + queries.relation, stable=True)
    allowed = memory_budget("ranking", model.device) if budget is None else budget
    done = 0
    for index in torch.split(
        order, max(1, allowed // (known.num_entities * model.bytes_per_candidate))
    ):
        yield index
        done += len(index)
        if progress is not None:
            progress(done, len(order))


def rank_facts(
    model: Model,
    facts: Tensor,
    known: KnownAnswers,
    budget: int | None = None,
    progress: Progress | None = None,
    cross_fitted: CrossFitted | None = None,
) -> Ranks:
    """Ranks of both sides of each fact, by the model or by the judge of each fact: objects first, then subjects.

    facts [n, 4] -> [2n] each.
    """
    queries, answer = fact_queries(facts, known.num_relations)
    ranks = Ranks(
        *(torch.empty(len(answer), dtype=kind, device=facts.device) for kind in _RANK_TYPES)
    )
    for index, scores in cross_fitted_scores(model, queries, known, budget, progress, cross_fitted):
        asked = queries.take(index)
        found = filtered_ranks(scores(asked), answer[index], known(asked))
        for column, values in zip(ranks, found, strict=True):
            column[index] = values
    return ranks


def cross_fitted_scores(
    model: Model,
    queries: Queries,
    known: KnownAnswers,
    budget: int | None = None,
    progress: Progress | None = None,
    cross_fitted: CrossFitted | None = None,
) -> Iterator[tuple[Tensor, Callable[[Queries], Tensor]]]:
    """Positions of questions, and what scores them: the model, or the judge of their facts.

    Questions are those of the facts that cross_fitted are for, once or several times over.
    """
    for index in query_batches(model, queries, known, budget, progress):
        if cross_fitted is None:
            yield index, model.scores
            continue
        judge = cross_fitted.scorer[index % len(cross_fitted.scorer)]
        for number, scores in enumerate(cross_fitted.scorers):
            share = index[judge == number]
            if len(share):
                yield share, scores


RANKED: Final = {
    "metrics": "both sides",
    "subject": "subjects (?, r, o, t)",
    "object": "objects (s, r, ?, t)",
    "optimistic": "both, ties won",
    "pessimistic": "both, ties lost",
}
"""What people call each set of metrics in a summary."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The ranks of one split, with everything that must stand beside a figure."""

    dataset: str
    model: str
    split: Split
    protocol: Protocol
    filter: Filter
    facts: Facts
    ranks: Ranks
    seconds: float
    note: str | None = None
    """What else must be known of the figures."""

    def summary(self, hits: Iterable[int] = (1, 3, 10)) -> dict[str, Any]:
        """What `evaluate --json` prints: metrics of both sides and of each, and how far ties could move them."""
        wanted = list(hits)
        of_object, of_subject = self.ranks.realistic.chunk(2)
        return {
            "dataset": self.dataset,
            "model": self.model,
            "split": self.split,
            "protocol": self.protocol,
            "filter": self.filter,
            "metrics": metrics(self.ranks.realistic, wanted),
            "subject": metrics(of_subject, wanted),
            "object": metrics(of_object, wanted),
            "optimistic": metrics(self.ranks.optimistic, wanted),
            "pessimistic": metrics(self.ranks.pessimistic, wanted),
            "facts": len(self.facts),
            "seconds": round(self.seconds, 3),
            **({} if self.note is None else {"note": self.note}),
        }

    def table(self) -> pa.Table:
        """One row for each question: s, r, o, t, side, rank, optimistic, pessimistic, split, filter."""
        count = len(self.facts)
        side = pa.array(["object"] * count + ["subject"] * count).dictionary_encode()
        constant = {"split": self.split, "filter": self.filter}
        return pa.table(
            {
                **{name: np.tile(self.facts[:, column], 2) for column, name in enumerate("srot")},
                "side": side,
                "rank": self.ranks.realistic.cpu().numpy(),
                "optimistic": self.ranks.optimistic.cpu().numpy(),
                "pessimistic": self.ranks.pessimistic.cpu().numpy(),
                **{
                    name: pa.array([value] * 2 * count).dictionary_encode()
                    for name, value in constant.items()
                },
            }
        )


def evaluate_model(
    model: Model,
    graph: TemporalGraph,
    split: Split,
    protocol: Protocol,
    filter: Filter = "time",
    budget: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Rank every fact of a split from both sides; facts that the model was fitted on are left to its cross_fitted."""
    facts = graph.facts(split)
    if not len(facts):
        raise DataError(
            f"{graph.name}: the {split} split has no facts, so there is nothing to evaluate"
        )
    begin = time.perf_counter()
    known = KnownAnswers.from_graph(graph, filter, model.device)
    cross_fitted = model.cross_fitted(split, len(facts))
    way_out = "take a smaller model or, with evaluate, a smaller budget for scores (--memory MIB)"
    with torch.inference_mode(), explain_out_of_memory("ranking", way_out):
        ranks = rank_facts(
            model, torch.from_numpy(facts).to(model.device), known, budget, progress, cross_fitted
        )
    ranks = Ranks(*(column.cpu() for column in ranks))
    seconds, note = time.perf_counter() - begin, None if cross_fitted is None else cross_fitted.note
    return Evaluation(graph.name, model.name, split, protocol, filter, facts, ranks, seconds, note)
