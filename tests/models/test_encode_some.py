"""TeMP that encodes only what a training step needs, against all entities at its times."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from graphs import graphs
from messages import raises
from tempograph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.errors import ConfigError
from tempograph.models.temp.temp_model import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.training.losses import temp_loss
from tempograph.training.losses.temp_loss import TeMPLoss
from tempograph.training.settings import SnapshotTrainSettings
from tempograph.typing import Protocol

SEEDS = st.integers(0, 2**32 - 1)
KINDS: dict[str, dict[str, Any]] = {
    "gru": {},
    "attention": {"temporal": "attention", "inactive": "embedding", "layers": 1},
    "snapshot": {"temporal": "none", "gate": False, "imputation": False, "layers": 3},
    "one way": {"bidirectional": False, "inverse_edges": False, "inactive": "residual"},
    "rgat": {"structure": "rgat", "gate": False},
    "none": {"structure": "none"},
}


def build(graph: TemporalGraph, protocol: Protocol, seed: int, **parts: Any) -> TeMP:
    torch.manual_seed(seed)
    chosen = {"dim": 4, "window": 2, "heads": 2, "feature_dropout": 0.0, **parts}
    return TeMP(Timeline(graph, protocol), TeMPSettings(**chosen)).double()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6)
@given(graph=graphs(), protocol=st.sampled_from(["strict", "paper", "forecast-single"]), seed=SEEDS)
def test_some_pairs_are_encoded_as_all_of_them(
    kind: str, graph: TemporalGraph, protocol: Protocol, seed: int
) -> None:
    model = build(graph, protocol, seed, **KINDS[kind])
    generator = torch.Generator().manual_seed(seed)
    entities, _, _, steps = graph.sizes
    times = torch.randperm(steps, generator=generator)[: 1 + seed % 3]
    index = torch.randint(len(times), (5,), generator=generator)
    entity = torch.randint(entities, (5,), generator=generator)
    pairs = torch.unique(index * entities + entity)
    index, entity = pairs // entities, pairs % entities
    dropout = TeMPLoss(model, SnapshotTrainSettings()).sample_dropout(generator)
    results = []
    for rows in (
        model.encode(times, dropout).take(index, entity),
        model.encode_some(times[index], entity, dropout),
    ):
        model.zero_grad()
        rows.square().sum().backward()
        grads = [
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for parameter in model.parameters()
        ]
        results.append((rows.detach(), grads))
    (expected, all_grads), (rows, grads) = results
    assert_close(rows, expected)
    for grad, other in zip(grads, all_grads, strict=True):
        assert_close(grad, other)


@pytest.mark.parametrize("targets", ["all", "dropped"])
@settings(max_examples=8)
@given(graph=graphs(), seed=SEEDS)
def test_the_loss_of_many_entities_is_that_of_few(
    targets: Any, graph: TemporalGraph, seed: int
) -> None:
    model = build(graph, "strict", seed)
    loss_function = TeMPLoss(model, SnapshotTrainSettings(negatives=3, targets=targets))
    times = torch.unique(torch.from_numpy(graph.train[:, 3]))[:3]

    def loss() -> float:
        return float(loss_function(times, torch.Generator().manual_seed(seed)).detach())

    expected = loss()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(temp_loss, "MANY_ENTITIES", 0)
        patch.setattr(model, "encode", None)
        assert loss() == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("sampling", ["uniform", "frequency"])
@settings(max_examples=8)
@given(graph=graphs(), seed=SEEDS)
def test_with_all_entities_as_corrected_negatives_the_loss_is_the_full_softmax(
    sampling: Any, graph: TemporalGraph, seed: int
) -> None:
    model = build(graph, "strict", seed)
    times = torch.unique(torch.from_numpy(graph.train[:, 3]))[:3]

    def loss(negatives: Any, sampling: Any) -> float:
        train = SnapshotTrainSettings(negatives=negatives, negative_sampling=sampling)
        return float(TeMPLoss(model, train)(times, torch.Generator().manual_seed(seed)).detach())

    full = loss("all", "uncorrected")
    assert loss(len(graph.entities), sampling) == pytest.approx(full, rel=1e-4, abs=1e-5)


def test_corrected_negatives_need_a_number_of_them() -> None:
    with raises(ConfigError, "settings.number_of_negatives", setting="negative_sampling uniform"):
        SnapshotTrainSettings(negative_sampling="uniform")
