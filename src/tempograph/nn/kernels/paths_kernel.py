"""Scores of two-step paths as a Triton kernel; `models.pointer.paths` has the twins in PyTorch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tempograph.data.common_neighbors import ROUNDING, NeighborQueries, NeighborTables
from tempograph.nn.kernels.votes_kernel import log1p

_BLOCK = 1024
"""Candidates per program."""


def add_path_scores(
    scores: Tensor, coefficients: Tensor, tables: NeighborTables, queries: NeighborQueries
) -> Tensor:
    """Add the scores of paths to scores [queries, entities] in place; coefficients [queries, 4]."""
    _run(scores, coefficients.contiguous(), tables, queries, None)
    return scores


def grad_path_coefficients(
    grad_scores: Tensor, coefficients: Tensor, tables: NeighborTables, queries: NeighborQueries
) -> Tensor:
    """The gradient of the coefficients [queries, 4] from that of the scores."""
    grad = torch.zeros_like(coefficients)
    _run(grad_scores.contiguous(), coefficients.contiguous(), tables, queries, grad)
    return grad


def _run(
    scores: Tensor,
    coefficients: Tensor,
    tables: NeighborTables,
    queries: NeighborQueries,
    grad: Tensor | None,
) -> None:
    count, entities = scores.shape
    if not count:
        return
    _kernel[count, triton.cdiv(entities, _BLOCK)](
        scores,
        coefficients,
        (tables.path_scores, tables.weight),
        tuple(tables.rows.contiguous()),
        (*queries[:4], *(change.float() for change in queries[4:])),
        coefficients if grad is None else grad,
        entities,
        ROUNDING=ROUNDING,
        BACKWARD=grad is not None,
        BLOCK=_BLOCK,
    )


@triton.jit
def _kernel(
    scores,
    coefficients,
    tables,
    rows,
    queries,
    grad,
    entities,
    ROUNDING: tl.constexpr,
    BACKWARD: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """One block of the candidates of one query; `scores` holds their gradients in backward.

    `one` and `other` are the entities of a fact that must not count; without it the sums change.
    """
    path_scores, weight = tables
    entity_row, one_row, other_row = rows
    query_entity, query_one, query_other, query_separated = queries[:4]
    over_one, over_other, to_one, to_other = queries[4:]
    query = tl.program_id(0).to(tl.int64)
    entity = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = entity < entities
    cell = tl.load(entity_row + query) * entities + entity
    sums = tl.load(path_scores + cell, mask=mask, other=0.0)
    least = ROUNDING * sums
    # Mostly one of the two changes is 0: the query's entity has no path over itself.
    change = tl.load(over_one + query)
    row = tl.load(one_row + query) * entities + entity
    sums += change * tl.load(weight + row, mask=tl.where(mask, change, 0.0) != 0.0, other=0.0)
    change = tl.load(over_other + query)
    row = tl.load(other_row + query) * entities + entity
    sums += change * tl.load(weight + row, mask=tl.where(mask, change, 0.0) != 0.0, other=0.0)
    sums += tl.where(entity == tl.load(query_one + query), tl.load(to_one + query), 0.0)
    sums += tl.where(entity == tl.load(query_other + query), tl.load(to_other + query), 0.0)
    sums = tl.where((sums > least) & (entity != tl.load(query_entity + query)), sums, 0.0)
    neighbor = (tl.load(weight + cell, mask=mask, other=0.0) > 0.0) & (
        entity != tl.load(query_separated + query)
    )

    u_neighbor = tl.load(coefficients + 4 * query)
    u_other = tl.load(coefficients + 4 * query + 1)
    scaled = tl.exp(tl.load(coefficients + 4 * query + 2)) * sums
    logs = log1p(scaled)
    target = scores + query * entities + entity
    value = tl.load(target, mask=mask, other=0.0)
    if BACKWARD:
        u = tl.where(neighbor, u_neighbor, u_other)
        tl.atomic_add(grad + 4 * query, tl.sum(tl.where(neighbor, value * logs, 0.0), 0))
        tl.atomic_add(grad + 4 * query + 1, tl.sum(tl.where(neighbor, 0.0, value * logs), 0))
        tl.atomic_add(grad + 4 * query + 2, tl.sum(value * u * scaled / (1.0 + scaled), 0))
        tl.atomic_add(grad + 4 * query + 3, tl.sum(tl.where(neighbor, 0.0, value), 0))
    else:
        offset = tl.load(coefficients + 4 * query + 3)
        added = tl.where(neighbor, u_neighbor * logs, u_other * logs + offset)
        tl.store(target, value + added, mask=mask)
