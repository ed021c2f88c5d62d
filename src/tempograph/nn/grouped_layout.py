"""Rows of several groups laid out side by side, so that one batched product serves all groups."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor


def layout_of(group: Tensor, groups: int) -> tuple[tuple[int, int], Tensor]:
    """A layout (groups, most members) and each member's slot in it when flattened, [n]."""
    count = torch.bincount(group, minlength=groups)
    most = int(count.max())
    order = torch.argsort(group, stable=True)
    within = torch.arange(len(group), device=group.device) - (count.cumsum(0) - count)[group[order]]
    slot = torch.empty_like(group).index_copy(0, order, group[order] * most + within)
    return (groups, most), slot


def laid_out(rows: Tensor, layout: tuple[int, int], slot: Tensor, fill: float = 0.0) -> Tensor:
    """Rows [n, ...] at their slots of a layout (groups, most), filled up elsewhere: [groups, most, ...]."""
    flat = rows.new_full((layout[0] * layout[1], *rows.shape[1:]), fill).index_copy(0, slot, rows)
    return flat.view(*layout, *rows.shape[1:])


def parts_of(
    group: Tensor, most: int, slots: float = math.inf
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Groups by parts of at most so many: which, the positions of their members, and the place of each one's group.

    A part's layout has at most so many slots, or twice as many as members: one large group beside many small ones
    would leave most of it empty.   group [n] -> [groups], [members], [members].
    """
    groups, place, count = torch.unique(group, return_inverse=True, return_counts=True)
    sizes = count.tolist()
    for first in range(0, len(sizes), most):
        for part in _alike(range(first, min(first + most, len(sizes))), sizes, slots):
            which = torch.tensor(part, device=group.device)
            number = torch.full_like(groups, -1).index_copy(
                0, which, torch.arange(len(part), device=group.device)
            )
            at = number[place]
            inside = (at >= 0).nonzero()[:, 0]
            yield groups[which], inside, at[inside]


def _alike(groups: range, sizes: list[int], slots: float) -> list[list[int]]:
    """Groups by parts as above, the largest ones first."""
    parts: list[list[int]] = []
    members = 0
    for group in sorted(groups, key=lambda group: -sizes[group]):
        members += sizes[group]
        if not parts or sizes[parts[-1][0]] * (len(parts[-1]) + 1) > max(slots, 2 * members):
            parts.append([])
            members = sizes[group]
        parts[-1].append(group)
    return [sorted(part) for part in parts]
