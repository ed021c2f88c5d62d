"""GRU cells along many chains of different lengths at once: fused on a GPU, plain elsewhere."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor


class Chains(NamedTuple):
    """Chains of each side, the longest first; none of it depends on any weight."""

    row: Tensor
    """The row of its input that link j of a chain takes, [links, sides, chains]; any row where there is no link j."""
    lengths: Tensor
    """[sides, chains]."""
    alive: list[int]
    """How many chains have a link 0, 1, 2, ... on the side with the most."""


class Cells(NamedTuple):
    """What a GRU cell makes of states, one cell for each side."""

    weight: Tensor
    """[sides, dim, 3 dim]."""
    bias: Tensor
    """[sides, 1, 3 dim]."""


def along_plainly(chains: Chains, inputs: Tensor, kept: Tensor, cells: Cells) -> Tensor:
    """`along` in plain operations: link j is one batched cell over the chains that have it."""
    sides, count = chains.lengths.shape
    state = inputs.new_zeros(sides, count, cells.weight.shape[1])
    if not chains.alive:
        return state
    # All links are looked up at once, so that backward adds to all rows once.
    rows = torch.cat(
        [row[:, :here].flatten() for row, here in zip(chains.row, chains.alive, strict=True)]
    )
    taken = torch.split(inputs.index_select(0, rows), [sides * here for here in chains.alive])
    finished: list[Tensor] = []
    for link, (here, after) in enumerate(pairwise([*chains.alive, 0])):
        new = (
            cell_plainly(taken[link].view(sides, here, -1), state, cells)
            * kept[link, :, :here, None]
        )
        # A side whose chains have ended waits for the other: its states stay as they are.
        state = torch.where(link < chains.lengths[:, :here, None], new, state)
        state, ended = torch.split(state, [after, here - after], dim=1)
        finished.append(ended)
    return torch.cat(finished[::-1], dim=1)


def cell_plainly(x: Tensor, state: Tensor, cells: Cells) -> Tensor:
    """`cell` in plain operations."""
    from_state = torch.baddbmm(cells.bias, state, cells.weight)
    reset_in, update_in, new_in = x.chunk(3, -1)
    reset_state, update_state, new_state = from_state.chunk(3, -1)
    reset = torch.sigmoid(reset_in + reset_state)
    update = torch.sigmoid(update_in + update_state)
    new = torch.tanh(new_in + reset * new_state)
    return new + update * (state - new)


def longer_than(lengths: Tensor) -> list[int]:
    """How many chains are longer than 0, 1, 2, ... up to the longest, on the side with the most.   [sides, n]."""
    if not lengths.numel():
        return []
    steps = torch.arange(int(lengths.max()), device=lengths.device)
    return (lengths[..., None] > steps).sum(-2).flatten(0, -2).amax(0).tolist()
