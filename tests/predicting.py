"""A small world, settings that train on it in seconds, and slow twins of the Predictor."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

import tempograph
from tempograph import Predictor, Run, TemporalGraph
from tempograph.data.graph import sort_by_time
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Queries
from tempograph.typing import SPLITS

GRAPH = make_world(entities=12, relations=4, steps=20, facts=300).graph


def split_by_time(graph: TemporalGraph, valid_steps: int, test_steps: int) -> TemporalGraph:
    """The same facts, with the last steps held out, as forecasts need it."""
    facts, steps = sort_by_time(graph.all_facts), len(graph.times)
    bounds = np.searchsorted(facts[:, 3], [steps - valid_steps - test_steps, steps - test_steps])
    train, valid, test = np.split(facts, bounds)
    return replace(graph, train=train, valid=valid, test=test)


FORECAST_GRAPH = split_by_time(
    make_world(entities=20, relations=5, steps=50, facts=2_500).graph, 8, 8
)


SETTINGS = {
    "ted": ["model.sigma=0.5"],
    "pointer": ["train.epochs=3"],
    "temp-gru": ["model.dim=8", "model.window=3", "train.epochs=5"],
    "complex": ["model.dim=8", "train.epochs=5"],
}


FORECASTERS = {
    "recurrency": [],
    "pointer": ["train.epochs=2"],
    "complex": ["model.dim=8", "train.epochs=3"],
}


def train_forecaster(model: str, **options: object) -> Run:
    return tempograph.train(  # type: ignore[call-overload, no-any-return]
        FORECAST_GRAPH,
        model,
        task="forecast",
        device="cpu",
        overrides=FORECASTERS.get(model, []),
        **options,
    )


def entity_scores(model: object, entity: int, relation: int, time: int) -> list[float]:
    with torch.inference_mode():
        query = Queries(*(torch.tensor([value]) for value in (entity, relation, time)))
        return model.scores(query)[0].double().tolist()  # type: ignore[attr-defined, no-any-return]


def slow_side(
    predictor: Predictor, fact: tuple[int, ...], side: str, scores: list[float] | None = None
) -> tuple[float, float, float]:
    """Score, probability and rank of one side, by loops over candidates and facts.

    Tests that look at many answers to one query compute its `scores` once.
    """
    subject, relation, object_, time = fact
    inverse = relation + len(predictor.graph.relations)
    given, query_relation, right = (
        (subject, relation, object_) if side == "object" else (object_, inverse, subject)
    )
    if scores is None:
        scores = entity_scores(predictor.model, given, query_relation, time)
    known = set()
    for s, r, o, t in np.concatenate([predictor.graph.facts(split) for split in SPLITS]).tolist():
        if (r, t) == (relation, time) and (s if side == "object" else o) == given:
            known.add(o if side == "object" else s)
    rivals = [
        score
        for candidate, score in enumerate(scores)
        if candidate not in known and candidate != right
    ]
    own = scores[right]
    rank = 1 + sum(score > own for score in rivals) + sum(score == own for score in rivals) / 2
    return own, slow_share(predictor, own, rivals), rank


def slow_share(predictor: Predictor, own: float, rivals: list[float]) -> float:
    """The probability of a candidate among others, given the scores of all of them."""
    temperature, uniform = predictor.run.questions.calibrator()
    best = max([own, *rivals])
    if best == -math.inf:
        return 1 / (1 + len(rivals))
    weights = [math.exp((score - best) / temperature) for score in (own, *rivals)]
    return (1 - uniform) * weights[0] / sum(weights) + uniform / len(weights)


def sample_scores(predictor: Predictor) -> list[list[float]]:
    return [
        entity_scores(predictor.model, entity, relation, time)
        for entity in (0, 3, 7)
        for relation in (0, 5)
        for time in (0, 9, 19)
    ]
