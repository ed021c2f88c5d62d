"""The Triton kernel behind copying against its twin in torch; on a GPU, or in Triton's interpreter on a CPU."""

from __future__ import annotations

import os

import pytest
import torch
from torch.testing import assert_close

from tempograph.data.fact_index import FactIndex, Key
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Queries, Timeline, both_directions
from tempograph.models.pointer.copying import Copying
from tempograph.nn.votes import add_contributions_torch

pytest.importorskip("triton", reason="needs Triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not torch.cuda.is_available() and not INTERPRETED:
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)
DEVICE = "cpu" if INTERPRETED else "cuda"


@pytest.mark.parametrize("key", ["entity", "relation", "both", "time", "any"])
@pytest.mark.parametrize("dropped", [False, True])
def test_gains_and_slopes_equal_those_of_the_twin(key: Key, dropped: bool) -> None:
    from tempograph.nn.kernels.votes_kernel import add_contributions

    timeline = Timeline(
        make_world(entities=30, relations=5, steps=40, facts=900).graph, "strict", DEVICE
    )
    torch.manual_seed(0)
    source = Copying(FactIndex(timeline, key), 150, 1.0, prior=key == "relation").to(DEVICE)
    for parameter in source.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    fact = torch.randperm(len(timeline.facts), device=DEVICE)[:20]
    directed = both_directions(timeline.facts[fact], timeline.num_relations)
    queries = Queries(directed[:, 0], directed[:, 1], directed[:, 3])
    kept = torch.rand(len(timeline.facts), device=DEVICE) > 0.3 if dropped else None
    scores = torch.randn(len(directed), timeline.num_entities, device=DEVICE, requires_grad=True)
    asked = (
        source.bins,
        source.ballot(queries, fact.repeat(2)),
        source.weights(queries.relation),
        kept,
    )
    expected, found = (
        add_contributions_torch(scores.clone(), *asked),
        add_contributions(scores.clone(), *asked),
    )
    assert_close(found, expected, rtol=1e-4, atol=1e-6)
    upstream = torch.randn_like(expected)
    weights = [scores, *source.parameters()]
    wanted = torch.autograd.grad(expected, weights, upstream, retain_graph=True)
    assert_close(torch.autograd.grad(found, weights, upstream), wanted, rtol=1e-3, atol=1e-4)
