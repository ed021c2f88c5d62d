"""Rank a split by the rules of TGB 2.0 (package `py-tgb`, task `tkgl`).

Each fact is asked in both directions, since the package adds an inverse of every fact. The filter
is by time, ties share their mean rank, and MRR and Hits are means over all queries: these are the
rules of `evaluator` too. For tkgl-wikidata, an answer is ranked among sampled candidates only, see
`RelationNegatives`. What a model may know of the past is no matter of these rules.
"""

from __future__ import annotations

from dataclasses import replace

from tempograph.data.graph import TemporalGraph
from tempograph.data.tgb_datasets import TGB_DATASETS
from tempograph.errors import ConfigError
from tempograph.evaluation.evaluations import Evaluation
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.models.base import Model
from tempograph.typing import Progress, Protocol, Split


def evaluate_by_tgb(
    model: Model,
    graph: TemporalGraph,
    split: Split,
    protocol: Protocol,
    negatives: int | None = None,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Rank both sides of every fact of a split by the rules of TGB 2.0.

    Without `negatives`, the name of the dataset decides how many candidates are sampled; for other
    datasets than those of TGB, all entities are candidates.
    """
    if graph.has_intervals:
        raise ConfigError(
            f"{graph.name}: the rules of TGB 2.0 are for events, and its facts hold for a while; "
            "evaluate it without --protocol tgb"
        )
    if negatives is None and (dataset := TGB_DATASETS.get(graph.name)):
        negatives = dataset.negatives
    evaluation = evaluate_model(
        model, graph, split, protocol, "time", budget, progress, negatives=negatives
    )
    return replace(evaluation, rules="tgb")
