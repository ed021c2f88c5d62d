"""Encoders across time: from an entity's active steps around a time to its state at that time."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tempograph.data.sorted_ranges import Ranges
from tempograph.nn.packed_gru import (
    GRUWeights,
    PackedSequences,
    batch_sizes,
    gru_cell_torch,
    run_gru_torch,
)
from tempograph.nn.structure import segment_softmax


class Context(NamedTuple):
    """Entities at their active steps, x [rows, dim] and time [rows], sorted by (entity, time)."""

    x: Tensor
    time: Tensor


class Windows(NamedTuple):
    """Of n (entity, time) pairs: the time [n] and the entity's context rows before and after it."""

    time: Tensor
    past: Ranges
    future: Ranges | None


class Decay(nn.Module):
    """exp(-max(0, rate * gap + shift)), with learned rate and shift."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(0.1))
        self.shift = nn.Parameter(torch.tensor(0.0))

    def exponent(self, gap: Tensor) -> Tensor:
        """max(0, rate * gap + shift), for gaps in steps of any shape."""
        return (self.rate * gap + self.shift).clamp(min=0)

    def forward(self, gap: Tensor) -> Tensor:
        """The factor for gaps in steps of any shape."""
        return torch.exp(-self.exponent(gap))


class DecayedGRU(nn.Module):
    """The encoder of TeMP-GRU.

    z_t = GRU(x_t, decay(t - t') z_t') along an entity's active steps t' and then t itself.

    With a future, a second cell runs from the farthest later step towards t, and both states are
    added. n pairs with windows of at most L active steps cost O(n L dim^2) in L batched steps.
    """

    def __init__(self, dim: int, bidirectional: bool) -> None:
        super().__init__()
        directions, bound = 1 + bidirectional, 1 / math.sqrt(dim)

        def uniform(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(directions, *shape).uniform_(-bound, bound))

        self.input_weight = uniform(dim, 3 * dim)
        self.state_weight = uniform(dim, 3 * dim)
        self.input_bias = uniform(1, 3 * dim)
        self.state_bias = uniform(1, 3 * dim)
        self.decay = Decay()

    def forward(self, x: Tensor, windows: Windows, context: Context) -> Tensor:
        """x [n, dim] at the times themselves -> [n, dim]."""
        sequences, pair, gap = _pack(windows, context.time)
        inputs = self._project(context.x).flatten(0, 1)
        states = run_gru(sequences, inputs, self.decay(gap), self._weights)
        zeros = states.new_zeros(len(states) * len(x), states.shape[-1])
        previous = zeros.index_copy(0, pair.flatten(), states.flatten(0, 1)).view(
            len(states), *x.shape
        )
        return gru_cell(self._project(x), previous, self._weights).sum(0)

    def without_context(self, x: Tensor) -> Tensor:
        """The states of entities without any active step in their windows, [n, dim]."""
        inputs = self._project(x)
        return gru_cell(inputs, x.new_zeros(len(inputs), *x.shape), self._weights).sum(0)

    @property
    def _weights(self) -> GRUWeights:
        return GRUWeights(self.state_weight, self.state_bias)

    def _project(self, x: Tensor) -> Tensor:
        """The input part of the gates.   x [n, dim] -> [directions, n, 3 dim]."""
        return torch.baddbmm(
            self.input_bias, x.expand(len(self.input_weight), *x.shape), self.input_weight
        )


def _pack(windows: Windows, time: Tensor) -> tuple[PackedSequences, Tensor, Tensor]:
    """The nonempty windows over context rows at times [rows] as sequences, from far to near.

    Also the pair of each sequence [directions, sequences], and the gap from each step to the next
    one or, from the last, to the time of the pair, [steps, directions, sequences].
    """
    directions = [(windows.past, windows.past.start, 1)]
    if windows.future is not None:
        directions.append((windows.future, windows.future.stop - 1, -1))
    lengths, order = torch.sort(
        torch.stack([ranges.lengths for ranges, _, _ in directions]), descending=True, stable=True
    )
    sizes = batch_sizes(lengths)
    lengths, order = (part[:, : max(sizes, default=0)] for part in (lengths, order))
    first = torch.stack([first for _, first, _ in directions]).gather(1, order)
    stride = order.new_tensor([[stride] for _, _, stride in directions])
    step = torch.arange(len(sizes) + 1, device=time.device)[:, None, None]
    row = torch.where(step < lengths, first + step * stride, len(time) + order)
    row_time = torch.cat([time, windows.time])[row]
    direction = torch.arange(len(directions), device=time.device)[:, None]
    sequences = PackedSequences(
        torch.where(step < lengths, row + direction * len(time), 0)[:-1],
        lengths.contiguous(),
        sizes,
    )
    pair = order + direction * len(windows.time)
    return sequences, pair, (row_time[1:] - row_time[:-1]).abs()


class TemporalAttention(nn.Module):
    """The encoder of TeMP-SA.

    z_t = sum over t' of a_t' V x_t', over the active steps t' in the window and t itself.

    a is, for each head, the softmax of `(Q x_t) . (K x_t') / sqrt(d) - decay exponent of |t - t'|`.
    Costs O((n + rows) dim^2 + links dim) for n pairs with `links` context rows in their windows.
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
        pair, row, weights = self.attention_weights(x, windows, context)
        values = self._split(self.value(torch.cat([context.x, x]))).index_select(0, row)
        weighted = (weights[..., None] * values).flatten(1)
        return weighted.new_zeros(x.shape).index_add(0, pair, weighted)

    def attention_weights(
        self, x: Tensor, windows: Windows, context: Context
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Pair and row of each link [links], and its weights [links, heads], a softmax per pair.

        Rows are those of the context, followed by one for each pair itself.
        """
        pair, row = self._links(windows, len(context.time))
        query, keys = self._split(self.query(x)), self._split(self.key(torch.cat([context.x, x])))
        logits = (query.index_select(0, pair) * keys.index_select(0, row)).sum(-1) / math.sqrt(
            query.shape[-1]
        )
        gap = (torch.cat([context.time, windows.time])[row] - windows.time[pair]).abs()
        return pair, row, segment_softmax(logits - self.decay.exponent(gap)[:, None], pair, len(x))

    @staticmethod
    def _links(windows: Windows, num_rows: int) -> tuple[Tensor, Tensor]:
        """Each pair with the context rows in its windows, then each pair with its own row."""
        pair = torch.arange(len(windows.time), device=windows.time.device)
        sides = [side.expand() for side in (windows.past, windows.future) if side is not None]
        pairs, rows = zip(*sides, (pair, num_rows + pair), strict=True)
        return torch.cat(pairs), torch.cat(rows)

    def without_context(self, x: Tensor) -> Tensor:
        """The states of entities without any active step in their windows, [n, dim]."""
        out: Tensor = self.value(x)
        return out

    def _split(self, x: Tensor) -> Tensor:
        return x.view(len(x), self.heads, x.shape[1] // self.heads)


class Imputation(nn.Module):
    """x^_t = g- x_before + (1 - g-) x: an inactive entity resembles its nearest active steps.

    With both sides, x^_t = g-/2 x_before + g+/2 x_after + (1 - g-/2 - g+/2) x; g is the `Decay` of
    the gap, 0 without such a step.
    """

    def __init__(self) -> None:
        super().__init__()
        self.decay = Decay()

    def forward(self, x: Tensor, windows: Windows, context: Context) -> Tensor:
        """x [n, dim] of the entities without context -> [n, dim]."""
        if not len(context.time):
            return x
        sides, nearest = [windows.past], [windows.past.stop - 1]
        if windows.future is not None:
            sides.append(windows.future)
            nearest.append(windows.future.start)
        row = torch.stack(nearest).clamp(0, len(context.time) - 1)
        exists = torch.stack([ranges.lengths for ranges in sides]) > 0
        share = self.decay((windows.time - context.time[row]).abs()) * exists / len(sides)
        near = context.x.index_select(0, row.flatten()).view(*row.shape, x.shape[-1])
        imputed: Tensor = (share[..., None] * near).sum(0) + (1 - share.sum(0))[:, None] * x
        return imputed


def run_gru(
    sequences: PackedSequences, inputs: Tensor, decay: Tensor, weights: GRUWeights
) -> Tensor:
    """The last state of each sequence: z_0 = 0, z_(j+1) = decay_j GRU(input j, z_j).

    inputs [rows, 3 dim] are already multiplied by the input weights, decay [steps, directions,
    sequences] -> [directions, sequences, dim].
    """
    if inputs.device.type == "cuda":
        from tempograph.nn.kernels.gru_kernel import run_gru as fused

        return fused(sequences, inputs, decay, weights)
    return run_gru_torch(sequences, inputs, decay, weights)


def gru_cell(x: Tensor, state: Tensor, weights: GRUWeights) -> Tensor:
    """One GRU cell for each direction.   x [directions, n, 3 dim], state [directions, n, dim]."""
    if x.device.type == "cuda":
        from tempograph.nn.kernels.gru_kernel import gru_cell as fused

        return fused(x, state, weights)
    return gru_cell_torch(x, state, weights)
