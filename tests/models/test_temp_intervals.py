"""TeMP on facts that hold for a while equals TeMP on one event for each step of theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import tempograph
from spanned import ENTITIES, RELATIONS, STEPS, interval_graph
from tempograph import TemporalGraph
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.temp.encoder import DropoutSample, Encoded
from tempograph.models.temp.temp_model import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.training.losses import temp_loss
from tempograph.training.losses.temp_loss import TeMPLoss
from tempograph.training.settings import SnapshotTrainSettings

SMALL = {"dim": 4, "heads": 2, "window": 2, "feature_dropout": 0.0, "initial_scale": 1.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "gru": {},
    "attention": {"temporal": "attention"},
    "structure alone": {"temporal": "none", "imputation": False},
}
EVERY = Queries(
    *torch.cartesian_prod(
        torch.arange(ENTITIES), torch.arange(2 * RELATIONS), torch.arange(STEPS)
    ).T
)


def disjoint_graph(seed: int) -> TemporalGraph:
    """Facts of which no two of one (subject, relation, object) hold at the same step."""
    graph = interval_graph(seed, facts=14)
    first = np.unique(graph.train[:, :3], axis=0, return_index=True)[1]
    return replace(graph, train=graph.train[first])


def one_event_per_step(graph: TemporalGraph) -> TemporalGraph:
    rows = [(s, r, o, t) for s, r, o, a, b, _ in graph.train.tolist() for t in range(a, b + 1)]
    nothing = np.empty((0, 4), np.int64)
    return replace(graph, train=np.array(rows), valid=nothing, test=nothing)


def build(graph: TemporalGraph, **settings: Any) -> TeMP:
    torch.manual_seed(0)
    model = TeMP(Timeline(graph), TeMPSettings(**{**SMALL, "gate": False, **settings}))
    return model.double().eval()


@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_equal_those_of_one_event_for_each_step(variant: str) -> None:
    for seed in range(3):
        graph = disjoint_graph(seed)
        with torch.no_grad():
            expected = build(one_event_per_step(graph), **VARIANTS[variant]).scores(EVERY)
            model = build(graph, **VARIANTS[variant])
            assert_close(model.scores(EVERY), expected)
            cached = model.with_timeline(model.timeline, 2**20)
            # The model for prediction computes in single precision.
            assert_close(cached.scores(EVERY), expected.float(), rtol=1e-4, atol=1e-4)


def test_scores_without_a_fact_are_those_of_data_without_it() -> None:
    graph = disjoint_graph(4)
    model = build(graph, gate=True)
    every, query = torch.arange(ENTITIES), Queries(*torch.tensor([[1], [0], [5]]))
    with torch.no_grad():
        cached = model.with_timeline(model.timeline, 2**20)
        removed = torch.arange(len(model.timeline.facts))
        scores = cached.counterfactual_scores(query, removed, every)
        assert scores is not None
        rows = model.timeline.rows.numpy()
        for number in range(len(rows)):
            less = replace(graph, train=np.delete(rows, number, axis=0))
            expected = model.with_timeline(Timeline(less), 2**20).scores(query)[0]
            assert_close(scores[1 + number].float(), expected.float(), rtol=1e-4, atol=1e-4)
        assert len({tuple(row) for row in scores[1:].tolist()}) > 2


def test_a_training_step_sees_its_facts_at_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(disjoint_graph(5), gate=True)
    loss = TeMPLoss(model, SnapshotTrainSettings(times_per_step=3))
    generator, seen = torch.Generator().manual_seed(0), []
    encode = model.encode

    def spy(times: torch.Tensor, sample: DropoutSample | None = None) -> Encoded:
        assert sample is not None
        asked = loss.facts_asked_at(times)[1]
        seen.append(len(asked))
        assert not sample.keep[asked].any() and not sample.context_keep[asked].any()
        return encode(times, sample)

    monkeypatch.setattr(model, "encode", spy)
    for times in loss.batches(generator):
        value = loss(times, generator)
        assert torch.isfinite(value)
    assert sum(seen) == len(model.timeline.facts)


def test_a_training_step_encodes_all_of_many_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(disjoint_graph(5), gate=True)
    loss, times = TeMPLoss(model, SnapshotTrainSettings(negatives=3)), torch.arange(0, STEPS, 3)
    expected = loss(times, torch.Generator().manual_seed(0))
    monkeypatch.setattr(temp_loss, "MANY_ENTITIES", 0)
    monkeypatch.setattr(model, "encode_some", None)
    assert loss(times, torch.Generator().manual_seed(0)).item() == expected.item() > 0


@pytest.mark.parametrize("model", ["temp-gru", "srgcn"])
def test_training_runs_to_its_end(model: str) -> None:
    graph = interval_graph(6, facts=60, held_out=6)
    run = tempograph.train(
        graph, model, overrides=["model.dim=8", "train.epochs=2"], device="cpu", progress=False
    )
    assert run.results.finished and len(run.history) >= 2
