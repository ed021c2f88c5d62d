"""What `paths.Paths` gains as a Triton kernel each way; their twins in torch are the plain ones there."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tempograph.data.common_neighbors import ROUNDING, NeighborQueries, NeighborTables
from tempograph.nn.kernels.votes_kernel import log1p

_BLOCK = 1024
"""Candidates that one program takes."""


def add_path_scores(
    scores: Tensor, gain: Tensor, tables: NeighborTables, asked: NeighborQueries
) -> Tensor:
    """`paths.add_path_scores_torch` of what `CommonNeighbors.path_scores` finds in tables."""
    _run(scores, gain.contiguous(), tables, asked, None)
    return scores


def grad_path_coefficients(
    slopes: Tensor, gain: Tensor, tables: NeighborTables, asked: NeighborQueries
) -> Tensor:
    """`paths.grad_path_coefficients_torch` of the same."""
    found = torch.zeros_like(gain)
    _run(slopes.contiguous(), gain.contiguous(), tables, asked, found)
    return found


def _run(
    scores: Tensor,
    gain: Tensor,
    tables: NeighborTables,
    asked: NeighborQueries,
    slopes: Tensor | None,
) -> None:
    questions, entities = scores.shape
    if not questions:
        return
    _logs[questions, triton.cdiv(entities, _BLOCK)](
        scores,
        gain,
        tables.path_scores,
        tables.weight,
        *tables.rows.contiguous(),
        *asked[:4],
        *(change.float() for change in asked[4:]),
        slopes if slopes is not None else gain,
        entities,
        ROUNDING=ROUNDING,
        BACKWARD=slopes is not None,
        BLOCK=_BLOCK,
    )


@triton.jit
def _logs(
    scores,
    gain,
    table,
    weight,
    own_row,
    one_row,
    other_row,
    asked_entity,
    removed_subject,
    removed_object,
    lost_neighbor,
    delta_via_subject,
    delta_via_object,
    delta_to_subject,
    delta_to_object,
    gain_slope,
    entities,
    ROUNDING: tl.constexpr,
    BACKWARD: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """One block of the candidates of one question; `scores` holds their slopes on the way back."""
    question = tl.program_id(0).to(tl.int64)
    entity = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = entity < entities
    own = tl.load(own_row + question) * entities + entity
    sums = tl.load(table + own, mask=there, other=0.0)
    least = ROUNDING * sums
    over_one = tl.load(delta_via_subject + question)
    over_other = tl.load(delta_via_object + question)
    # Mostly one of the two is the question's entity, over which no path of its own goes.
    row = tl.load(one_row + question) * entities + entity
    sums += over_one * tl.load(weight + row, mask=tl.where(there, over_one, 0.0) != 0.0, other=0.0)
    row = tl.load(other_row + question) * entities + entity
    sums += over_other * tl.load(
        weight + row, mask=tl.where(there, over_other, 0.0) != 0.0, other=0.0
    )
    sums += tl.where(
        entity == tl.load(removed_subject + question), tl.load(delta_to_subject + question), 0.0
    )
    sums += tl.where(
        entity == tl.load(removed_object + question), tl.load(delta_to_object + question), 0.0
    )
    sums = tl.where((sums > least) & (entity != tl.load(asked_entity + question)), sums, 0.0)
    known = (tl.load(weight + own, mask=there, other=0.0) > 0.0) & (
        entity != tl.load(lost_neighbor + question)
    )

    of_met = tl.load(gain + 4 * question)
    of_others = tl.load(gain + 4 * question + 1)
    scaled = tl.exp(tl.load(gain + 4 * question + 2)) * sums
    logs = log1p(scaled)
    at = question * entities + entity
    here = tl.load(scores + at, mask=there, other=0.0)
    if BACKWARD:
        height = tl.where(known, of_met, of_others)
        tl.atomic_add(gain_slope + 4 * question, tl.sum(tl.where(known, here * logs, 0.0), 0))
        tl.atomic_add(gain_slope + 4 * question + 1, tl.sum(tl.where(known, 0.0, here * logs), 0))
        tl.atomic_add(
            gain_slope + 4 * question + 2, tl.sum(here * height * scaled / (1.0 + scaled), 0)
        )
        tl.atomic_add(gain_slope + 4 * question + 3, tl.sum(tl.where(known, 0.0, here), 0))
    else:
        offset = tl.load(gain + 4 * question + 3)
        tl.store(
            scores + at,
            here + tl.where(known, of_met * logs, of_others * logs + offset),
            mask=there,
        )
