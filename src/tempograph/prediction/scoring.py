"""Scores of many facts as tables: as given, and the most surprising first."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.result_table import name_columns
from tempograph.evaluation.fact_scores import FactScores, score_facts
from tempograph.prediction.scenario import Scenario
from tempograph.typing import Progress

SIDES: Final = ("object", "subject")
"""The sides of a fact that are predicted, in the order of all results."""


def score_columns(
    scenario: Scenario,
    rows: Facts,
    budget: int | None = None,
    progress: Progress | None = None,
    ranks: bool = True,
) -> dict[str, Any]:
    """The columns of an Arrow table: score, probability and rank of each side of facts [n, 4]."""
    facts = torch.from_numpy(rows).to(scenario.model.device)
    calibrator = scenario.calibrator("entity") if ranks else None
    scores = score_facts(scenario.model, facts, scenario.known, calibrator, budget, progress)
    return fact_score_columns(scores)


def fact_score_columns(scores: FactScores) -> dict[str, Any]:
    """The scores of facts by side, and their probabilities and ranks if there are any."""
    columns: dict[str, Any] = {}
    for index, side in enumerate(SIDES):
        columns[f"{side}_score"] = _half(scores.score, index)
        if scores.rank is not None and scores.log_probability is not None:
            probability = _half(scores.log_probability.exp(), index)
            columns[f"{side}_probability"] = pa.array(probability, pa.float64())
            columns[f"{side}_rank"] = _half(scores.rank, index)
    return columns


def _half(values: Tensor, index: int) -> np.ndarray:
    half: np.ndarray = values.chunk(2)[index].cpu().numpy()
    return half


def measured_scenario(scenario: Scenario) -> Scenario:
    """The model as it was measured: it has not learned from held-out facts."""
    run = scenario.run
    if run.results.answers is None:
        return scenario
    return Scenario.as_measured(run, scenario.cache_bytes)


def most_surprising(graph: TemporalGraph, rows: Facts, scores: pa.Table, top: int) -> pa.Table:
    """The facts [n, 4] with the highest mean of -log p of both sides, in a column `surprise`.

    `scores` has the columns of `score_columns`.
    """
    sides = [
        -np.log(np.maximum(scores[f"{side}_probability"].to_numpy(), 1e-300)) for side in SIDES
    ]
    mean = (sides[0] + sides[1]) / 2
    order = np.argsort(-mean, kind="stable")[:top]
    columns = name_columns(graph, rows[order])
    columns["known"] = pa.array(graph.find_splits(rows[order]), pa.string())
    for name, column in zip(scores.column_names, scores.columns, strict=True):
        columns[name] = column.take(order)
    return pa.table(columns | {"surprise": mean[order]})
