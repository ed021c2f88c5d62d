"""Through all the data in bounded memory: facts that may be missing, and facts that are hard to believe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import COLUMNS, Facts, TemporalGraph
from tempograph.data.timeline import Queries, undirected_facts
from tempograph.evaluation.evaluator import query_batches
from tempograph.io import atomic_file
from tempograph.models.base import Model
from tempograph.prediction.scoring import log_probabilities
from tempograph.typing import Progress

_TOGETHER: Final = 4096
"""About how many questions are asked at once, of one time step or several."""


class Candidates(NamedTuple):
    """Facts that are not in the data, [n, 4], their scores, and logarithms of probabilities or 0, [n] each."""

    facts: Tensor
    score: Tensor
    log_probability: Tensor

    @staticmethod
    def none() -> Candidates:
        """Not a single one."""
        return Candidates(torch.empty(0, 4, dtype=torch.int64), torch.empty(0), torch.empty(0))

    def best(self, most: int) -> Candidates:
        """Those with the highest probability, or score where all are alike, at most so many."""
        order = torch.argsort(self.score, descending=True, stable=True)
        order = order[torch.argsort(self.log_probability[order], descending=True, stable=True)][
            :most
        ]
        return Candidates(*(column[order] for column in self))

    def table(self, graph: TemporalGraph, probabilistic: bool) -> pa.Table:
        """Names, score and probability."""
        probability = self.log_probability.exp().cpu().numpy()
        return pa.table(
            {
                **named(graph, self.facts.cpu().numpy()),
                "score": self.score.double().cpu().numpy(),
                "probability": pa.array(
                    probability if probabilistic else [None] * len(probability), pa.float64()
                ),
            }
        )


def named(graph: TemporalGraph, facts: Facts) -> dict[str, pa.Array]:
    """The four columns of facts in names."""
    names = (graph.entities, graph.relations, graph.entities, graph.times)
    return {
        column: pa.DictionaryArray.from_arrays(
            facts[:, place].astype(np.int32), list(names[place])
        ).cast(pa.string())
        for place, column in enumerate(COLUMNS)
    }


def pairs_to_ask(
    graph: TemporalGraph, entity: int | None, relations: Sequence[int] | None
) -> Tensor:
    """Who else? Each (subject, relation) that train knows; for one entity, from both sides.   [pairs, 2]."""
    facts = torch.from_numpy(graph.train)
    if relations is not None:
        facts = facts[torch.isin(facts[:, 1], torch.tensor(relations, dtype=torch.int64))]
    pairs = facts[:, :2]
    if entity is not None:
        turned = torch.stack([facts[:, 2], facts[:, 1] + len(graph.relations)], dim=1)
        pairs = torch.cat([pairs, turned])
        pairs = pairs[pairs[:, 0] == entity]
    distinct: Tensor = torch.unique(pairs, dim=0)
    return distinct


@torch.inference_mode()
def scan(
    model: Model,
    pairs: Tensor,
    times: Sequence[int],
    known: KnownAnswers,
    temperature: float | None,
    most: int,
    at_least: float | None,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Candidates]:
    """The best candidates of each batch of questions, in no split as a fact, with a probability of at least so much.

    Questions are pairs [n, 2] of an entity and a relation, one time after another.
    """
    given, relation = pairs.to(model.device).unbind(1)
    # A loop answers two questions of its entity; where both are asked, that for its object counts.
    turned = given * 2 * known.num_relations + relation - known.num_relations
    twice = (relation >= known.num_relations) & torch.isin(turned, turned + known.num_relations)
    # Where few are asked about, many steps go together: else a grid with gaps of years would take a call for each day.
    together = max(1, _TOGETHER // max(1, len(pairs)))
    for start in range(0, len(times) if len(pairs) else 0, together):
        steps = torch.tensor(times[start : start + together], device=model.device)
        queries = Queries(
            given.repeat(len(steps)),
            relation.repeat(len(steps)),
            steps.repeat_interleave(len(given)),
        )
        for index in query_batches(model, queries, known, budget):
            yield _best_of(
                model,
                queries.take(index),
                twice[index % len(pairs)],
                known,
                temperature,
                most,
                at_least,
            )
        if progress is not None:
            progress(start + len(steps), len(times))


def _best_of(
    model: Model,
    asked: Queries,
    no_loop: Tensor,
    known: KnownAnswers,
    temperature: float | None,
    most: int,
    at_least: float | None,
) -> Candidates:
    """The best candidates of some questions, the entity itself left out where that is set, [questions]."""
    scores, pairs = model.scores(asked), known(asked)
    shares = torch.zeros_like(scores, dtype=torch.float64)
    if temperature is not None:
        shares = log_shares(scores, pairs, temperature)
    fresh = scores > -math.inf
    fresh[pairs] = False
    fresh[no_loop, asked.entity[no_loop]] = False
    if at_least is not None:
        fresh &= shares >= math.log(at_least)
    elif temperature is not None:
        fresh &= shares >= _bar(shares.masked_fill(~fresh, -math.inf), most)
    else:
        fresh &= scores >= _bar(scores.masked_fill(~fresh, -math.inf), most)
    row, candidate = fresh.nonzero().unbind(1)
    entity, relation, time = (column[row] for column in asked)
    facts = undirected_facts(
        torch.stack([entity, relation, candidate, time], dim=1), known.num_relations
    )
    return Candidates(facts, scores[fresh], shares[fresh])


def _bar(values: Tensor, most: int) -> Tensor:
    """The value that so many reach."""
    # Row by row first: of all at once, as many places as values would lie in memory.
    best = values.topk(min(most, values.shape[1]), dim=1).values.flatten()
    return best.topk(min(most, len(best))).values[-1]


def keep_best(found: Iterator[Candidates], most: int) -> Candidates | None:
    """The best of all batches; a fact that two questions lead to counts once."""
    best: Candidates | None = None
    for batch in found:
        both = (
            batch
            if best is None
            else Candidates(*(torch.cat(pair) for pair in zip(best, batch, strict=True)))
        )
        best = _distinct(both).best(most)
    return best


def _distinct(candidates: Candidates) -> Candidates:
    """Each fact once, with the higher of its probabilities."""
    ordered = candidates.best(len(candidates.score))
    _, place = torch.unique(ordered.facts, dim=0, return_inverse=True)
    first = torch.full((len(place),), len(place), device=place.device)
    first = first.scatter_reduce(0, place, torch.arange(len(place), device=place.device), "amin")
    return Candidates(*(column[first[first < len(place)].sort().values] for column in ordered))


def write_table(table: pa.Table, path: Path) -> None:
    """Write a Parquet file, whole or not at all."""
    with atomic_file(path) as temporary:
        pq.write_table(table, temporary)


def write_all(found: Iterator[Candidates], graph: TemporalGraph, path: Path) -> int:
    """Every candidate to a Parquet file, batch by batch; how many there are."""
    count, schema = 0, Candidates.none().table(graph, True).schema
    with atomic_file(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for batch in found:
            distinct = _distinct(batch)
            order = torch.argsort(distinct.facts[:, 3], stable=True)
            table = Candidates(*(column[order] for column in distinct)).table(graph, True)
            if len(table):
                writer.write_table(table)
            count += len(table)
    return count
