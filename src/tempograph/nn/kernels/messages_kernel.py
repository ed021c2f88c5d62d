"""`structure.add_messages` as Triton kernels; `structure.add_messages_torch` is the twin."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_NUMBERS = 1024
"""Numbers of messages per program."""


class AddMessages(torch.autograd.Function):
    """Stores no tensor of messages, neither forward nor backward."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, own: Tensor, x: Tensor, weight: Tensor, *edges: Tensor) -> Tensor:
        """Shapes as in `structure.add_messages`; edges are weights, source, relation and target."""
        x, weight = x.contiguous(), weight.contiguous()
        out = own.clone(memory_format=torch.contiguous_format)
        ctx.save_for_backward(x, weight, *edges)
        _run(_forward, [x, weight, *edges], [out])
        return out

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of own, x and weight."""
        x, weight, *_ = ctx.saved_tensors
        grad_x, grad_weight = torch.zeros_like(x), torch.zeros_like(weight)
        _run(_backward, ctx.saved_tensors, [grad.contiguous(), grad_x, grad_weight])
        return grad, grad_x, grad_weight, None, None, None, None


def _run(kernel: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
    dim, edges = inputs[0].shape[1], len(inputs[2])
    columns = triton.next_power_of_2(dim)
    rows = max(1, _NUMBERS // columns)
    if edges:
        grid = (triton.cdiv(edges, rows),)
        kernel[grid](*inputs, *outputs, edges, DIM=dim, ROWS=rows, COLUMNS=columns)


@triton.jit
def _edges(
    edge_weight,
    source,
    relation,
    target,
    edges,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Edge weights [rows, 1]; cells of source, relation and target, and a mask, [rows, columns]."""
    edge = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    exists = edge < edges
    column = tl.arange(0, COLUMNS)[None, :]
    share = tl.load(edge_weight + edge, mask=exists, other=0.0)[:, None]
    source_cell = tl.load(source + edge, mask=exists, other=0)[:, None] * DIM + column
    relation_cell = tl.load(relation + edge, mask=exists, other=0)[:, None] * DIM + column
    target_cell = tl.load(target + edge, mask=exists, other=0)[:, None] * DIM + column
    return share, source_cell, relation_cell, target_cell, exists[:, None] & (column < DIM)


@triton.jit(do_not_specialize=["edges"])
def _forward(
    x,
    weight,
    edge_weight,
    source,
    relation,
    target,
    out,
    edges,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Add the messages of one block of edges."""
    share, source_cell, relation_cell, target_cell, mask = _edges(
        edge_weight, source, relation, target, edges, DIM, ROWS, COLUMNS
    )
    node = tl.load(x + source_cell, mask=mask, other=0.0)
    message = node * tl.load(weight + relation_cell, mask=mask, other=0.0)
    tl.atomic_add(out + target_cell, message * share, mask=mask)


@triton.jit(do_not_specialize=["edges"])
def _backward(
    x,
    weight,
    edge_weight,
    source,
    relation,
    target,
    grad_out,
    grad_x,
    grad_weight,
    edges,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Add the gradients of nodes and relations from one block of edges."""
    share, source_cell, relation_cell, target_cell, mask = _edges(
        edge_weight, source, relation, target, edges, DIM, ROWS, COLUMNS
    )
    grad = tl.load(grad_out + target_cell, mask=mask, other=0.0) * share
    node = tl.load(x + source_cell, mask=mask, other=0.0)
    vector = tl.load(weight + relation_cell, mask=mask, other=0.0)
    tl.atomic_add(grad_x + source_cell, grad * vector, mask=mask)
    tl.atomic_add(grad_weight + relation_cell, grad * node, mask=mask)
