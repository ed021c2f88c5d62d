"""The Triton kernels of messages against their twin in PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from tempograph.nn.structure import Edges, add_messages_torch

pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.usefixtures("triton_interpreter")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(
    ("nodes", "count", "dim"), [(1, 3, 1), (9, 40, 6), (30, 7, 128), (5, 0, 4), (12, 33, 300)]
)
def test_sums_and_gradients_equal_those_of_the_twin(nodes: int, count: int, dim: int) -> None:
    from tempograph.nn.kernels.messages_kernel import AddMessages

    torch.manual_seed(0)
    own, x, weight = inputs = [
        torch.randn(rows, dim, dtype=torch.float64, device=DEVICE, requires_grad=True)
        for rows in (nodes, nodes, 4)
    ]
    edges = Edges(*(torch.randint(0, high, (count,), device=DEVICE) for high in (nodes, 4, nodes)))
    weights = torch.rand(count, dtype=torch.float64, device=DEVICE)
    expected = add_messages_torch(own, x, weight, edges, weights)
    actual = AddMessages.apply(own, x, weight, weights, *edges)
    assert_close(actual, expected)
    upstream = torch.randn_like(expected)
    assert_close(
        torch.autograd.grad(actual, inputs, upstream),
        torch.autograd.grad(expected, inputs, upstream),
    )
