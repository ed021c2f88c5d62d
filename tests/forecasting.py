"""Graphs whose splits follow each other in time, and settings with which every model is small."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from graphs import graphs
from oracle import Fact, Question, directed
from tempograph import TemporalGraph
from tempograph.data.folder import read_folder
from tempograph.data.graph import sort_by_time
from tempograph.models.registry import MODELS

_DATASET = Path(__file__).parent / "stored" / "format-1" / "ted" / "dataset"
_PARTS = 'model.parts=["pointer", "temp-gru", "tntcomplex"]'
SMALL = {name: ["model.dim=4", "train.epochs=1"] for name in MODELS} | {
    **{name: [] for name in ("recurrency", "edgebank", "history-frequency")},
    "ted": ["model.sigma=0.1"],
    "pointer": ["train.epochs=1"],
    "temp-sa": ["model.dim=4", "model.heads=2", "train.epochs=1"],
    "ensemble": ["model.steps=5", 'model.parts=["complex", "temp-gru"]'],
    "temp-pointer": ["model.steps=5", _PARTS],
}
"""Overrides by model."""


def split_by_time(graph: TemporalGraph, valid: int, test: int) -> TemporalGraph:
    """The facts of a graph split at two steps: valid starts with one, test with the other."""
    facts = sort_by_time(graph.all_facts)
    first, second = np.searchsorted(facts[:, 3], [valid, test])
    return replace(graph, train=facts[:first], valid=facts[first:second], test=facts[second:])


def tiny_world() -> TemporalGraph:
    """150 facts in ten days, split by time."""
    return split_by_time(read_folder(_DATASET, "tiny"), 6, 8)


@st.composite
def forecast_graphs(draw: st.DrawFn, largest: int = 60) -> TemporalGraph:
    """Random graphs split by time, with facts in each split."""
    graph = draw(graphs(largest).filter(lambda each: len(np.unique(each.all_facts[:, 3])) >= 3))
    steps = np.unique(graph.all_facts[:, 3])
    first = draw(st.integers(1, len(steps) - 2))
    second = draw(st.integers(first + 1, len(steps) - 1))
    return split_by_time(graph, int(steps[first]), int(steps[second]))


def slow_recurrency(
    facts: list[Fact],
    sizes: tuple[int, int, int, int],
    query: Question,
    decay: float,
    share_weight: float,
    repeats: str = "sum",
    window: int = 0,
) -> list[float]:
    """Scores of all entities by what facts before the query repeat, and by their shares."""
    entity, relation, time = query
    past = [fact for fact in directed(facts, sizes[1]) if fact[3] < time]
    of_relation = [fact for fact in past if fact[1] == relation]
    scores = []
    for candidate in range(sizes[0]):
        weights = [
            2 ** (decay * (t - time))
            for s, r, o, t in past
            if (s, r, o) == (entity, relation, candidate) and (not window or t >= time - window)
        ]
        if repeats == "any":
            score = float(bool(weights))
        else:
            score = sum(weights) if repeats == "sum" else max(weights, default=0.0)
        if of_relation:
            share = sum(fact[2] == candidate for fact in of_relation) / len(of_relation)
            score += share_weight * share
        scores.append(score)
    return scores
