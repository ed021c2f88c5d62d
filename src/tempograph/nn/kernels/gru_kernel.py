"""`temporal.run_gru` with a Triton kernel and a matrix product for each step.

`packed_gru.run_gru_torch` is the twin. The states before a step and their gates are stored step
after step, the sequences of each step together.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from tempograph.nn.packed_gru import GRUWeights, PackedSequences

_NUMBERS = 1024
"""Numbers of states per program."""
_SIZES = ["step", "size", "next_size", "first", "next_first", "total", "count", "directions"]
"""They differ from call to call; specialising on them would compile again and again."""


def run_gru(
    sequences: PackedSequences, inputs: Tensor, decay: Tensor, weights: GRUWeights
) -> Tensor:
    """Shapes as in `temporal.run_gru`."""
    out: Tensor = _RunGRU.apply(inputs, decay, None, *weights, sequences, torch.is_grad_enabled())
    return out


def gru_cell(x: Tensor, state: Tensor, weights: GRUWeights) -> Tensor:
    """Shapes as in `temporal.gru_cell`: sequences of one step that start from a state."""
    directions, count, _ = state.shape
    row = torch.arange(directions * count, device=x.device).view(1, directions, count)
    sequences = PackedSequences(row, torch.ones_like(row[0]), [count])
    decay = x.new_ones(row.shape)
    out: Tensor = _RunGRU.apply(
        x.flatten(0, 1), decay, state, *weights, sequences, torch.is_grad_enabled()
    )
    return out


class _RunGRU(torch.autograd.Function):
    """Forward saves states and gates; backward runs from the last step to the first."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any,
        inputs: Tensor,
        decay: Tensor,
        initial: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        sequences: PackedSequences,
        needs_grad: bool,
    ) -> Tensor:
        inputs, decay = inputs.contiguous(), decay.contiguous()
        directions, dim, _ = weight.shape
        first, total = _offsets(sequences, needs_grad)
        states = inputs.new_empty(directions, total, dim)
        gates = inputs.new_empty(directions, total, 3 * dim)
        out = inputs.new_zeros(*sequences.lengths.shape, dim)
        for step, size in enumerate(sequences.batch_sizes):
            rows = slice(first[step], first[step] + size)
            if not step:
                states[:, rows] = 0 if initial is None else initial
            if step or initial is not None:
                torch.baddbmm(bias, states[:, rows], weight, out=gates[:, rows])
            else:
                gates[:, rows] = bias
            _run(sequences, step, first, (inputs, decay, states, gates), (out,))
        if needs_grad:
            ctx.sequences, ctx.has_initial = sequences, initial is not None
            ctx.save_for_backward(inputs, decay, weight, states, gates)
        return out

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, decay, weight, states, gates = ctx.saved_tensors
        sequences: PackedSequences = ctx.sequences
        first, _ = _offsets(sequences, True)
        grad_inputs, grad_decay = torch.zeros_like(inputs), torch.zeros_like(decay)
        grad_states, grad_gates = torch.empty_like(states), torch.empty_like(gates)
        grads = (grad.contiguous(), grad_inputs, grad_decay, grad_states, grad_gates)
        for step, size in reversed(list(enumerate(sequences.batch_sizes))):
            _run(sequences, step, first, (inputs, decay, states, gates), grads)
            if step or ctx.has_initial:
                rows = slice(first[step], first[step] + size)
                grad_states[:, rows].baddbmm_(grad_gates[:, rows], weight.mT)
        first_size = max(sequences.batch_sizes, default=0)
        # Initial states of zero add nothing to the gradient of the weights.
        used = slice(0 if ctx.has_initial else first_size, None)
        grad_weight = states[:, used].mT @ grad_gates[:, used]
        grad_initial = grad_states[:, :first_size] if ctx.has_initial else None
        grad_bias = grad_gates.sum(1, keepdim=True)
        return grad_inputs, grad_decay, grad_initial, grad_weight, grad_bias, None, None


def _offsets(sequences: PackedSequences, needs_grad: bool) -> tuple[list[int], int]:
    """The first row of each step and the number of rows; without gradients all steps share rows."""
    sizes = sequences.batch_sizes
    if not needs_grad:
        return [0] * (len(sizes) + 1), max(sizes, default=0)
    first = [0, *accumulate(sizes)]
    return first, first[-1]


def _run(
    sequences: PackedSequences,
    step: int,
    first: list[int],
    inputs: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
) -> None:
    """Run one step: forward into (out,), or backward into the five gradients."""
    directions, total, dim = inputs[2].shape
    size, next_size = [*sequences.batch_sizes, 0][step : step + 2]
    columns = triton.next_power_of_2(dim)
    rows = max(1, _NUMBERS // columns)
    _kernel[(triton.cdiv(size, rows), directions)](
        (sequences.row[step].contiguous(), sequences.lengths),
        inputs,
        outputs,
        step,
        size,
        next_size,
        first[step],
        first[step + 1],
        total,
        sequences.lengths.shape[1],
        directions,
        DIM=dim,
        ROWS=rows,
        COLUMNS=columns,
        BACKWARD=len(outputs) > 1,
    )


@triton.jit(do_not_specialize=_SIZES)
def _kernel(
    sequences,
    inputs,
    outputs,
    step,
    size,
    next_size,
    first,
    next_first,
    total,
    count,
    directions,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BACKWARD: tl.constexpr,
) -> None:
    """One step of a block of sequences.

    Forward: states before the step -> states before the next one, or the output of sequences that
    end. Backward: gradients of the states after the step -> of inputs, decay, states and gates.
    """
    input_rows, lengths = sequences
    x, decay, states, gates = inputs
    direction = tl.program_id(1).to(tl.int64)
    sequence = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    column = tl.arange(0, COLUMNS)[None, :]
    inside = column < DIM
    exists = sequence < size
    length = tl.load(lengths + direction * count + sequence, mask=exists, other=0)
    active = exists & (step < length)
    mask = active[:, None] & inside
    ends = (active & (length == step + 1))[:, None] & inside

    # Cells of the inputs, states, gates, next states, outputs [rows, columns], and decays [rows].
    input_row = tl.load(input_rows + direction * count + sequence, mask=active, other=0)
    input_cell = input_row[:, None] * (3 * DIM) + column
    state_cell = (direction * total + first + sequence)[:, None] * DIM + column
    gate_cell = (direction * total + first + sequence)[:, None] * (3 * DIM) + column
    next_cell = (direction * total + next_first + sequence)[:, None] * DIM + column
    out_cell = (direction * count + sequence)[:, None] * DIM + column
    decay_cell = (step * directions + direction) * count + sequence

    state = tl.load(states + state_cell, mask=mask, other=0.0)
    x += input_cell
    gates += gate_cell
    from_state = tl.load(gates + 2 * DIM, mask=mask, other=0.0)
    reset = tl.sigmoid(tl.load(x, mask=mask, other=0.0) + tl.load(gates, mask=mask, other=0.0))
    update = tl.sigmoid(
        tl.load(x + DIM, mask=mask, other=0.0) + tl.load(gates + DIM, mask=mask, other=0.0)
    )
    # tanh x = 2 sigmoid(2 x) - 1.
    new = 2 * tl.sigmoid(2 * (tl.load(x + 2 * DIM, mask=mask, other=0.0) + reset * from_state)) - 1
    share = tl.load(decay + decay_cell, mask=active, other=0.0)
    if BACKWARD:
        grad_out, grad_inputs, grad_decay, grad_states, grad_gates = outputs
        continues = (active & (length > step + 1))[:, None] & inside
        grad = tl.load(grad_out + out_cell, mask=ends, other=0.0)
        grad += tl.load(grad_states + next_cell, mask=continues, other=0.0)
        grad_share = tl.sum(grad * (new + update * (state - new)), axis=1)
        tl.store(grad_decay + decay_cell, grad_share, mask=exists)
        grad *= share[:, None]
        grad_new = grad * (1 - update) * (1 - new * new)
        grad_update = grad * (state - new) * update * (1 - update)
        grad_reset = grad_new * from_state * reset * (1 - reset)
        grad_inputs += input_cell
        tl.atomic_add(grad_inputs, grad_reset, mask=mask)
        tl.atomic_add(grad_inputs + DIM, grad_update, mask=mask)
        tl.atomic_add(grad_inputs + 2 * DIM, grad_new, mask=mask)
        stored = exists[:, None] & inside
        grad_gates += gate_cell
        tl.store(grad_gates, grad_reset, mask=stored)
        tl.store(grad_gates + DIM, grad_update, mask=stored)
        tl.store(grad_gates + 2 * DIM, grad_new * reset, mask=stored)
        tl.store(grad_states + state_cell, grad * update, mask=stored)
    else:
        state = (new + update * (state - new)) * share[:, None]
        tl.store(outputs[0] + out_cell, state, mask=ends)
        # Sequences that have ended stay in the matrix product of the other direction: no NaN there.
        state = tl.where((length > step + 1)[:, None], state, 0.0)
        tl.store(states + next_cell, state, mask=(sequence < next_size)[:, None] & inside)
