"""Rows of several groups, padded to one length, so that one batched product serves all groups."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor


def padded_layout(group: Tensor, num_groups: int) -> tuple[tuple[int, int], Tensor]:
    """The shape (groups, largest group) and the slot of each member in it when flattened, [n]."""
    count = torch.bincount(group, minlength=num_groups)
    largest = int(count.max())
    order = torch.argsort(group, stable=True)
    within = torch.arange(len(group), device=group.device) - (count.cumsum(0) - count)[group[order]]
    slot = torch.empty_like(group).index_copy(0, order, group[order] * largest + within)
    return (num_groups, largest), slot


def pad_groups(rows: Tensor, layout: tuple[int, int], slot: Tensor, fill: float = 0.0) -> Tensor:
    """Rows [n, ...] at their slots, `fill` elsewhere: [groups, largest, ...]."""
    flat = rows.new_full((layout[0] * layout[1], *rows.shape[1:]), fill).index_copy(0, slot, rows)
    return flat.view(*layout, *rows.shape[1:])


def chunk_groups(
    group: Tensor, max_groups: int, max_slots: float = math.inf
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Chunks of groups: the groups [groups], members [n], and each member's group in the chunk [n].

    The padded layout of a chunk has at most `max_slots` slots or twice as many as members: padding
    one large group and many small ones together would leave most slots empty.
    """
    groups, index, count = torch.unique(group, return_inverse=True, return_counts=True)
    sizes = count.tolist()
    for first in range(0, len(sizes), max_groups):
        for chunk in _by_size(range(first, min(first + max_groups, len(sizes))), sizes, max_slots):
            selected = torch.tensor(chunk, device=group.device)
            number = torch.full_like(groups, -1).index_copy(
                0, selected, torch.arange(len(chunk), device=group.device)
            )
            chunk_index = number[index]
            member = (chunk_index >= 0).nonzero()[:, 0]
            yield groups[selected], member, chunk_index[member]


def _by_size(groups: range, sizes: list[int], max_slots: float) -> list[list[int]]:
    """Groups in chunks as above, the largest groups first."""
    chunks: list[list[int]] = []
    members = 0
    for group in sorted(groups, key=lambda group: -sizes[group]):
        members += sizes[group]
        if not chunks or sizes[chunks[-1][0]] * (len(chunks[-1]) + 1) > max(max_slots, 2 * members):
            chunks.append([])
            members = sizes[group]
        chunks[-1].append(group)
    return [sorted(chunk) for chunk in chunks]
