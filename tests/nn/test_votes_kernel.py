"""The Triton kernels of voting facts against their twin in PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from tempograph.data.fact_index import FactIndex, Key
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Queries, Timeline, both_directions
from tempograph.models.pointer.copying import Copying
from tempograph.nn.votes import add_contributions_torch
from tempograph.typing import Protocol

pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.usefixtures("triton_interpreter")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# The interpreter is slow: fewer facts and queries, but still more than one block of facts.
FACTS, QUERIES = (900, 20) if DEVICE == "cuda" else (450, 4)


@pytest.mark.parametrize("key", ["entity", "relation", "both", "time", "any"])
@pytest.mark.parametrize(
    ("masked", "protocol", "count_all"),
    [
        (False, "strict", True),
        (True, "strict", True),
        (True, "strict", False),
        (True, "forecast-single", True),
    ],
)
def test_contributions_and_gradients_equal_those_of_the_twin(
    key: Key, masked: bool, protocol: Protocol, count_all: bool
) -> None:
    from tempograph.nn.kernels.votes_kernel import add_contributions

    timeline = Timeline(
        make_world(entities=30, relations=5, steps=40, facts=FACTS).graph, protocol, DEVICE
    )
    torch.manual_seed(0)
    index, prior = FactIndex(timeline, key), key == "relation"
    # Few votes, so that counts differ.
    most = 150 if count_all else 20
    source = Copying(index, most, 1.0, prior=prior, count_all=count_all).to(DEVICE)
    for parameter in source.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    fact = torch.randperm(len(timeline.facts), device=DEVICE)[:QUERIES]
    directed = both_directions(timeline.facts[fact], timeline.num_relations)
    queries = Queries(directed[:, 0], directed[:, 1], directed[:, 3])
    fact_mask = torch.rand(len(timeline.facts), device=DEVICE) > 0.3 if masked else None
    scores = torch.randn(len(directed), timeline.num_entities, device=DEVICE, requires_grad=True)
    inputs = (
        source.bins,
        # A forecaster never sees the fact itself, but may have to do without an earlier one.
        source.look_up(queries, (fact - 9 * timeline.past_only).clamp(min=0).repeat(2)),
        source.weights(queries.relation),
        fact_mask,
    )
    expected = add_contributions_torch(scores.clone(), *inputs)
    actual = add_contributions(scores.clone(), *inputs)
    assert_close(actual, expected, rtol=1e-4, atol=1e-6)
    upstream = torch.randn_like(expected)
    weights = [scores, *source.parameters()]
    grads = torch.autograd.grad(expected, weights, upstream, retain_graph=True)
    assert_close(torch.autograd.grad(actual, weights, upstream), grads, rtol=1e-3, atol=1e-4)
