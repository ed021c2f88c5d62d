"""Introspection of TeMP, against its layers called for one entity or one query at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import oracle
from graphs import make_graph
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Timeline
from tempograph.models.temp.temp_model import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.nn.temporal import TemporalAttention
from tempograph.report.introspection import (
    attention_by_distance,
    decay_curves,
    gate_curves,
    gate_weights,
)

GRAPH = make_world(entities=12, relations=4, steps=10, facts=120).graph
TRAIN = oracle.facts_of(GRAPH.train)


def make_model(**settings: object) -> TeMP:
    torch.manual_seed(0)
    model = TeMP(Timeline(GRAPH), TeMPSettings(dim=8, window=3, heads=2, **settings))  # type: ignore[arg-type]
    return model.eval()


def test_decay_curves_equal_hand_computed_values() -> None:
    model = make_model(temporal="gru", imputation=True)
    assert model.temporal is not None and model.imputation is not None
    with torch.no_grad():
        model.temporal.decay.rate.fill_(0.5)
        model.imputation.decay.shift.fill_(-0.2)
    curves = decay_curves(model)
    assert_allclose(curves["memory"], [math.exp(-0.5 * gap) for gap in range(4)], rtol=1e-6)
    assert_allclose(curves["imputation"], [1, 1, 1, math.exp(-0.1)], rtol=1e-6)
    assert decay_curves(make_model(temporal="none", imputation=False, gate=False)) == {}


@pytest.mark.parametrize("bidirectional", [False, True])
def test_gate_weights_equal_those_of_single_queries(bidirectional: bool) -> None:
    model = make_model(gate=True, bidirectional=bidirectional)
    weights = gate_weights(model, GRAPH.test)
    assert weights is not None and model.gate is not None
    future = 3 if bidirectional else 0
    for i, fact in enumerate(oracle.facts_of(np.tile(GRAPH.test, (2, 1)))):
        s, o, r, sr, ro, _, _ = oracle.frequencies(TRAIN, fact, 3, future)
        asks_subject = i >= len(GRAPH.test)
        assert weights.frequencies[i].tolist() == ([o, r, ro] if asks_subject else [s, r, sr])
        assert weights.asks_subject[i] == asks_subject
        alphas = model.gate(
            torch.from_numpy(weights.frequencies[i : i + 1]), torch.tensor([int(asks_subject)])
        )
        assert_allclose(
            [weights.given[i], weights.candidates[i]], [alpha.item() for alpha in alphas], rtol=1e-5
        )
    assert gate_weights(make_model(gate=False), GRAPH.test) is None


def test_gate_curves_hold_80_percent_of_the_weights() -> None:
    model = make_model(gate=True)
    weights = gate_weights(model, GRAPH.train)
    assert weights is not None
    curves = gate_curves(model, GRAPH.train)
    assert list(curves) == [
        f"{a} query: {b}" for a in ("object", "subject") for b in ("given", "candidates")
    ]
    for name, curve in curves.items():
        assert curve.questions.sum() == len(GRAPH.train)
        there = weights.asks_subject == name.startswith("subject")
        alpha = (weights.given if name.endswith("given") else weights.candidates)[there]
        assert_allclose(curve.questions @ curve.mean / len(GRAPH.train), alpha.mean())
        alone = alpha[weights.frequencies[there, 2] == 0]
        assert_allclose(
            [curve.mean[0], curve.low[0], curve.high[0]],
            [alone.mean(), *np.quantile(alone, [0.1, 0.9])],
        )
    assert gate_curves(make_model(gate=False), GRAPH.train) == {}


@pytest.mark.parametrize("bidirectional", [False, True])
def test_attention_by_distance_equals_a_loop(bidirectional: bool) -> None:
    model = make_model(temporal="attention", gate=False, bidirectional=bidirectional)
    result = attention_by_distance(model)
    attention = model.temporal
    assert result is not None and isinstance(attention, TemporalAttention)
    future = 3 if bidirectional else 0
    assert result.distance.tolist() == list(range(-3, future + 1))
    sums, counts = np.zeros((2, len(result.distance))), np.zeros(len(result.distance))

    alike = TeMPSettings(dim=8, window=3, heads=2, temporal="none", imputation=False, gate=False)
    static = TeMP(model.timeline, alike)
    static.load_state_dict({name: model.state_dict()[name] for name in static.state_dict()})

    def x_at(entity: int, time: int) -> torch.Tensor:
        return static.encode(torch.tensor([time])).tables(1)[0, entity]

    def x_now(entity: int, time: int, around: list[int]) -> torch.Tensor:
        x = x_at(entity, time)
        if oracle.active(TRAIN, entity, time):
            return x
        assert model.imputation is not None
        sides = [
            [step for step in around if step < time][-1:],
            [step for step in around if step > time][:1],
        ]
        parts = [
            (model.imputation.decay(torch.tensor(abs(step - time))) / (2 if future else 1), step)
            for side in sides
            for step in side
        ]
        return (1 - sum(share for share, _ in parts)) * x + sum(
            share * x_at(entity, step) for share, step in parts
        )

    with torch.no_grad():
        for time in range(10):
            for entity in range(12):
                around = [
                    step
                    for step in oracle.active_steps(TRAIN, entity, time - 3, time + future)
                    if step != time
                ]
                if not around and not oracle.active(TRAIN, entity, time):
                    continue
                here, steps = x_now(entity, time, around), [*around, time]
                rows = [*(x_at(entity, step) for step in around), here]
                keys = attention.key(torch.stack(rows)).view(-1, 2, 4)
                logits = (keys * attention.query(here).view(2, 4)).sum(-1) / 2
                logits -= attention.decay.exponent(
                    torch.tensor([abs(step - time) for step in steps])
                )[:, None]
                for step, share in zip(steps, torch.softmax(logits, 0), strict=True):
                    sums[:, step - time + 3] += share.numpy()
                    counts[step - time + 3] += 1
    assert result.pairs.tolist() == counts.tolist()
    assert_allclose(result.shares, sums / counts, rtol=1e-4)
    assert attention_by_distance(make_model(temporal="gru")) is None


def test_shares_without_active_steps_are_nan() -> None:
    torch.manual_seed(0)
    graph = make_graph([(0, 0, 1, 0)], steps=3)
    settings = TeMPSettings(dim=4, window=2, heads=1, temporal="attention", gate=False)
    result = attention_by_distance(TeMP(Timeline(graph), settings))
    assert result is not None and result.pairs.tolist() == [2, 2, 6, 0, 0]
    assert np.isnan(result.shares[0, 3:]).all() and not np.isnan(result.shares[0, :3]).any()
