"""The Triton kernels behind the softmax loss against torch; on a GPU, or in Triton's interpreter on a CPU."""

from __future__ import annotations

import os

import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("triton", reason="needs Triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not torch.cuda.is_available() and not INTERPRETED:
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)
DEVICE = "cpu" if INTERPRETED else "cuda"


@pytest.mark.parametrize("columns", [1, 7, 2048, 5000])
def test_totals_and_shares_equal_those_of_torch(columns: int) -> None:
    from tempograph.nn.kernels.softmax_kernel import totals, turn_into_shares

    torch.manual_seed(0)
    scores = 30 * torch.randn(6, columns, device=DEVICE)
    # Answers that are left out, also a block of them before anything counts, and numbers that would overflow.
    scores[torch.rand_like(scores) < 0.3] = -torch.inf
    scores[0, : columns - 1] = -torch.inf
    scores[1:, -1] = torch.tensor([1e4, -1e4, 0.0, 3.0, 88.0], device=DEVICE)
    scores[0, -1] = 2.0
    total = torch.logsumexp(scores, 1)
    assert_close(totals(scores), total)
    total[4] = torch.inf
    wanted = torch.exp(scores - total[:, None]) * 0.25
    turn_into_shares(scores, total, torch.tensor(0.25, device=DEVICE))
    assert_close(scores, wanted)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_nothing_is_nothing(shape: tuple[int, int]) -> None:
    from tempograph.nn.kernels.softmax_kernel import totals, turn_into_shares

    scores = torch.zeros(shape, device=DEVICE)
    assert_close(totals(scores), torch.logsumexp(scores, 1))
    turn_into_shares(scores, torch.zeros(shape[0], device=DEVICE), torch.ones((), device=DEVICE))
