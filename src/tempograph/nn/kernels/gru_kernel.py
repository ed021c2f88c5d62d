"""`chains.along` with Triton kernels, one and a matrix product for each link; `chains.along_plainly` is its twin.

States before a link, and what the cell makes of them, lie one link after the other, the chains of each link together.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from tempograph.nn.gru_chains import Cells, Chains

_NUMBERS = 1024
"""Numbers of states that one program takes."""
_SIZES = ["link", "here", "after", "first", "next_first", "total", "count", "sides"]
"""They differ from call to call: a kernel made for some of them would be made again and again."""


def along(chains: Chains, inputs: Tensor, kept: Tensor, cells: Cells) -> Tensor:
    """Shapes as in `chains.along`."""
    found: Tensor = _Along.apply(inputs, kept, None, *cells, chains, torch.is_grad_enabled())
    return found


def cell(x: Tensor, state: Tensor, cells: Cells) -> Tensor:
    """Shapes as in `chains.cell`: chains of one link that begin with a state."""
    sides, count, _ = state.shape
    row = torch.arange(sides * count, device=x.device).view(1, sides, count)
    chains = Chains(row, torch.ones_like(row[0]), [count])
    kept = x.new_ones(row.shape)
    found: Tensor = _Along.apply(
        x.flatten(0, 1), kept, state, *cells, chains, torch.is_grad_enabled()
    )
    return found


class _Along(torch.autograd.Function):
    """Forward keeps the states and what came of them; backward goes from the last link to the first."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any,
        inputs: Tensor,
        kept: Tensor,
        begin: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        chains: Chains,
        learns: bool,
    ) -> Tensor:
        inputs, kept = inputs.contiguous(), kept.contiguous()
        sides, dim, _ = weight.shape
        first, total = _places(chains, learns)
        states = inputs.new_empty(sides, total, dim)
        gates = inputs.new_empty(sides, total, 3 * dim)
        found = inputs.new_zeros(*chains.lengths.shape, dim)
        for link, here in enumerate(chains.alive):
            at = slice(first[link], first[link] + here)
            if not link:
                states[:, at] = 0 if begin is None else begin
            if link or begin is not None:
                torch.baddbmm(bias, states[:, at], weight, out=gates[:, at])
            else:
                gates[:, at] = bias
            _run(_forward, _Link(chains, link, first, inputs, kept, states, gates), [found])
        if learns:
            ctx.chains, ctx.begins = chains, begin is not None
            ctx.save_for_backward(inputs, kept, weight, states, gates)
        return found

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        inputs, kept, weight, states, gates = ctx.saved_tensors
        chains: Chains = ctx.chains
        first, _ = _places(chains, True)
        of_inputs, of_kept = torch.zeros_like(inputs), torch.zeros_like(kept)
        of_states, of_gates = torch.empty_like(states), torch.empty_like(gates)
        of_all = [slope.contiguous(), of_inputs, of_kept, of_states, of_gates]
        for link, here in reversed(list(enumerate(chains.alive))):
            _run(_backward, _Link(chains, link, first, inputs, kept, states, gates), of_all)
            if link or ctx.begins:
                at = slice(first[link], first[link] + here)
                of_states[:, at].baddbmm_(of_gates[:, at], weight.mT)
        begun = max(chains.alive, default=0)
        # States of nothing teach the weights nothing.
        taught = slice(0 if ctx.begins else begun, None)
        of_weight = states[:, taught].mT @ of_gates[:, taught]
        of_begin = of_states[:, :begun] if ctx.begins else None
        return of_inputs, of_kept, of_begin, of_weight, of_gates.sum(1, keepdim=True), None, None


def _places(chains: Chains, learns: bool) -> tuple[list[int], int]:
    """Where the chains of each link begin, and how many rows there are; a link takes the place of the one before."""
    if not learns:
        return [0] * (len(chains.alive) + 1), max(chains.alive, default=0)
    first = [0, *accumulate(chains.alive)]
    return first, first[-1]


class _Link(NamedTuple):
    """One link of all chains."""

    chains: Chains
    number: int
    first: list[int]
    inputs: Tensor
    kept: Tensor
    states: Tensor
    gates: Tensor


def _run(kernel: Any, link: _Link, others: list[Tensor]) -> None:
    chains, number = link.chains, link.number
    sides, total, dim = link.states.shape
    here, after = [*chains.alive, 0][number : number + 2]
    columns = triton.next_power_of_2(dim)
    rows = max(1, _NUMBERS // columns)
    kernel[(triton.cdiv(here, rows), sides)](
        chains.row[number].contiguous(),
        chains.lengths,
        link.inputs,
        link.kept,
        link.states,
        link.gates,
        *others,
        number,
        here,
        after,
        link.first[number],
        link.first[number + 1],
        total,
        chains.lengths.shape[1],
        sides,
        DIM=dim,
        ROWS=rows,
        COLUMNS=columns,
    )


@triton.jit
def _gates(inputs, gates, states, row, place, column, mask, DIM: tl.constexpr):
    """State, reset, update, new, and what the state adds to the new one, [rows, columns] each."""
    x = inputs + row[:, None] * (3 * DIM) + column[None, :]
    g = gates + place[:, None] * (3 * DIM) + column[None, :]
    state = tl.load(states + place[:, None] * DIM + column[None, :], mask=mask, other=0.0)
    added = tl.load(g + 2 * DIM, mask=mask, other=0.0)
    reset = tl.sigmoid(tl.load(x, mask=mask, other=0.0) + tl.load(g, mask=mask, other=0.0))
    update = tl.sigmoid(
        tl.load(x + DIM, mask=mask, other=0.0) + tl.load(g + DIM, mask=mask, other=0.0)
    )
    # tanh x = 2 sigmoid(2 x) - 1.
    new = 2 * tl.sigmoid(2 * (tl.load(x + 2 * DIM, mask=mask, other=0.0) + reset * added)) - 1
    return state, reset, update, new, added


@triton.jit(do_not_specialize=_SIZES)
def _forward(
    rows,
    lengths,
    inputs,
    kept,
    states,
    gates,
    found,
    link,
    here,
    after,
    first,
    next_first,
    total,
    count,
    sides,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """States before a link -> before the next one, or what is found where it is the last."""
    side = tl.program_id(1).to(tl.int64)
    chain = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    exists = chain < here
    length = tl.load(lengths + side * count + chain, mask=exists, other=0)
    goes = exists & (link < length)
    row = tl.load(rows + side * count + chain, mask=goes, other=0)
    inside = column[None, :] < DIM
    mask = goes[:, None] & inside
    place = side * total + first + chain
    state, _, update, new, _ = _gates(inputs, gates, states, row, place, column, mask, DIM)
    share = tl.load(kept + (link * sides + side) * count + chain, mask=goes, other=0.0)
    state = (new + update * (state - new)) * share[:, None]
    last = goes & (length == link + 1)
    tl.store(
        found + (side * count + chain[:, None]) * DIM + column[None, :],
        state,
        mask=last[:, None] & inside,
    )
    into = states + (side * total + next_first + chain[:, None]) * DIM + column[None, :]
    # Chains that have ended stay in the matrix product while the other side has more: they must be numbers.
    state = tl.where((length > link + 1)[:, None], state, 0.0)
    tl.store(into, state, mask=(chain < after)[:, None] & inside)


@triton.jit(do_not_specialize=_SIZES)
def _backward(
    rows,
    lengths,
    inputs,
    kept,
    states,
    gates,
    slopes,
    of_inputs,
    of_kept,
    of_states,
    of_gates,
    link,
    here,
    after,
    first,
    next_first,
    total,
    count,
    sides,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Slopes of states after a link -> of inputs, of what is kept, of states before, of what came of these."""
    side = tl.program_id(1).to(tl.int64)
    chain = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    exists = chain < here
    length = tl.load(lengths + side * count + chain, mask=exists, other=0)
    goes = exists & (link < length)
    row = tl.load(rows + side * count + chain, mask=goes, other=0)
    inside = column[None, :] < DIM
    mask = goes[:, None] & inside
    place = side * total + first + chain
    state, reset, update, new, added = _gates(inputs, gates, states, row, place, column, mask, DIM)
    last = goes & (length == link + 1)
    slope = tl.load(
        slopes + (side * count + chain[:, None]) * DIM + column[None, :],
        mask=last[:, None] & inside,
        other=0.0,
    )
    handed_on = (goes & (length > link + 1))[:, None] & inside
    after_this = of_states + (side * total + next_first + chain[:, None]) * DIM + column[None, :]
    slope += tl.load(after_this, mask=handed_on, other=0.0)
    at = (link * sides + side) * count + chain
    share = tl.load(kept + at, mask=goes, other=0.0)
    tl.store(of_kept + at, tl.sum(slope * (new + update * (state - new)), axis=1), mask=exists)
    slope *= share[:, None]
    to_new = slope * (1 - update) * (1 - new * new)
    to_update = slope * (state - new) * update * (1 - update)
    to_reset = to_new * added * reset * (1 - reset)
    x = of_inputs + row[:, None] * (3 * DIM) + column[None, :]
    tl.atomic_add(x, to_reset, mask=mask)
    tl.atomic_add(x + DIM, to_update, mask=mask)
    tl.atomic_add(x + 2 * DIM, to_new, mask=mask)
    there = exists[:, None] & inside
    g = of_gates + place[:, None] * (3 * DIM) + column[None, :]
    tl.store(g, to_reset, mask=there)
    tl.store(g + DIM, to_update, mask=there)
    tl.store(g + 2 * DIM, to_new * reset, mask=there)
    tl.store(of_states + place[:, None] * DIM + column[None, :], slope * update, mask=there)
