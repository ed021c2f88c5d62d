"""Filtered ranking of a split by any model, in bounded memory.

The filter is chosen in `evaluate_model` (`KnownAnswers`, by time by default) and applied
in `ranking.filtered_ranks`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NotRequired, TypedDict

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import COLUMNS, Facts, TemporalGraph
from tempograph.data.result_table import Tabular, name_columns
from tempograph.data.timeline import Queries, fact_queries
from tempograph.device import explain_out_of_memory, memory_budget
from tempograph.errors import DataError
from tempograph.evaluation.ranking import Metrics, Ranks, filtered_ranks, metrics
from tempograph.models.base import CrossFitted, Model
from tempograph.typing import Filter, Progress, Protocol, Split

_RANK_TYPES: Final = (torch.float64, torch.int64, torch.int64)


class EvaluationSummary(TypedDict):
    """The JSON object that `evaluate --json` prints and results.json holds for each split."""

    dataset: str
    model: str
    split: Split
    protocol: Protocol
    filter: Filter
    metrics: Metrics
    subject: Metrics
    object: Metrics
    optimistic: Metrics
    pessimistic: Metrics
    facts: int
    seconds: float
    note: NotRequired[str]


METRIC_LABELS: Final[
    dict[Literal["metrics", "subject", "object", "optimistic", "pessimistic"], str]
] = {
    "metrics": "both sides",
    "subject": "subjects (?, r, o, t)",
    "object": "objects (s, r, ?, t)",
    "optimistic": "both, ties won",
    "pessimistic": "both, ties lost",
}
"""The label of each set of metrics in a summary."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Tabular):
    """The ranks of one split, with everything needed to read its figures."""

    dataset: str
    model: str
    split: Split
    protocol: Protocol
    filter: Filter
    facts: Facts
    ranks: Ranks
    """For each fact the rank of its object, then for each fact the rank of its subject."""
    seconds: float
    note: str | None = None
    graph: TemporalGraph | None = None
    """The names behind the ids of the facts."""

    def __repr__(self) -> str:
        figures = self.summary()["metrics"]
        return (
            f"Evaluation({self.model} on {self.dataset}, {self.split}: {len(self.facts):,} facts, "
            f"MRR {figures['mrr']:.3f}, Hits@1 {figures['hits@1']:.3f}, "
            f"Hits@10 {figures['hits@10']:.3f})"
        )

    def summary(self, hits: Iterable[int] = (1, 3, 10)) -> EvaluationSummary:
        """Metrics of both sides and of each, and what they would be if ties were won or lost."""
        hits = list(hits)
        object_ranks, subject_ranks = self.ranks.realistic.chunk(2)
        summary: EvaluationSummary = {
            "dataset": self.dataset,
            "model": self.model,
            "split": self.split,
            "protocol": self.protocol,
            "filter": self.filter,
            "metrics": metrics(self.ranks.realistic, hits),
            "subject": metrics(subject_ranks, hits),
            "object": metrics(object_ranks, hits),
            "optimistic": metrics(self.ranks.optimistic, hits),
            "pessimistic": metrics(self.ranks.pessimistic, hits),
            "facts": len(self.facts),
            "seconds": round(self.seconds, 3),
        }
        if self.note is not None:
            summary["note"] = self.note
        return summary

    def table(self) -> pa.Table:
        """One row per query: s, r, o, t, side, rank, optimistic, pessimistic, split, filter."""
        count = len(self.facts)

        def repeated(*values: str) -> pa.Array:
            return pa.array(np.repeat(values, 2 * count // len(values))).dictionary_encode()

        return pa.table(
            {
                **{name: np.tile(self.facts[:, column], 2) for column, name in enumerate("srot")},
                "side": repeated("object", "subject"),
                "rank": self.ranks.realistic.cpu().numpy(),
                "optimistic": self.ranks.optimistic.cpu().numpy(),
                "pessimistic": self.ranks.pessimistic.cpu().numpy(),
                "split": repeated(self.split),
                "filter": repeated(self.filter),
            }
        )

    def to_arrow(self) -> pa.Table:
        """One row per query, in names; `side` is the part that is asked for.

        The columns are subject, relation, object, time, side, rank, optimistic, pessimistic, split
        and filter. An evaluation without a graph has ids instead of names.
        """
        table = self.table()
        if self.graph is None:
            return table.rename_columns([*COLUMNS, *table.column_names[4:]])
        names = name_columns(self.graph, np.tile(self.facts, (2, 1)))
        return pa.table(names | {name: table[name] for name in table.column_names[4:]})


def evaluate_model(
    model: Model,
    graph: TemporalGraph,
    split: Split,
    protocol: Protocol,
    filter: Filter = "time",
    budget: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Rank both sides of every fact of a split.

    Facts that a model was fitted on are ranked by its cross-fitted scores, if it has them.
    """
    facts = graph.facts(split)
    if not len(facts):
        raise DataError(
            f"{graph.name}: the {split} split has no facts, so there is nothing to evaluate"
        )
    start = time.perf_counter()
    known = KnownAnswers.from_graph(graph, filter, model.device)
    cross_fitted = model.cross_fitted(split, len(facts))
    way_out = "take a smaller model or, with evaluate, a smaller budget for scores (--memory MIB)"
    with torch.inference_mode(), explain_out_of_memory("ranking", way_out):
        ranks = rank_facts(
            model, torch.from_numpy(facts).to(model.device), known, budget, progress, cross_fitted
        )
    ranks = Ranks(*(column.cpu() for column in ranks))
    seconds, note = time.perf_counter() - start, cross_fitted.note if cross_fitted else model.note
    return Evaluation(
        graph.name, model.name, split, protocol, filter, facts, ranks, seconds, note, graph
    )


def rank_facts(
    model: Model,
    facts: Tensor,
    known: KnownAnswers,
    budget: int | None = None,
    progress: Progress | None = None,
    cross_fitted: CrossFitted | None = None,
) -> Ranks:
    """Ranks of the objects, then of the subjects.   facts [n, 4] -> [2n] each."""
    queries, answer = fact_queries(facts, known.num_relations)
    ranks = Ranks(
        *(torch.empty(len(answer), dtype=kind, device=facts.device) for kind in _RANK_TYPES)
    )
    batches = query_batches(model, queries, known, budget, progress)
    for index, scores in with_scorers(batches, model, cross_fitted):
        batch = queries.take(index)
        batch_ranks = filtered_ranks(scores(batch), answer[index], known(batch))
        for column, values in zip(ranks, batch_ranks, strict=True):
            column[index] = values
    return ranks


def with_scorers(
    batches: Iterable[Tensor], model: Model, cross_fitted: CrossFitted | None
) -> Iterator[tuple[Tensor, Callable[[Queries], Tensor]]]:
    """Batches of query indices, each with the function that scores it.

    Cross-fitted scorers divide a batch by fact: query i is about fact i modulo the number of facts.
    """
    for index in batches:
        if cross_fitted is None:
            yield index, model.scores
            continue
        scorer = cross_fitted.scorer[index % len(cross_fitted.scorer)]
        for number, scores in enumerate(cross_fitted.scorers):
            part = index[scorer == number]
            if len(part):
                yield part, scores


def query_batches(
    model: Model,
    queries: Queries,
    known: KnownAnswers,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Tensor]:
    """Indices of queries ordered by time, in batches whose scores fit the budget in bytes."""
    order = torch.argsort(queries.time * 2 * known.num_relations + queries.relation, stable=True)
    if budget is None:
        budget = memory_budget("ranking", model.device)
    batch_size = max(1, budget // (known.num_entities * model.bytes_per_candidate))
    done = 0
    for index in torch.split(order, batch_size):
        yield index
        done += len(index)
        if progress is not None:
            progress(done, len(order))
