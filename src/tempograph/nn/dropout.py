"""Dropout from a generator of our own, so that a resumed run draws the same masks."""

from __future__ import annotations

import torch
from torch import Tensor


def dropout(x: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Dropout that draws from our own generator, so that a resumed run repeats exactly."""
    kept = torch.rand(x.shape, device=x.device, generator=generator) >= rate
    return x * (kept / (1 - rate))
