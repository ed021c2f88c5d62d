"""Across time steps: what an entity was at its active steps around a time becomes what it is at that time."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tempograph.data.sorted_ranges import Ranges
from tempograph.nn.gru_chains import Cells, Chains, along_plainly, cell_plainly, longer_than
from tempograph.nn.structure import segment_softmax


class Context(NamedTuple):
    """Entities at their active steps, x [rows, dim] and time [rows], in the order (entity, time)."""

    x: Tensor
    time: Tensor


class Windows(NamedTuple):
    """For each of n (entity, time) pairs the rows of its entity in the context before and after the time."""

    time: Tensor
    past: Ranges
    future: Ranges | None


class Decay(nn.Module):
    """exp(-max(0, rate * gap + shift)), rate and shift learned: 1 is kept whole, 0 is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(0.1))
        self.shift = nn.Parameter(torch.tensor(0.0))

    def exponent(self, gap: Tensor) -> Tensor:
        """max(0, rate * gap + shift), for gaps of any shape."""
        return (self.rate * gap + self.shift).clamp(min=0)

    def forward(self, gap: Tensor) -> Tensor:
        """The share that is left after a gap in steps, of any shape."""
        return torch.exp(-self.exponent(gap))


class DecayedGRU(nn.Module):
    """z = GRU(x_t', decay(gap) z_before) along an entity's active steps, oldest first, then at the time itself.

    With a future, a second cell comes from the other side, farthest first, and both results are added. Chains are
    sorted by length, so that their links are few batched cells for both sides.
    """

    def __init__(self, dim: int, bidirectional: bool) -> None:
        super().__init__()
        sides, reach = 1 + bidirectional, 1 / math.sqrt(dim)
        self.input_weight = nn.Parameter(torch.empty(sides, dim, 3 * dim).uniform_(-reach, reach))
        self.state_weight = nn.Parameter(torch.empty(sides, dim, 3 * dim).uniform_(-reach, reach))
        self.input_bias = nn.Parameter(torch.empty(sides, 1, 3 * dim).uniform_(-reach, reach))
        self.state_bias = nn.Parameter(torch.empty(sides, 1, 3 * dim).uniform_(-reach, reach))
        self.decay = Decay()

    def forward(self, x: Tensor, windows: Windows, context: Context) -> Tensor:
        """x [n, dim] at the times themselves -> [n, dim]."""
        chains, pair, gap = _chains(windows, context.time)
        states = along(chains, self._project(context.x).flatten(0, 1), self.decay(gap), self._cells)
        nothing = states.new_zeros(len(states) * len(x), states.shape[-1])
        handed_on = nothing.index_copy(0, pair.flatten(), states.flatten(0, 1)).view(
            len(states), *x.shape
        )
        return cell(self._project(x), handed_on, self._cells).sum(0)

    def alone(self, x: Tensor) -> Tensor:
        """What an entity without any active step in its window becomes, [n, dim]."""
        inputs = self._project(x)
        return cell(inputs, x.new_zeros(len(inputs), *x.shape), self._cells).sum(0)

    @property
    def _cells(self) -> Cells:
        return Cells(self.state_weight, self.state_bias)

    def _project(self, x: Tensor) -> Tensor:
        """The part of the gates that comes from the input.   x [n, dim] -> [sides, n, 3 dim]."""
        return torch.baddbmm(
            self.input_bias, x.expand(len(self.input_weight), *x.shape), self.input_weight
        )


def _chains(windows: Windows, time: Tensor) -> tuple[Chains, Tensor, Tensor]:
    """The chains of windows over a context whose rows are at times [rows], from far to near; empty ones left out.

    Also the place of each chain's pair on its side [sides, chains], and the steps from a link to the next one or, from
    the last, to the time of the pair, [links, sides, chains].
    """
    sides = [(windows.past, windows.past.start, 1)]
    if windows.future is not None:
        sides.append((windows.future, windows.future.stop - 1, -1))
    lengths, order = torch.sort(
        torch.stack([ranges.lengths for ranges, _, _ in sides]), descending=True, stable=True
    )
    alive = longer_than(lengths)
    lengths, order = (part[:, : max(alive, default=0)] for part in (lengths, order))
    begin = torch.stack([begin for _, begin, _ in sides]).gather(1, order)
    stride = order.new_tensor([[step] for _, _, step in sides])
    link = torch.arange(len(alive) + 1, device=time.device)[:, None, None]
    row = torch.where(link < lengths, begin + link * stride, len(time) + order)
    moment = torch.cat([time, windows.time])[row]
    side = torch.arange(len(sides), device=time.device)[:, None]
    chains = Chains(
        torch.where(link < lengths, row + side * len(time), 0)[:-1], lengths.contiguous(), alive
    )
    return chains, order + side * len(windows.time), (moment[1:] - moment[:-1]).abs()


class TemporalAttention(nn.Module):
    """Multi-head attention of an entity at a time over its active steps in the window and over itself.

    The logit of a step loses max(0, rate * gap + shift): near steps weigh more.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.decay = Decay()

    def forward(self, x: Tensor, windows: Windows, context: Context) -> Tensor:
        """x [n, dim] at the times themselves -> [n, dim]."""
        pair, row, shares = self.shares(x, windows, context)
        values = self._split(self.value(torch.cat([context.x, x]))).index_select(0, row)
        mixed = (shares[..., None] * values).flatten(1)
        return mixed.new_zeros(x.shape).index_add(0, pair, mixed)

    def shares(
        self, x: Tensor, windows: Windows, context: Context
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Which rows each pair looks at, those of its windows and its own after all of the context, and how much.

        Pair and row [links], shares [links, heads]; those of a pair add up to 1.
        """
        pair, row = self._links(windows, len(context.time))
        query, keys = self._split(self.query(x)), self._split(self.key(torch.cat([context.x, x])))
        logits = (query.index_select(0, pair) * keys.index_select(0, row)).sum(-1) / math.sqrt(
            query.shape[-1]
        )
        gap = (torch.cat([context.time, windows.time])[row] - windows.time[pair]).abs()
        return pair, row, segment_softmax(logits - self.decay.exponent(gap)[:, None], pair, len(x))

    @staticmethod
    def _links(windows: Windows, rows: int) -> tuple[Tensor, Tensor]:
        """Pairs and the rows of a context of so many rows in their windows, and after these each pair with its own."""
        each = torch.arange(len(windows.time), device=windows.time.device)
        sides = [side.expand() for side in (windows.past, windows.future) if side is not None]
        pairs, positions = zip(*sides, (each, rows + each), strict=True)
        return torch.cat(pairs), torch.cat(positions)

    def alone(self, x: Tensor) -> Tensor:
        """What an entity without any active step in its window becomes: attention over itself, [n, dim]."""
        out: Tensor = self.value(x)
        return out

    def _split(self, x: Tensor) -> Tensor:
        return x.view(len(x), self.heads, x.shape[1] // self.heads)


class Imputation(nn.Module):
    """An inactive entity looks as it did at its nearest active steps, the more so the nearer they are.

    x^ = g- x_before + (1 - g-) x, or with both sides g-/2 x_before + g+/2 x_after + the rest of x; g as in Decay.
    """

    def __init__(self) -> None:
        super().__init__()
        self.decay = Decay()

    def forward(self, x: Tensor, windows: Windows, context: Context) -> Tensor:
        """x [n, dim] of the entities by themselves -> [n, dim]."""
        if not len(context.time):
            return x
        sides, nearest = [windows.past], [windows.past.stop - 1]
        if windows.future is not None:
            sides.append(windows.future)
            nearest.append(windows.future.start)
        row = torch.stack(nearest).clamp(0, len(context.time) - 1)
        seen = torch.stack([ranges.lengths for ranges in sides]) > 0
        share = self.decay((windows.time - context.time[row]).abs()) * seen / len(sides)
        near = context.x.index_select(0, row.flatten()).view(*row.shape, x.shape[-1])
        imputed: Tensor = (share[..., None] * near).sum(0) + (1 - share.sum(0))[:, None] * x
        return imputed


def along(chains: Chains, inputs: Tensor, kept: Tensor, cells: Cells) -> Tensor:
    """s_L of each chain of L links, [sides, chains, dim]: s_0 = 0, s_(j+1) = kept_j cell(inputs of link j, s_j).

    Inputs [rows, 3 dim] went through the cell's other weights already; kept [links, sides, chains].
    """
    if inputs.device.type == "cuda":
        from tempograph.nn.kernels.gru_kernel import along as fused

        return fused(chains, inputs, kept, cells)
    return along_plainly(chains, inputs, kept, cells)


def cell(x: Tensor, state: Tensor, cells: Cells) -> Tensor:
    """One GRU cell for each side.   x [sides, n, 3 dim], state [sides, n, dim] -> [sides, n, dim]."""
    if x.device.type == "cuda":
        from tempograph.nn.kernels.gru_kernel import cell as fused

        return fused(x, state, cells)
    return cell_plainly(x, state, cells)
