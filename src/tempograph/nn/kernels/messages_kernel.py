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
        _run((x, weight, *edges), (out,), backward=False)
        return out

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of own, x and weight."""
        x, weight, *_ = ctx.saved_tensors
        grad_x, grad_weight = torch.zeros_like(x), torch.zeros_like(weight)
        _run(ctx.saved_tensors, (grad.contiguous(), grad_x, grad_weight), backward=True)
        return grad, grad_x, grad_weight, None, None, None, None


def _run(inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], *, backward: bool) -> None:
    dim, edges = inputs[0].shape[1], len(inputs[2])
    columns = triton.next_power_of_2(dim)
    rows = max(1, _NUMBERS // columns)
    if edges:
        grid = (triton.cdiv(edges, rows),)
        _kernel[grid](inputs, outputs, edges, dim, rows, columns, backward)


@triton.jit(do_not_specialize=["edges"])
def _kernel(
    inputs,
    outputs,
    edges,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BACKWARD: tl.constexpr,
) -> None:
    """One block of edges; outputs are (out,), or (grad_out, grad_x, grad_weight) in backward."""
    x, weight, edge_weight, source, relation, target = inputs
    edge = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    exists = edge < edges
    column = tl.arange(0, COLUMNS)[None, :]
    mask = exists[:, None] & (column < DIM)
    share = tl.load(edge_weight + edge, mask=exists, other=0.0)[:, None]
    source_cell = tl.load(source + edge, mask=exists, other=0)[:, None] * DIM + column
    relation_cell = tl.load(relation + edge, mask=exists, other=0)[:, None] * DIM + column
    target_cell = tl.load(target + edge, mask=exists, other=0)[:, None] * DIM + column
    node = tl.load(x + source_cell, mask=mask, other=0.0)
    vector = tl.load(weight + relation_cell, mask=mask, other=0.0)
    if BACKWARD:
        grad_out, grad_x, grad_weight = outputs
        grad = tl.load(grad_out + target_cell, mask=mask, other=0.0) * share
        tl.atomic_add(grad_x + source_cell, grad * vector, mask=mask)
        tl.atomic_add(grad_weight + relation_cell, grad * node, mask=mask)
    else:
        tl.atomic_add(outputs[0] + target_cell, node * vector * share, mask=mask)
