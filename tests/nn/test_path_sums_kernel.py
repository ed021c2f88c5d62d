"""The Triton kernel of sums over paths against its twin in PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Queries, Timeline, both_directions
from tempograph.models.pointer import recent_paths
from tempograph.models.pointer.recent_paths import RecentPaths
from tempograph.nn.path_sums import path_sums_torch

pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.usefixtures("triton_interpreter")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize(
    ("max_facts", "shared", "masked"),
    [(1, False, False), (5, True, False), (5, False, True), (16, True, True)],
)
def test_sums_and_gradients_equal_those_of_the_twin(
    max_facts: int, shared: bool, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tempograph.nn.kernels.path_sums_kernel import path_sums

    if shared:
        monkeypatch.setattr(recent_paths, "MAX_RELATIONS", 1)
    graph = make_world(entities=12, relations=4, steps=30, facts=300).graph
    timeline = Timeline(graph, "forecast-single", DEVICE)
    torch.manual_seed(0)
    source = RecentPaths(timeline, max_facts, 1.0).to(DEVICE)
    assert (source.by_relation is None) == shared
    for parameter in source.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    fact = torch.randperm(len(timeline.facts), device=DEVICE)[:8]
    directed = both_directions(timeline.facts[fact], timeline.num_relations)
    queries = Queries(directed[:, 0], directed[:, 1], directed[:, 3])
    # Each does without an earlier fact.
    asked = source.look_up(queries, (fact - 3).clamp(min=-1).repeat(2))
    fact_mask = torch.rand(len(timeline.facts), device=DEVICE) > 0.3 if masked else None
    inputs = source.facts, source.weights(), queries.relation, asked, fact_mask
    expected, actual = path_sums_torch(*inputs), path_sums(*inputs)
    assert expected.any()
    assert_close(actual, expected, rtol=1e-4, atol=1e-6)
    upstream = torch.randn_like(expected)
    weights = [each for name, each in source.named_parameters() if "gain" not in name]
    grads = torch.autograd.grad(expected, weights, upstream)
    assert_close(torch.autograd.grad(actual, weights, upstream), grads, rtol=1e-3, atol=1e-4)


def test_no_queries() -> None:
    from tempograph.nn.kernels.path_sums_kernel import path_sums

    graph = make_world(entities=5, relations=4, steps=4, facts=10).graph
    source = RecentPaths(Timeline(graph, "forecast-single", DEVICE), 4, 1.0).to(DEVICE)
    none = torch.zeros(0, dtype=torch.int64, device=DEVICE)
    queries = Queries(none, none, none)
    sums = path_sums(source.facts, source.weights(), none, source.look_up(queries), None)
    assert sums.shape == (0, 5)
