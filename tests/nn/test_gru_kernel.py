"""The Triton kernels behind chains of GRU cells against their twin in torch; on a GPU, or in Triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tempograph.nn.packed_gru import (
    GRUWeights,
    PackedSequences,
    batch_sizes,
    gru_cell_torch,
    run_gru_torch,
)

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
        [[1, 0], [4, 1]],
        [[0, 0, 0], [3, 1, 1]],
        [[2] * 40, [7, 6] + [1] * 38],
    ],
)
@pytest.mark.parametrize("dim", [3, 16, 200])
def test_states_and_slopes_equal_those_of_the_twin(lengths: list[list[int]], dim: int) -> None:
    from tempograph.nn.kernels.gru_kernel import along

    torch.manual_seed(0)
    many = torch.tensor(lengths, dtype=torch.int64, device=DEVICE)
    sides, count, alive = len(lengths), len(lengths[0]), batch_sizes(many)
    # Rows are few: links of several chains share an input.
    chains = PackedSequences(
        torch.randint(0, 6, (len(alive), sides, count), device=DEVICE), many, alive
    )
    shapes = [(6, 3 * dim), (len(alive), sides, count), (sides, dim, 3 * dim), (sides, 1, 3 * dim)]
    inputs, kept, *cells = weights = random_weights(shapes)
    expected, found = (
        run(chains, inputs, kept, GRUWeights(*cells)) for run in (run_gru_torch, along)
    )
    with torch.no_grad():
        assert_close(along(chains, inputs, kept, GRUWeights(*cells)), expected)
    assert_alike(found, expected, weights)


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize(("count", "dim"), [(1, 3), (40, 16), (7, 200)])
def test_a_cell_and_its_slopes_equal_those_of_the_twin(sides: int, count: int, dim: int) -> None:
    from tempograph.nn.kernels.gru_kernel import cell

    torch.manual_seed(0)
    shapes = [
        (sides, count, 3 * dim),
        (sides, count, dim),
        (sides, dim, 3 * dim),
        (sides, 1, 3 * dim),
    ]
    x, state, *cells = weights = random_weights(shapes)
    expected, found = (run(x, state, GRUWeights(*cells)) for run in (gru_cell_torch, cell))
    with torch.no_grad():
        assert_close(cell(x, state, GRUWeights(*cells)), expected)
    assert_alike(found, expected, weights)


def random_weights(shapes: list[tuple[int, ...]]) -> list[Tensor]:
    return [
        (0.3 * torch.randn(shape, dtype=torch.float64, device=DEVICE)).requires_grad_()
        for shape in shapes
    ]


def assert_alike(found: Tensor, expected: Tensor, weights: list[Tensor]) -> None:
    """Equal, with equal slopes, also when these are asked for twice."""
    assert_close(found, expected)
    upstream = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, weights, upstream)
    assert_close(torch.autograd.grad(found, weights, upstream, retain_graph=True), wanted)
    assert_close(torch.autograd.grad(found, weights, upstream), wanted)


def test_no_chains() -> None:
    from tempograph.nn.kernels.gru_kernel import along

    none = torch.empty(0, 2, 0, dtype=torch.int64, device=DEVICE)
    inputs, weight = (
        torch.randn(6, 9, device=DEVICE),
        torch.randn(2, 3, 9, device=DEVICE, requires_grad=True),
    )
    found = along(
        PackedSequences(none, none.view(2, 0), []),
        inputs,
        none.float(),
        GRUWeights(weight, weight[:, :1]),
    )
    assert found.shape == (2, 0, 3)
    found.sum().backward()
    assert not weight.grad.any()
