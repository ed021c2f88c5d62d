"""A GRU over packed sequences in plain PyTorch; `kernels.gru_kernel` is the fused version."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor


class PackedSequences(NamedTuple):
    """Sequences of each direction, the longest first; independent of any weight."""

    row: Tensor
    """Row of the inputs at each step, [steps, directions, sequences]; arbitrary after the end."""
    lengths: Tensor
    """[directions, sequences]."""
    batch_sizes: list[int]
    """Sequences longer than 0, 1, 2, ... steps, in the direction with the most."""


class GRUWeights(NamedTuple):
    """The recurrent weights of one GRU cell for each direction."""

    weight: Tensor
    """[directions, dim, 3 dim]."""
    bias: Tensor
    """[directions, 1, 3 dim]."""


def run_gru_torch(
    sequences: PackedSequences, inputs: Tensor, decay: Tensor, weights: GRUWeights
) -> Tensor:
    """`temporal.run_gru` in plain PyTorch, one batched cell for each step."""
    directions, count = sequences.lengths.shape
    state = inputs.new_zeros(directions, count, weights.weight.shape[1])
    sizes = sequences.batch_sizes
    if not sizes:
        return state
    # One lookup for all steps, so that backward accumulates into the inputs once.
    rows = torch.cat(
        [row[:, :size].flatten() for row, size in zip(sequences.row, sizes, strict=True)]
    )
    steps = torch.split(inputs.index_select(0, rows), [directions * size for size in sizes])
    finished: list[Tensor] = []
    for step, (size, next_size) in enumerate(pairwise([*sizes, 0])):
        new = (
            gru_cell_torch(steps[step].view(directions, size, -1), state, weights)
            * decay[step, :, :size, None]
        )
        # Sequences that have ended in one direction keep their state until the other is done.
        state = torch.where(step < sequences.lengths[:, :size, None], new, state)
        state, ended = torch.split(state, [next_size, size - next_size], dim=1)
        finished.append(ended)
    return torch.cat(finished[::-1], dim=1)


def gru_cell_torch(x: Tensor, state: Tensor, weights: GRUWeights) -> Tensor:
    """`temporal.gru_cell` in plain PyTorch."""
    from_state = torch.baddbmm(weights.bias, state, weights.weight)
    reset_in, update_in, new_in = x.chunk(3, -1)
    reset_state, update_state, new_state = from_state.chunk(3, -1)
    reset = torch.sigmoid(reset_in + reset_state)
    update = torch.sigmoid(update_in + update_state)
    new = torch.tanh(new_in + reset * new_state)
    return new + update * (state - new)


def batch_sizes(lengths: Tensor) -> list[int]:
    """`PackedSequences.batch_sizes` of lengths [directions, sequences]."""
    if not lengths.numel():
        return []
    steps = torch.arange(int(lengths.max()), device=lengths.device)
    return (lengths[..., None] > steps).sum(-2).flatten(0, -2).amax(0).tolist()
