"""Metrics of groups of queries: by side, relation, degree, pair history or temporal distance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

import numpy as np

from tempograph.data.graph import Facts, TemporalGraph, row_ids, rows_in
from tempograph.evaluation.frequency_curves import wilson_bounds
from tempograph.evaluation.hard_questions import facts_per_entity
from tempograph.evaluation.rank_table import Floats, Integers, RankTable

_RARE_BOUNDS: Final = (1, 4, 16, 64, 256)
"""Numbers of train facts between which entities are grouped."""


class QueryGroups(NamedTuple):
    """Labels, and the group of each query, [n]; `ordered` if the labels follow an axis."""

    labels: tuple[str, ...]
    group: Integers
    ordered: bool = False


class GroupMetrics(NamedTuple):
    """The metrics of groups, [groups] each, NaN without queries; `low` and `high` bound Hits@10."""

    labels: tuple[str, ...]
    questions: Integers
    mrr: Floats
    hits_1: Floats
    hits_10: Floats
    low: Floats
    high: Floats


def group_metrics(ranks: RankTable, groups: QueryGroups) -> GroupMetrics:
    """MRR, Hits@1 and Hits@10 of each group, in the order of the labels.

    Groups without queries are left out, except between others along an axis.
    """
    present = np.unique(groups.group)
    if groups.ordered and len(present):
        present = np.arange(present[0], present[-1] + 1)
    index = np.searchsorted(present, groups.group)
    count = np.bincount(index, minlength=len(present))
    divisor = np.where(count > 0, count, np.nan)
    mrr, hits_1, hits_10 = (
        np.bincount(index, ranks.values(measure), len(present)) / divisor
        for measure in ("mrr", "hits@1", "hits@10")
    )
    labels = tuple(groups.labels[group] for group in present)
    return GroupMetrics(labels, count, mrr, hits_1, hits_10, *wilson_bounds(hits_10, divisor))


def by_side(ranks: RankTable) -> QueryGroups:
    """Queries for objects, queries for subjects."""
    labels = ("object (s, r, ?, t)", "subject (?, r, o, t)")
    return QueryGroups(labels, ranks.asks_subject.astype(np.int64))


def by_relation(ranks: RankTable, graph: TemporalGraph) -> QueryGroups:
    """The relation of each query."""
    return QueryGroups(graph.relations, ranks.facts[:, 1])


def by_degree(
    ranks: RankTable, graph: TemporalGraph, whose: Literal["answer", "given"]
) -> QueryGroups:
    """The number of train facts with the answer, or with the given entity: 0, 1, 2-3, 4-7, ..."""
    return _doubling(facts_per_entity(graph)[ranks.answer if whose == "answer" else ranks.given])


def by_rarer_entity(ranks: RankTable, graph: TemporalGraph) -> QueryGroups:
    """The number of train facts with the subject or the object, whichever has fewer."""
    counts = facts_per_entity(graph)
    fewest = np.minimum(counts[ranks.facts[:, 0]], counts[ranks.facts[:, 2]])
    return _between(fewest, _RARE_BOUNDS)


def by_step_activity(ranks: RankTable, graph: TemporalGraph) -> QueryGroups:
    """The number of train facts at the step, in four groups with as many steps each."""
    counts = np.bincount(graph.train[:, 3], minlength=len(graph.times))
    bounds = np.unique(np.quantile(counts, [0.25, 0.5, 0.75], method="higher") + 1)
    return _between(counts[ranks.facts[:, 3]], [int(bound) for bound in bounds])


def by_pair_history(ranks: RankTable, graph: TemporalGraph) -> QueryGroups:
    """How train facts of any time connect the answer with the given entity.

    By the query's relation in its direction, only otherwise, or never.
    """
    train, facts = graph.train[:, :3], ranks.facts[:, :3]
    pairs = np.concatenate([train[:, [0, 2]], train[:, [2, 0]]])
    connected = np.where(rows_in(facts[:, [0, 2]], pairs), 1, 2)
    index = np.where(rows_in(facts, train), 0, connected)
    return QueryGroups(("same relation", "only otherwise", "never"), index)


def by_distance(ranks: RankTable, graph: TemporalGraph) -> QueryGroups:
    """Steps to the nearest train fact with the same (s, r, o): 0, 1, 2-3, 4-7, ..., or none."""
    distance = distance_to_same(ranks.facts, graph.train, len(graph.times))
    labels, index, ordered = _doubling(distance)
    return QueryGroups((*labels, "none"), np.where(distance < 0, len(labels), index), ordered)


def distance_to_same(facts: Facts, train: Facts, steps: int) -> Integers:
    """Steps from each fact to the nearest train fact with the same (s, r, o); -1 without one."""
    number = row_ids(np.concatenate([train[:, :3], facts[:, :3]]))
    keys = np.sort(number[: len(train)] * steps + train[:, 3])
    wanted = number[len(train) :] * steps + facts[:, 3]
    position, none = np.searchsorted(keys, wanted), 2 * steps
    nearest = np.full(len(facts), none)
    for neighbor in (position - 1, position):
        key = keys[neighbor.clip(0, len(keys) - 1)]
        same = (key // steps == wanted // steps) & (neighbor >= 0) & (neighbor < len(keys))
        nearest = np.minimum(nearest, np.where(same, np.abs(key - wanted), none))
    return np.where(nearest == none, -1, nearest)


def _between(values: Integers, bounds: Sequence[int]) -> QueryGroups:
    """Groups of values below each bound, and those from the last one on."""
    starts = [0, *bounds]
    labels = [
        f"{low:,}-{high - 1:,}" if low < high - 1 else f"{low:,}" for low, high in pairwise(starts)
    ]
    index = np.searchsorted(np.array(bounds), values, side="right")
    return QueryGroups((*labels, f"{starts[-1]:,} or more"), index, True)


def _doubling(values: Integers) -> QueryGroups:
    """Groups 0, 1, 2-3, 4-7, ... whose width doubles; negative values get group 0."""
    index = np.frexp(values.clip(min=0).astype(np.float64))[1].astype(np.int64)
    ranges = [(2 ** (group - 1), 2**group - 1) for group in range(1, int(index.max(initial=0)) + 1)]
    labels = [f"{low}-{high}" if low < high else f"{low}" for low, high in ranges]
    return QueryGroups(("0", *labels), index, True)
