"""What `paths.Paths` gains as a Triton kernel each way; their twins in torch are the plain ones there."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tempograph.layers.voting_kernel import log1p

_BLOCK = 1024
"""Candidates that one program takes."""


def add_logs(scores: Tensor, gain: Tensor, sums: Tensor, met: Tensor) -> Tensor:
    """Shapes as in `paths.add_logs_plainly`."""
    _run(scores, gain.contiguous(), sums, met, None)
    return scores


def slopes_of_gain(slopes: Tensor, gain: Tensor, sums: Tensor, met: Tensor) -> Tensor:
    """Shapes as in `paths.slopes_of_gain_plainly`."""
    found = torch.zeros_like(gain)
    _run(slopes.contiguous(), gain.contiguous(), sums, met, found)
    return found


def _run(scores: Tensor, gain: Tensor, sums: Tensor, met: Tensor, slopes: Tensor | None) -> None:
    questions, entities = scores.shape
    if not questions:
        return
    _logs[questions, triton.cdiv(entities, _BLOCK)](
        scores,
        gain,
        sums,
        met,
        slopes if slopes is not None else gain,
        entities,
        BACKWARD=slopes is not None,
        BLOCK=_BLOCK,
    )


@triton.jit  # type: ignore[untyped-decorator]
def _logs(  # type: ignore[no-untyped-def]
    scores,
    gain,
    sums,
    met,
    gain_slope,
    entities,
    BACKWARD: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
) -> None:
    """One block of the candidates of one question; `scores` holds their slopes on the way back."""
    question = tl.program_id(0).to(tl.int64)
    entity = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = entity < entities
    at = question * entities + entity
    of_met = tl.load(gain + 4 * question)
    of_others = tl.load(gain + 4 * question + 1)
    scaled = tl.exp(tl.load(gain + 4 * question + 2)) * tl.load(sums + at, mask=there, other=0.0)
    logs = log1p(scaled)
    known = tl.load(met + at, mask=there, other=0) != 0
    here = tl.load(scores + at, mask=there, other=0.0)
    if BACKWARD:
        height = tl.where(known, of_met, of_others)
        tl.atomic_add(gain_slope + 4 * question, tl.sum(tl.where(known, here * logs, 0.0), 0))
        tl.atomic_add(gain_slope + 4 * question + 1, tl.sum(tl.where(known, 0.0, here * logs), 0))
        tl.atomic_add(gain_slope + 4 * question + 2, tl.sum(here * height * scaled / (1.0 + scaled), 0))
        tl.atomic_add(gain_slope + 4 * question + 3, tl.sum(tl.where(known, 0.0, here), 0))
    else:
        offset = tl.load(gain + 4 * question + 3)
        tl.store(scores + at, here + tl.where(known, of_met * logs, of_others * logs + offset), mask=there)
