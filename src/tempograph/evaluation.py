"""Filtered ranking of a split for any model, in bounded memory, as a table of ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from tempograph.data.graph import Facts, Split, TemporalGraph
from tempograph.errors import DataError
from tempograph.known import Filter, KnownAnswers
from tempograph.models.contract import Model
from tempograph.ranking import Ranks, filtered_ranks, metrics
from tempograph.timeline import Protocol, Queries, both_directions

_BUDGET: Final = {"cpu": 2**29, "cuda": 2**32}
"""Bytes for scores unless told otherwise, by kind of device."""

Progress = Callable[[int, int], None]
"""Told how many of how many questions are done."""


def rank_facts(
    model: Model, facts: Tensor, known: KnownAnswers, budget: int | None = None, progress: Progress | None = None
) -> Ranks:
    """Ranks of both sides of each fact: objects first, then subjects.   facts [n, 4] -> [2n] each.

    Questions are asked in order of time, as many at once as the budget in bytes allows, but at least one.
    """
    directed = both_directions(facts, known.num_relations)
    queries = Queries(directed[:, 0], directed[:, 1], directed[:, 3])
    order = torch.argsort(queries.time * 2 * known.num_relations + queries.relation, stable=True)
    allowed = _BUDGET[model.device.type] if budget is None else budget
    at_once = max(1, allowed // (known.num_entities * model.bytes_per_candidate))
    parts: list[Ranks] = []
    for index in torch.split(order, at_once):
        asked = queries.take(index)
        parts.append(filtered_ranks(model.scores(asked), directed[index, 2], known(asked)))
        if progress is not None:
            progress(min(len(parts) * at_once, len(order)), len(order))
    back = torch.argsort(order)
    realistic, optimistic, pessimistic = (torch.cat(column)[back] for column in zip(*parts, strict=True))
    return Ranks(realistic, optimistic, pessimistic)


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
                **{name: pa.array([value] * 2 * count).dictionary_encode() for name, value in constant.items()},
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
    """Rank every fact of a split from both sides."""
    facts = graph.facts(split)
    if not len(facts):
        raise DataError(f"{graph.name}: the {split} split has no facts, so there is nothing to evaluate")
    begin = time.perf_counter()
    known = KnownAnswers.of(graph, filter, model.device)
    with torch.inference_mode():
        ranks = rank_facts(model, torch.from_numpy(facts).to(model.device), known, budget, progress)
    ranks = Ranks(*(column.cpu() for column in ranks))
    return Evaluation(graph.name, model.name, split, protocol, filter, facts, ranks, time.perf_counter() - begin)
