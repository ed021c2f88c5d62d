"""The Triton kernels of the GRU against their twin in PyTorch."""

from __future__ import annotations

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
pytestmark = pytest.mark.usefixtures("triton_interpreter")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(
    "lengths",
    [
        [[3, 3, 1, 1, 1]],
        [[5, 2, 2, 1], [2, 2, 1, 1]],
        [[1, 0], [4, 1]],
        [[0, 0, 0], [3, 1, 1]],
        [[2] * 40, [4, 3] + [1] * 38],
    ],
)
@pytest.mark.parametrize("dim", [3, 16, 200] if DEVICE == "cuda" else [3, 16])
def test_states_and_gradients_equal_those_of_the_twin(lengths: list[list[int]], dim: int) -> None:
    from tempograph.nn.kernels.gru_kernel import run_gru

    torch.manual_seed(0)
    length = torch.tensor(lengths, dtype=torch.int64, device=DEVICE)
    directions, count, sizes = len(lengths), len(lengths[0]), batch_sizes(length)
    # Few rows, so that steps of several sequences share an input.
    row = torch.randint(0, 6, (len(sizes), directions, count), device=DEVICE)
    sequences = PackedSequences(row, length, sizes)
    inputs, decay, *weights = tensors = random_tensors(
        (6, 3 * dim), row.shape, (directions, dim, 3 * dim), (directions, 1, 3 * dim)
    )
    expected, actual = (
        run(sequences, inputs, decay, GRUWeights(*weights)) for run in (run_gru_torch, run_gru)
    )
    with torch.no_grad():
        assert_close(run_gru(sequences, inputs, decay, GRUWeights(*weights)), expected)
    assert_equal_with_gradients(actual, expected, tensors)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize(("count", "dim"), [(1, 3), (40, 16), (7, 200)])
def test_a_cell_and_its_gradients_equal_those_of_the_twin(
    directions: int, count: int, dim: int
) -> None:
    from tempograph.nn.kernels.gru_kernel import gru_cell

    torch.manual_seed(0)
    x, state, *weights = tensors = random_tensors(
        (directions, count, 3 * dim),
        (directions, count, dim),
        (directions, dim, 3 * dim),
        (directions, 1, 3 * dim),
    )
    expected, actual = (run(x, state, GRUWeights(*weights)) for run in (gru_cell_torch, gru_cell))
    with torch.no_grad():
        assert_close(gru_cell(x, state, GRUWeights(*weights)), expected)
    assert_equal_with_gradients(actual, expected, tensors)


def random_tensors(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [
        (0.3 * torch.randn(shape, dtype=torch.float64, device=DEVICE)).requires_grad_()
        for shape in shapes
    ]


def assert_equal_with_gradients(actual: Tensor, expected: Tensor, inputs: list[Tensor]) -> None:
    """Equal, with equal gradients, also when backward runs twice."""
    assert_close(actual, expected)
    upstream = torch.randn_like(expected)
    grads = torch.autograd.grad(expected, inputs, upstream)
    assert_close(torch.autograd.grad(actual, inputs, upstream, retain_graph=True), grads)
    assert_close(torch.autograd.grad(actual, inputs, upstream), grads)


def test_no_sequences() -> None:
    from tempograph.nn.kernels.gru_kernel import run_gru

    row = torch.empty(0, 2, 0, dtype=torch.int64, device=DEVICE)
    inputs = torch.randn(6, 9, device=DEVICE)
    weight = torch.randn(2, 3, 9, device=DEVICE, requires_grad=True)
    sequences = PackedSequences(row, row.view(2, 0), [])
    out = run_gru(sequences, inputs, row.float(), GRUWeights(weight, weight[:, :1]))
    assert out.shape == (2, 0, 3)
    out.sum().backward()
    assert not weight.grad.any()
