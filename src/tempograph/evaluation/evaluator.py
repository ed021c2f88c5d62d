"""Filtered ranking of a split by any model, in bounded memory.

The filter is chosen in `evaluate_model` (`KnownAnswers`, by time by default) and applied
in `ranking.filtered_ranks`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.timeline import Queries, fact_queries
from tempograph.device import explain_out_of_memory, memory_budget
from tempograph.errors import DataError
from tempograph.evaluation.asked_steps import FactsAtSteps
from tempograph.evaluation.evaluations import Evaluation
from tempograph.evaluation.history import with_history
from tempograph.evaluation.probabilities import Calibrator, Confidence
from tempograph.evaluation.ranking import (
    Ranks,
    StepMeans,
    StepRanks,
    filtered_ranks,
    sampled_ranks,
    sparse_ranks,
)
from tempograph.evaluation.relation_negatives import RelationNegatives
from tempograph.evaluation.sharded_ranks import sharded_ranks
from tempograph.evaluation.streamed_ranks import needs_blocks, rank_in_blocks
from tempograph.models.base import CrossFitted, Model
from tempograph.models.sparse_scores import BYTES_PER_CELL, split_by_size
from tempograph.typing import Filter, Progress, Protocol, Split

_RANK_TYPES: Final = (torch.float64, torch.int64, torch.int64)
_CONFIDENCE_TYPES: Final = (torch.float64, torch.bool, torch.bool, torch.float64)


def evaluate_model(
    model: Model,
    graph: TemporalGraph,
    split: Split,
    protocol: Protocol,
    filter: Filter = "time",
    budget: int | None = None,
    progress: Progress | None = None,
    calibrator: Calibrator | None = None,
    negatives: int | None = None,
) -> Evaluation:
    """Rank both sides of every fact of a split.

    Facts that a model was fitted on are ranked by its cross-fitted scores, if it has them. With a
    calibrator, the evaluation says how sure the model is of its best answers. With `negatives`,
    each answer is ranked among so many sampled candidates (`RelationNegatives`), else among all.
    A forecaster answers from the history that the protocol allows.
    """
    facts = require_facts(graph, split)
    start = time.perf_counter()
    model = with_history(model, graph, split, protocol)
    cross_fitted = model.cross_fitted(split, len(facts))
    step_ranks: StepRanks | None = None
    way_out = "take a smaller model or, with evaluate, a smaller budget for scores (--memory MIB)"
    with torch.inference_mode(), explain_out_of_memory("ranking", way_out):
        rows = torch.from_numpy(facts).to(model.device)
        if graph.has_intervals:
            asked = FactsAtSteps.under(protocol, graph, rows, filter)
            step_ranks, confidence = rank_at_steps(
                model, asked, budget, progress, cross_fitted, calibrator
            )
            step_ranks = step_ranks.cpu()
            ranks = step_ranks.ranks
        else:
            known = KnownAnswers.from_graph(graph, filter, model.device)
            ranks, confidence = rank_with_confidence(
                model,
                rows,
                known,
                budget,
                progress,
                cross_fitted,
                calibrator,
                None if negatives is None else RelationNegatives(known, negatives),
            )
    seconds, note = time.perf_counter() - start, cross_fitted.note if cross_fitted else model.note
    return Evaluation(
        graph.name,
        model.name,
        split,
        protocol,
        filter,
        facts,
        ranks.cpu(),
        seconds,
        note,
        graph,
        None if confidence is None else confidence.cpu(),
        negatives,
        step_ranks=step_ranks,
    )


def require_facts(graph: TemporalGraph, split: Split) -> Facts:
    """The facts of a split, [n, 4]; raises DataError if it has none."""
    facts = graph.facts(split)
    if not len(facts):
        raise DataError(
            f"{graph.name}: the {split} split has no facts, so there is nothing to evaluate"
        )
    return facts


def rank_facts(
    model: Model,
    facts: Tensor,
    known: KnownAnswers,
    budget: int | None = None,
    progress: Progress | None = None,
    cross_fitted: CrossFitted | None = None,
) -> Ranks:
    """Ranks of the objects, then of the subjects.   facts [n, 4] -> [2n] each."""
    return rank_with_confidence(model, facts, known, budget, progress, cross_fitted, None)[0]


def rank_with_confidence(
    model: Model,
    facts: Tensor,
    known: KnownAnswers,
    budget: int | None,
    progress: Progress | None,
    cross_fitted: CrossFitted | None,
    calibrator: Calibrator | None,
    negatives: RelationNegatives | None = None,
    filter_key: Tensor | None = None,
) -> tuple[Ranks, Confidence | None]:
    """`rank_facts`, and with a calibrator how sure the queries are of their best answers.

    filter_key [n]: what stands for the time of each fact in `known`, if not its time.
    """
    queries, answer = fact_queries(facts, known.num_relations)
    filtered = queries if filter_key is None else queries._replace(time=filter_key.repeat(2))
    whole = negatives is None and cross_fitted is None and filter_key is None
    if whole and needs_blocks(model, known, budget):
        return rank_in_blocks(model, queries, answer, known, budget, progress, calibrator)
    ranks = Ranks(*_empty(answer, _RANK_TYPES))
    confidence = None if calibrator is None else Confidence(*_empty(answer, _CONFIDENCE_TYPES))
    sizes = None if cross_fitted or negatives else model.sparse_sizes(queries)
    batches = query_batches(model, queries, known, budget, progress, sizes)
    for index, score in with_scorers(batches, model, cross_fitted):
        batch, right = queries.take(index), answer[index]
        pairs = known(filtered.take(index))
        if sizes is not None:
            sparse = model.sparse_scores(batch)
            _assign(ranks, index, sparse_ranks(sparse, right, pairs))
            if confidence is not None and calibrator is not None:
                _assign(confidence, index, calibrator.sparse_confidence(sparse, right, pairs))
            continue
        scores = score(batch)
        if model.shards is not None:
            found = sharded_ranks(scores, right, pairs, model.shards)
        elif negatives is None:
            found = filtered_ranks(scores, right, pairs)
        else:
            found = sampled_ranks(scores, right, negatives(batch))
        _assign(ranks, index, found)
        if confidence is not None and calibrator is not None:
            row, other = (part[pairs[1] != right[pairs[0]]] for part in pairs)
            scores[row, other] = -math.inf
            eligible = scores.shape[1] - torch.bincount(row, minlength=len(index))
            _assign(confidence, index, calibrator.confidence(scores, right, eligible))
    return ranks, confidence


def rank_at_steps(
    model: Model,
    asked: FactsAtSteps,
    budget: int | None = None,
    progress: Progress | None = None,
    cross_fitted: CrossFitted | None = None,
    calibrator: Calibrator | None = None,
) -> tuple[StepRanks, Confidence | None]:
    """Means over steps of the ranks of the objects of facts, then of their subjects, [2n] each.

    With a calibrator, also how sure the queries of each fact are at one of its steps.
    """
    facts, count, done = asked.facts, len(asked.facts), 0
    sums = [StepMeans.zeros(2 * count, model.device) for _ in range(3)]
    steps = torch.zeros(2 * count, dtype=torch.int64, device=model.device)
    confidence = None if calibrator is None else Confidence(*_empty(steps, _CONFIDENCE_TYPES))
    shown = asked.one_step_each

    def advance(queries: int, _: int) -> None:
        if progress is not None:
            progress(done + queries, asked.num_queries)

    for pairs in asked:
        fitted = cross_fitted and cross_fitted._replace(scorer=cross_fitted.scorer[pairs.fact])
        ranks, sure = rank_with_confidence(
            model,
            pairs.events(facts),
            asked.known,
            budget,
            advance,
            fitted,
            calibrator,
            filter_key=asked.filter_key(pairs),
        )
        row = torch.cat([pairs.fact, pairs.fact + count])
        steps.index_add_(0, row, torch.ones_like(row))
        for total, column in zip(sums, ranks, strict=True):
            total.add(row, column)
        if confidence is not None and sure is not None:
            chosen = (pairs.step == shown[pairs.fact]).repeat(2).nonzero()[:, 0]
            _assign(confidence, row[chosen], (column[chosen] for column in sure))
        done += len(row)
    realistic, optimistic, pessimistic = (total.over(steps) for total in sums)
    return StepRanks(realistic, optimistic, pessimistic, steps), confidence


def _empty(like: Tensor, types: Iterable[torch.dtype]) -> Iterator[Tensor]:
    return (torch.empty(len(like), dtype=kind, device=like.device) for kind in types)


def _assign(columns: Iterable[Tensor], index: Tensor, values: Iterable[Tensor]) -> None:
    for column, value in zip(columns, values, strict=True):
        column[index] = value


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
    sizes: Tensor | None = None,
) -> Iterator[Tensor]:
    """Indices of queries ordered by time, in batches whose scores fit the budget in bytes.

    sizes [queries]: how many candidates of each query are laid out, if not all of them are.
    """
    order = torch.argsort(queries.time * 2 * known.num_relations + queries.relation, stable=True)
    if budget is None:
        budget = memory_budget("ranking", model.device)
    batch_size = max(1, budget // (known.num_entities * model.bytes_per_candidate))
    batches = torch.split(order, batch_size)
    if sizes is not None:
        batches = split_by_size(order, sizes[order], budget // BYTES_PER_CELL)
    done = 0
    for index in batches:
        yield index
        done += len(index)
        if progress is not None:
            progress(done, len(order))
