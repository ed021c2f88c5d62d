"""The Triton kernels behind messages against their twin in torch; on a GPU, or in Triton's interpreter on a CPU."""

from __future__ import annotations

import os

import pytest
import torch
from torch.testing import assert_close

from tempograph.nn.structure import Edges, add_messages_torch

pytest.importorskip("triton", reason="needs Triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not torch.cuda.is_available() and not INTERPRETED:
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)
DEVICE = "cpu" if INTERPRETED else "cuda"


@pytest.mark.parametrize(
    ("nodes", "count", "dim"), [(1, 3, 1), (9, 40, 6), (30, 7, 128), (5, 0, 4), (12, 33, 300)]
)
def test_sums_and_slopes_equal_those_of_the_twin(nodes: int, count: int, dim: int) -> None:
    from tempograph.nn.kernels.messages_kernel import AddMessages

    torch.manual_seed(0)
    own, x, weight = given = [
        torch.randn(rows, dim, dtype=torch.float64, device=DEVICE, requires_grad=True)
        for rows in (nodes, nodes, 4)
    ]
    edges = Edges(*(torch.randint(0, most, (count,), device=DEVICE) for most in (nodes, 4, nodes)))
    shares = torch.rand(count, dtype=torch.float64, device=DEVICE)
    expected = add_messages_torch(own, x, weight, edges, shares)
    found = AddMessages.apply(own, x, weight, shares, *edges)
    assert_close(found, expected)
    upstream = torch.randn_like(expected)
    assert_close(
        torch.autograd.grad(found, given, upstream), torch.autograd.grad(expected, given, upstream)
    )
