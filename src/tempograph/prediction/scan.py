"""Scans of all data for plausible facts that are not in it, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph
from tempograph.data.result_table import name_columns
from tempograph.data.timeline import Queries, undirected_facts
from tempograph.evaluation.evaluator import query_batches
from tempograph.io import atomic_file
from tempograph.prediction.scenario import Scenario
from tempograph.prediction.scoring import log_probabilities
from tempograph.typing import Progress

_CHUNK_SIZE: Final = 4096
"""About how many queries are made at once, of one time step or several."""


class Candidates(NamedTuple):
    """Facts [n, 4] that are not in the data, their scores [n] and log probabilities [n] or 0."""

    facts: Tensor
    score: Tensor
    log_probability: Tensor

    @staticmethod
    def empty() -> Candidates:
        """No candidates."""
        return Candidates(torch.empty(0, 4, dtype=torch.int64), torch.empty(0), torch.empty(0))

    def take(self, index: Tensor) -> Candidates:
        """Some of the candidates."""
        return Candidates(*(column[index] for column in self))

    def best(self, limit: int) -> Candidates:
        """The candidates with the highest probability, then the highest score."""
        order = torch.argsort(self.score, descending=True, stable=True)
        order = order[torch.argsort(self.log_probability[order], descending=True, stable=True)]
        return self.take(order[:limit])

    def distinct(self) -> Candidates:
        """Each fact once, with its highest probability, best first."""
        ordered = self.best(len(self.score))
        _, group = torch.unique(ordered.facts, dim=0, return_inverse=True)
        size = len(group)
        first = torch.full((size,), size, device=group.device)
        index = torch.arange(size, device=group.device)
        first = first.scatter_reduce(0, group, index, "amin")
        return ordered.take(first[first < size].sort().values)

    def table(self, graph: TemporalGraph, probabilistic: bool) -> pa.Table:
        """Names, score and probability of each candidate."""
        probability: Any = [None] * len(self.score)
        if probabilistic:
            probability = self.log_probability.exp().cpu().numpy()
        columns = name_columns(graph, self.facts.cpu().numpy())
        columns["score"] = pa.array(self.score.double().cpu().numpy())
        columns["probability"] = pa.array(probability, pa.float64())
        return pa.table(columns)


def known_pairs(
    graph: TemporalGraph, entity: int | None, relations: Sequence[int] | None
) -> Tensor:
    """Distinct (subject, relation) pairs of train; for one entity also its inverses, [n, 2]."""
    facts = torch.from_numpy(graph.train)
    if relations is not None:
        facts = facts[torch.isin(facts[:, 1], torch.tensor(relations, dtype=torch.int64))]
    pairs = facts[:, :2]
    if entity is not None:
        inverse = torch.stack([facts[:, 2], facts[:, 1] + len(graph.relations)], dim=1)
        pairs = torch.cat([pairs, inverse])
        pairs = pairs[pairs[:, 0] == entity]
    distinct: Tensor = torch.unique(pairs, dim=0)
    return distinct


@dataclass(frozen=True, eq=False)
class Scan:
    """A search for the `top` most plausible facts, or for all with a minimum probability."""

    scenario: Scenario
    top: int
    min_probability: float | None
    budget: int | None = None

    @torch.inference_mode()
    def batches(
        self, pairs: Tensor, times: Sequence[int], progress: Progress | None = None
    ) -> Iterator[Candidates]:
        """The best candidates of each batch of queries: pairs [n, 2] at each of the time steps."""
        model, known = self.scenario.model, self.scenario.known
        device, num_relations = model.device, known.num_relations
        entity, relation = pairs.to(device).unbind(1)
        # A loop (a, r, a) answers both queries of its entity. If both are made, it counts as the
        # answer of the object query.
        key = entity * 2 * num_relations + relation - num_relations
        both_made = (relation >= num_relations) & torch.isin(key, key + num_relations)
        # With few pairs, many steps share a chunk: a long sparse time axis takes few calls.
        chunk = max(1, _CHUNK_SIZE // max(1, len(pairs)))
        for start in range(0, len(times) if len(pairs) else 0, chunk):
            steps = torch.tensor(times[start : start + chunk], device=device)
            queries = Queries(
                entity.repeat(len(steps)),
                relation.repeat(len(steps)),
                steps.repeat_interleave(len(entity)),
            )
            for index in query_batches(model, queries, known, self.budget):
                yield self._best_candidates(queries.take(index), both_made[index % len(pairs)])
            if progress is not None:
                progress(start + len(steps), len(times))

    def _best_candidates(self, queries: Queries, skip_loop: Tensor) -> Candidates:
        """The best new facts of some queries, without loops where `skip_loop` [queries] is set."""
        known, temperature = self.scenario.known, self.scenario.temperature
        scores, pairs = self.scenario.model.scores(queries), known(queries)
        log_probs = torch.zeros_like(scores, dtype=torch.float64)
        if temperature is not None:
            log_probs = log_probabilities(scores, pairs, temperature)
        new = scores > -math.inf
        new[pairs] = False
        new[skip_loop, queries.entity[skip_loop]] = False
        if self.min_probability is not None:
            new &= log_probs >= math.log(self.min_probability)
        else:
            values = scores if temperature is None else log_probs
            new &= values >= _kth_largest(values.masked_fill(~new, -math.inf), self.top)
        row, candidate = new.nonzero().unbind(1)
        entity, relation, time = queries.take(row)
        completed = torch.stack([entity, relation, candidate, time], dim=1)
        facts = undirected_facts(completed, known.num_relations)
        return Candidates(facts, scores[new], log_probs[new])


def _kth_largest(values: Tensor, k: int) -> Tensor:
    """The k-th largest of all values [n, m]."""
    # Row by row first: topk over all values at once would need as many indices in memory.
    best = values.topk(min(k, values.shape[1]), dim=1).values.flatten()
    return best.topk(min(k, len(best))).values[-1]


def best_of_batches(batches: Iterator[Candidates], limit: int) -> Candidates:
    """The best distinct candidates of all batches."""
    best = Candidates.empty()
    for batch in batches:
        if len(best.score):
            batch = Candidates(*(torch.cat(pair) for pair in zip(best, batch, strict=True)))
        best = batch.distinct().best(limit)
    return best


def write_table(table: pa.Table, path: Path) -> None:
    """Write a Parquet file atomically."""
    with atomic_file(path) as temporary:
        pq.write_table(table, temporary)


def write_batches(batches: Iterator[Candidates], graph: TemporalGraph, path: Path) -> int:
    """Write the candidates of all batches to a Parquet file by time; return their number."""
    count, schema = 0, Candidates.empty().table(graph, True).schema
    with atomic_file(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for batch in batches:
            distinct = batch.distinct()
            order = torch.argsort(distinct.facts[:, 3], stable=True)
            table = distinct.take(order).table(graph, True)
            if len(table):
                writer.write_table(table)
            count += len(table)
    return count
