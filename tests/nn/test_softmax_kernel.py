"""The Triton kernels of the softmax loss against PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.usefixtures("triton_interpreter")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("columns", [1, 7, 2048, 5000])
def test_logsumexp_and_softmax_equal_those_of_torch(columns: int) -> None:
    from tempograph.nn.kernels.softmax_kernel import row_logsumexp, scaled_softmax_

    torch.manual_seed(0)
    scores = 30 * torch.randn(6, columns, device=DEVICE)
    # Filtered answers, also a whole block of them, and scores that would overflow.
    scores[torch.rand_like(scores) < 0.3] = -torch.inf
    scores[0, : columns - 1] = -torch.inf
    scores[1:, -1] = torch.tensor([1e4, -1e4, 0.0, 3.0, 88.0], device=DEVICE)
    scores[0, -1] = 2.0
    total = torch.logsumexp(scores, 1)
    assert_close(row_logsumexp(scores), total)
    total[4] = torch.inf
    scale = torch.linspace(-1, 2, 6, device=DEVICE)
    expected = torch.exp(scores - total[:, None]) * scale[:, None]
    scaled_softmax_(scores, total, scale)
    assert_close(scores, expected)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty_scores(shape: tuple[int, int]) -> None:
    from tempograph.nn.kernels.softmax_kernel import row_logsumexp, scaled_softmax_

    scores = torch.zeros(shape, device=DEVICE)
    assert_close(row_logsumexp(scores), torch.logsumexp(scores, 1))
    scaled_softmax_(
        scores, torch.zeros(shape[0], device=DEVICE), torch.ones(shape[0], device=DEVICE)
    )
