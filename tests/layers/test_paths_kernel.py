"""The Triton kernels behind paths against their twins in torch; on a GPU, or in Triton's interpreter on a CPU."""

from __future__ import annotations

import os

import pytest
import torch
from torch.testing import assert_close

from tempograph.layers.paths import add_logs_plainly, slopes_of_gain_plainly

pytest.importorskip("triton", reason="needs Triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not torch.cuda.is_available() and not INTERPRETED:
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)
DEVICE = "cpu" if INTERPRETED else "cuda"


@pytest.mark.parametrize("entities", [1, 30, 1500])
def test_gains_and_slopes_equal_those_of_the_twins(entities: int) -> None:
    from tempograph.layers.paths_kernel import add_logs, slopes_of_gain

    torch.manual_seed(0)
    scores, gain = torch.randn(5, entities, device=DEVICE), torch.randn(5, 4, device=DEVICE)
    sums = torch.rand(5, entities, device=DEVICE) * torch.randint(0, 2, (5, entities), device=DEVICE)
    met = torch.rand(5, entities, device=DEVICE) < 0.4
    asked = gain, sums, met
    assert_close(add_logs(scores.clone(), *asked), add_logs_plainly(scores.clone(), *asked), rtol=1e-5, atol=1e-6)
    assert_close(slopes_of_gain(scores, *asked), slopes_of_gain_plainly(scores, *asked), rtol=1e-4, atol=1e-4)


def test_no_question_is_nothing() -> None:
    from tempograph.layers.paths_kernel import add_logs

    nothing = torch.zeros(0, 3, device=DEVICE)
    assert add_logs(nothing, torch.zeros(0, 4, device=DEVICE), nothing, nothing.bool()).shape == (0, 3)
