"""The Triton kernel behind copying against its twin in torch; on a GPU, or in Triton's interpreter on a CPU."""

from __future__ import annotations

import os

import pytest
import torch
from torch.testing import assert_close

from tempograph.data.world import make_world
from tempograph.layers.copying import Copying, Key, View
from tempograph.layers.voting import summed
from tempograph.timeline import Queries, Timeline, both_directions

pytest.importorskip("triton", reason="needs Triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not torch.cuda.is_available() and not INTERPRETED:
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)
DEVICE = "cpu" if INTERPRETED else "cuda"


@pytest.mark.parametrize("key", ["entity", "relation", "both", "time"])
@pytest.mark.parametrize("dropped", [False, True])
def test_sums_and_slopes_equal_those_of_the_twin(key: Key, dropped: bool) -> None:
    from tempograph.layers.voting_kernel import VoteSums

    timeline = Timeline(make_world(entities=30, relations=5, steps=40, facts=900).graph, "strict", DEVICE)
    torch.manual_seed(0)
    source = Copying(View(timeline, key), timeline.num_relations, 150, 1.0).to(DEVICE)
    for parameter in source.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    fact = torch.randperm(len(timeline.facts), device=DEVICE)[:20]
    directed = both_directions(timeline.facts[fact], timeline.num_relations)
    queries = Queries(directed[:, 0], directed[:, 1], directed[:, 3])
    kept = torch.rand(len(timeline.facts), device=DEVICE) > 0.3 if dropped else None
    ballot, tables = source.ballot(queries, fact.repeat(2), kept), source.tables(queries.relation)
    expected, found = summed(ballot, *tables), VoteSums.apply(ballot, *tables)
    assert_close(found, expected, rtol=1e-4, atol=1e-6)
    upstream = torch.randn_like(expected)
    weights = [source.pair, source.by_time, source.by_count, source.shared_time]
    wanted = torch.autograd.grad(expected, weights, upstream, retain_graph=True)
    assert_close(torch.autograd.grad(found, weights, upstream), wanted, rtol=1e-3, atol=1e-4)
