"""A forecaster is trained on questions as they will be asked: from the facts before a fact."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from forecasters import build
from graphs import graphs
from oracle import Fact, directed, facts_of
from tempograph import TemporalGraph
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.base import Model
from tempograph.models.pointer.pointer_model import Pointer
from tempograph.models.temp.temp_model import TeMP
from tempograph.training.losses.pointer_loss import PointerLoss
from tempograph.training.losses.temp_loss import TeMPLoss
from tempograph.training.settings import PointerTrainSettings, SnapshotTrainSettings


def slow_loss(model: Model, graph: TemporalGraph, facts: list[Fact]) -> float:
    """The mean cross entropy of both queries of facts, without other answers of the same step."""
    every = directed(facts_of(graph.train), len(graph.relations))
    losses = []
    for entity, relation, answer, time in directed(facts, len(graph.relations)):
        before = graph.train[graph.train[:, 3] < time]
        if not len(before):
            # A graph has a fact; this one is not before anything.
            before = np.array([[0, 0, 0, len(graph.times) - 1]])
        past = model.with_timeline(Timeline(replace(graph, train=before), "forecast-single"))
        scores = past.scores(Queries(*torch.tensor([[entity], [relation], [time]])))[0].tolist()
        others = {o for s, r, o, t in every if (s, r, t) == (entity, relation, time)} - {answer}
        total = sum(math.exp(score) for e, score in enumerate(scores) if e not in others)
        losses.append(math.log(total) - scores[answer])
    return sum(losses) / len(losses)


@pytest.mark.parametrize("kind", ["pointer", "few votes", "names"])
@settings(max_examples=10)
@given(graph=graphs(25))
@torch.no_grad()
def test_the_pointer_learns_from_the_past(kind: str, graph: TemporalGraph) -> None:
    model = build(kind, graph)
    assert isinstance(model, Pointer)
    loss = PointerLoss(model, PointerTrainSettings(fact_dropout=0.0, name_dropout=0.0))
    batch = torch.arange(0, len(model.timeline.facts), 2)
    found = loss(batch, torch.Generator().manual_seed(0))
    expected = slow_loss(model, graph, facts_of(model.timeline.facts[batch].numpy()))
    assert float(found) == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("kind", ["gru", "attention", "structure alone"])
@settings(max_examples=10)
@given(graph=graphs(25))
@torch.no_grad()
def test_temp_learns_from_the_past(kind: str, graph: TemporalGraph) -> None:
    """The facts of a step are all targets: none of them is dropped or looked at."""
    model = build(kind, graph)
    assert isinstance(model, TeMP)
    model.settings = replace(
        model.settings, edge_dropout=0.5, context_dropout=0.0, feature_dropout=0.0
    )
    loss = TeMPLoss(model, SnapshotTrainSettings(targets="dropped", negatives="all"))
    times = model.timeline.facts[:, 3].unique()[:2]
    found = loss(times, torch.Generator().manual_seed(0))
    asked = [fact for fact in facts_of(graph.train) if fact[3] in times.tolist()]
    expected = slow_loss(model, graph, asked)
    assert float(found) == pytest.approx(expected, rel=1e-4, abs=1e-5)
