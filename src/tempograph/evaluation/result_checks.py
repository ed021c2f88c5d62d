"""Checks of reported figures: by stored ranks, and by ranks computed again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

from tempograph.data.graph import Facts
from tempograph.evaluation.audit_checks import AuditCheck, SampledRanks
from tempograph.evaluation.evaluations import Evaluation
from tempograph.evaluation.independent_ranks import slow_metrics
from tempograph.evaluation.rank_table import RankTable
from tempograph.evaluation.ranking import Metrics, metrics
from tempograph.typing import Split

_EXACT: Final = 1e-9
_ROUNDED: Final = 1e-4
"""Figures of two evaluations may differ by this, because rounding decides a few ranks."""


def check_figures(
    kind: str, reported: Metrics, again: Evaluation, sample: SampledRanks | None = None
) -> AuditCheck:
    """The reported figures, a kind of results, are those of evaluating a split again.

    If there is a sample and it holds all facts of the split, its figures are compared as well.
    """
    difference = figure_difference(reported, again.summary()["metrics"])
    if sample is not None and len(sample.position) == len(again.facts):
        difference = max(difference, _slow_difference(reported, sample))
    detail = f"evaluated again: largest difference of a figure {difference:.1e}"
    name = f"{kind} agree on {again.split}"
    return {"name": name, "holds": difference <= _ROUNDED, "detail": detail}


def check_stored_ranks(
    split: Split, reported: Metrics, stored: RankTable, facts: Facts, sample: SampledRanks
) -> AuditCheck:
    """The reported figures are those of the stored ranks, and a sample of these is found again.

    If the sample holds all facts [n, 4] of the split, its figures are compared as well.
    """
    name = f"Results agree on {split}"
    if not stored.covers(facts):
        detail = f"the stored ranks are not those of all {split} facts"
        return {"name": name, "holds": False, "detail": detail}
    difference = figure_difference(reported, metrics(torch.from_numpy(stored.rank)))
    if difference > _EXACT:
        detail = f"results.json differs from the stored ranks by {difference:.1e}"
        return {"name": name, "holds": False, "detail": detail}
    equal, wrong = _compare_ranks(stored, facts, sample)
    detail = f"MRR {reported['mrr']:.4f} is that of the stored ranks; of "
    detail += f"{len(sample.slow):,} ranked again {equal:,} are equal"
    if rounded := len(sample.slow) - equal - wrong:
        detail += f", {rounded:,} differ by the rounding of scores"
    if wrong:
        detail += f", {wrong:,} differ"
    holds = not wrong
    if len(sample.position) == len(facts):
        difference = _slow_difference(reported, sample)
        detail += f"; figures of the independent ranks differ by {difference:.1e}"
        holds &= difference <= _ROUNDED
    return {"name": name, "holds": holds, "detail": detail}


def figure_difference(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The largest difference of MRR and Hits."""
    return max(abs(one[name] - other[name]) for name in other if name != "mr")


def _slow_difference(reported: Metrics, sample: SampledRanks) -> float:
    return figure_difference(reported, slow_metrics([slow.rank for slow in sample.slow]))


def _compare_ranks(stored: RankTable, facts: Facts, sample: SampledRanks) -> tuple[int, int]:
    """How many ranks of a sample equal the stored ones, and how many differ beyond rounding.

    Rounding can move a rank by the number of candidates whose score is nearly that of the answer.
    """
    keys = zip(map(tuple, stored.facts.tolist()), stored.asks_subject.tolist(), strict=True)
    ranks = dict(zip(keys, stored.rank.tolist(), strict=True))
    asked = [tuple(fact) for fact in facts[sample.position].tolist()]
    queries = [(fact, asks_subject) for asks_subject in (False, True) for fact in asked]
    differences = [
        (abs(ranks[query] - slow.rank), slow.near_ties)
        for query, slow in zip(queries, sample.slow, strict=True)
    ]
    equal = sum(difference == 0 for difference, _ in differences)
    return equal, sum(difference > near_ties for difference, near_ties in differences)
