"""`temporal.run_gru` with a Triton kernel and a matrix product for each step.

`packed_gru.run_gru_torch` is the twin. The states before a step and their gates are stored step
after step, the sequences of each step together.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

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
            _run(_forward, _Step(sequences, step, first, inputs, decay, states, gates), [out])
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
        grads = [grad.contiguous(), grad_inputs, grad_decay, grad_states, grad_gates]
        for step, size in reversed(list(enumerate(sequences.batch_sizes))):
            _run(_backward, _Step(sequences, step, first, inputs, decay, states, gates), grads)
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


class _Step(NamedTuple):
    """One step of all sequences."""

    sequences: PackedSequences
    number: int
    first: list[int]
    inputs: Tensor
    decay: Tensor
    states: Tensor
    gates: Tensor


def _run(kernel: Any, step: _Step, outputs: list[Tensor]) -> None:
    sequences, number = step.sequences, step.number
    directions, total, dim = step.states.shape
    size, next_size = [*sequences.batch_sizes, 0][number : number + 2]
    columns = triton.next_power_of_2(dim)
    rows = max(1, _NUMBERS // columns)
    kernel[(triton.cdiv(size, rows), directions)](
        sequences.row[number].contiguous(),
        sequences.lengths,
        step.inputs,
        step.decay,
        step.states,
        step.gates,
        *outputs,
        number,
        size,
        next_size,
        step.first[number],
        step.first[number + 1],
        total,
        sequences.lengths.shape[1],
        directions,
        DIM=dim,
        ROWS=rows,
        COLUMNS=columns,
    )


@triton.jit
def _gates(inputs, gates, states, input_row, row, column, mask, DIM: tl.constexpr):
    """State, reset, update, new, and the state's part of the new one, [rows, columns] each."""
    x = inputs + input_row[:, None] * (3 * DIM) + column[None, :]
    g = gates + row[:, None] * (3 * DIM) + column[None, :]
    state = tl.load(states + row[:, None] * DIM + column[None, :], mask=mask, other=0.0)
    from_state = tl.load(g + 2 * DIM, mask=mask, other=0.0)
    reset = tl.sigmoid(tl.load(x, mask=mask, other=0.0) + tl.load(g, mask=mask, other=0.0))
    update = tl.sigmoid(
        tl.load(x + DIM, mask=mask, other=0.0) + tl.load(g + DIM, mask=mask, other=0.0)
    )
    # tanh x = 2 sigmoid(2 x) - 1.
    new = 2 * tl.sigmoid(2 * (tl.load(x + 2 * DIM, mask=mask, other=0.0) + reset * from_state)) - 1
    return state, reset, update, new, from_state


@triton.jit(do_not_specialize=_SIZES)
def _forward(
    input_rows,
    lengths,
    inputs,
    decay,
    states,
    gates,
    out,
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
) -> None:
    """States before a step -> states before the next one, or the output of sequences that end."""
    direction = tl.program_id(1).to(tl.int64)
    sequence = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    exists = sequence < size
    length = tl.load(lengths + direction * count + sequence, mask=exists, other=0)
    active = exists & (step < length)
    input_row = tl.load(input_rows + direction * count + sequence, mask=active, other=0)
    inside = column[None, :] < DIM
    mask = active[:, None] & inside
    row = direction * total + first + sequence
    state, _, update, new, _ = _gates(inputs, gates, states, input_row, row, column, mask, DIM)
    share = tl.load(
        decay + (step * directions + direction) * count + sequence, mask=active, other=0.0
    )
    state = (new + update * (state - new)) * share[:, None]
    last = active & (length == step + 1)
    tl.store(
        out + (direction * count + sequence[:, None]) * DIM + column[None, :],
        state,
        mask=last[:, None] & inside,
    )
    target = states + (direction * total + next_first + sequence[:, None]) * DIM + column[None, :]
    # Sequences that have ended stay in the matrix product of the other direction: no NaN there.
    state = tl.where((length > step + 1)[:, None], state, 0.0)
    tl.store(target, state, mask=(sequence < next_size)[:, None] & inside)


@triton.jit(do_not_specialize=_SIZES)
def _backward(
    input_rows,
    lengths,
    inputs,
    decay,
    states,
    gates,
    grad_out,
    grad_inputs,
    grad_decay,
    grad_states,
    grad_gates,
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
) -> None:
    """Gradients of the states after a step -> of inputs, decay, states before, and gates."""
    direction = tl.program_id(1).to(tl.int64)
    sequence = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    exists = sequence < size
    length = tl.load(lengths + direction * count + sequence, mask=exists, other=0)
    active = exists & (step < length)
    input_row = tl.load(input_rows + direction * count + sequence, mask=active, other=0)
    inside = column[None, :] < DIM
    mask = active[:, None] & inside
    row = direction * total + first + sequence
    state, reset, update, new, from_state = _gates(
        inputs, gates, states, input_row, row, column, mask, DIM
    )
    last = active & (length == step + 1)
    grad = tl.load(
        grad_out + (direction * count + sequence[:, None]) * DIM + column[None, :],
        mask=last[:, None] & inside,
        other=0.0,
    )
    continues = (active & (length > step + 1))[:, None] & inside
    next_row = direction * total + next_first + sequence
    grad += tl.load(
        grad_states + next_row[:, None] * DIM + column[None, :], mask=continues, other=0.0
    )
    cell = (step * directions + direction) * count + sequence
    share = tl.load(decay + cell, mask=active, other=0.0)
    tl.store(grad_decay + cell, tl.sum(grad * (new + update * (state - new)), axis=1), mask=exists)
    grad *= share[:, None]
    grad_new = grad * (1 - update) * (1 - new * new)
    grad_update = grad * (state - new) * update * (1 - update)
    grad_reset = grad_new * from_state * reset * (1 - reset)
    x = grad_inputs + input_row[:, None] * (3 * DIM) + column[None, :]
    tl.atomic_add(x, grad_reset, mask=mask)
    tl.atomic_add(x + DIM, grad_update, mask=mask)
    tl.atomic_add(x + 2 * DIM, grad_new, mask=mask)
    stored = exists[:, None] & inside
    g = grad_gates + row[:, None] * (3 * DIM) + column[None, :]
    tl.store(g, grad_reset, mask=stored)
    tl.store(g + DIM, grad_update, mask=stored)
    tl.store(g + 2 * DIM, grad_new * reset, mask=stored)
    tl.store(grad_states + row[:, None] * DIM + column[None, :], grad * update, mask=stored)
