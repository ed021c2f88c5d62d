"""Changing cells of a matrix in place, against plain operations on a copy."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.testing import assert_close

from tempograph.nn.inplace import add_at, put_at

MATRIX, NUMBERS = (
    torch.arange(12.0, dtype=torch.float64).view(3, 4),
    torch.tensor([0.5, -1.0, 2.0]).double(),
)
WEIGHTS = torch.linspace(1, 2, 12, dtype=torch.float64).view(3, 4)


def test_add_at_adds_repeated_cells() -> None:
    cell = torch.tensor([1, 6, 1])
    actual, grads = changed(lambda matrix, numbers: add_at(matrix, cell, numbers))
    expected = MATRIX.clone()
    expected[0, 1] += 2.5
    expected[1, 2] -= 1
    assert_close(actual, expected)
    assert_close(grads[0], WEIGHTS)
    assert_close(grads[1], WEIGHTS.flatten()[cell])


def test_put_at_leaves_no_gradient_of_previous_values() -> None:
    cell = torch.tensor([1, 6, 11])
    actual, grads = changed(lambda matrix, numbers: put_at(matrix, cell, numbers))
    expected, left = MATRIX.clone().flatten(), WEIGHTS.clone().flatten()
    expected[cell], left[cell] = NUMBERS, 0
    assert_close(actual, expected.view(3, 4))
    assert_close(grads[0], left.view(3, 4))
    assert_close(grads[1], WEIGHTS.flatten()[cell])


def changed(change) -> tuple[Tensor, tuple[Tensor, ...]]:  # type: ignore[no-untyped-def]
    """The changed matrix, and the gradients of its weighted sum to the matrix and the numbers."""
    before, numbers = MATRIX.clone().requires_grad_(), NUMBERS.clone().requires_grad_()
    inside = before * 1
    after = change(inside, numbers)
    assert after.data_ptr() == inside.data_ptr()
    return after.detach(), torch.autograd.grad((after * WEIGHTS).sum(), [before, numbers])
