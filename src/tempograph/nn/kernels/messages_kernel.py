"""`structure.add_messages` as Triton kernels, one each way; `structure.add_messages_plainly` is their twin in torch."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_NUMBERS = 1024
"""Numbers of messages that one program takes."""


class AddMessages(torch.autograd.Function):
    """No tensor of messages is made, neither forward nor backward."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any,
        into: Tensor,
        x: Tensor,
        weight: Tensor,
        shares: Tensor,
        source: Tensor,
        relation: Tensor,
        target: Tensor,
    ) -> Tensor:
        """Shapes as in `structure.add_messages`."""
        x, weight, found = (
            x.contiguous(),
            weight.contiguous(),
            into.clone(memory_format=torch.contiguous_format),
        )
        ctx.save_for_backward(x, weight, shares, source, relation, target)
        _run(_forward, [x, weight, shares, source, relation, target], [found])
        return found

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        """The slopes of nodes -> of what was there, of nodes and of relations."""
        x, weight, *_ = ctx.saved_tensors
        of_x, of_weight = torch.zeros_like(x), torch.zeros_like(weight)
        _run(_backward, ctx.saved_tensors, [slope.contiguous(), of_x, of_weight])
        return slope, of_x, of_weight, None, None, None, None


def _run(kernel: Any, given: list[Tensor], found: list[Tensor]) -> None:
    dim, edges = given[0].shape[1], len(given[2])
    columns = triton.next_power_of_2(dim)
    rows = max(1, _NUMBERS // columns)
    if edges:
        kernel[(triton.cdiv(edges, rows),)](
            *given, *found, edges, DIM=dim, ROWS=rows, COLUMNS=columns
        )


@triton.jit
def _edges(
    shares,
    source,
    relation,
    target,
    edges,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Shares [rows, 1], places of source, relation and target in their tables, and which are there, [rows, columns]."""
    edge = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = edge < edges
    column = tl.arange(0, COLUMNS)[None, :]
    share = tl.load(shares + edge, mask=there, other=0.0)[:, None]
    start = tl.load(source + edge, mask=there, other=0)[:, None] * DIM + column
    kind = tl.load(relation + edge, mask=there, other=0)[:, None] * DIM + column
    end = tl.load(target + edge, mask=there, other=0)[:, None] * DIM + column
    return share, start, kind, end, there[:, None] & (column < DIM)


@triton.jit(do_not_specialize=["edges"])
def _forward(
    x,
    weight,
    shares,
    source,
    relation,
    target,
    found,
    edges,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Nodes -> what their messages add to others."""
    share, start, kind, end, mask = _edges(
        shares, source, relation, target, edges, DIM, ROWS, COLUMNS
    )
    message = tl.load(x + start, mask=mask, other=0.0) * tl.load(
        weight + kind, mask=mask, other=0.0
    )
    tl.atomic_add(found + end, message * share, mask=mask)


@triton.jit(do_not_specialize=["edges"])
def _backward(
    x,
    weight,
    shares,
    source,
    relation,
    target,
    slopes,
    of_x,
    of_weight,
    edges,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Slopes of the sums -> of nodes and relations."""
    share, start, kind, end, mask = _edges(
        shares, source, relation, target, edges, DIM, ROWS, COLUMNS
    )
    slope = tl.load(slopes + end, mask=mask, other=0.0) * share
    tl.atomic_add(of_x + start, slope * tl.load(weight + kind, mask=mask, other=0.0), mask=mask)
    tl.atomic_add(of_weight + kind, slope * tl.load(x + start, mask=mask, other=0.0), mask=mask)
