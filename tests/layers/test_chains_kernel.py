"""The Triton kernels behind chains of GRU cells against their twin in torch; on a GPU, or in Triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch
from torch.testing import assert_close

from tempograph.layers.chains import Cells, Chains, along_plainly, longer_than

pytest.importorskip("triton", reason="needs Triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not torch.cuda.is_available() and not INTERPRETED:
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)
DEVICE = "cpu" if INTERPRETED else "cuda"


@pytest.mark.parametrize(
    "lengths",
    [
        [[3, 3, 1, 1, 1]],
        [[5, 2, 2, 1], [2, 2, 1, 1]],
        [[1, 1], [4, 1]],
        [[2] * 40, [7, 6] + [1] * 38],
    ],
)
@pytest.mark.parametrize("dim", [3, 16, 200])
def test_states_and_slopes_equal_those_of_the_twin(lengths: list[list[int]], dim: int) -> None:
    from tempograph.layers.chains_kernel import along

    torch.manual_seed(0)
    many = torch.tensor(lengths, dtype=torch.int64, device=DEVICE)
    sides, count, alive = len(lengths), len(lengths[0]), longer_than(many)
    # Rows are few: links of several chains share an input.
    chains = Chains(torch.randint(0, 6, (len(alive), sides, count), device=DEVICE), many, alive)
    shapes = [(6, 3 * dim), (len(alive), sides, count), (sides, dim, 3 * dim), (sides, 1, 3 * dim)]
    weights = [0.3 * torch.randn(shape, dtype=torch.float64, device=DEVICE) for shape in shapes]
    for weight in weights:
        weight.requires_grad_()
    inputs, kept, *cells = weights
    expected, found = (run(chains, inputs, kept, Cells(*cells)) for run in (along_plainly, along))
    assert_close(found, expected)
    with torch.no_grad():
        assert_close(along(chains, inputs, kept, Cells(*cells)), expected)
    upstream = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, weights, upstream, retain_graph=True)
    assert_close(torch.autograd.grad(found, weights, upstream, retain_graph=True), wanted)
    assert_close(torch.autograd.grad(found, weights, upstream), wanted)


def test_no_chains() -> None:
    from tempograph.layers.chains_kernel import along

    none = torch.empty(0, 2, 0, dtype=torch.int64, device=DEVICE)
    inputs, weight = torch.randn(6, 9, device=DEVICE), torch.randn(2, 3, 9, device=DEVICE, requires_grad=True)
    found = along(Chains(none, none.view(2, 0), []), inputs, none.float(), Cells(weight, weight[:, :1]))
    assert found.shape == (2, 0, 3)
    found.sum().backward()
    assert not weight.grad.any()
