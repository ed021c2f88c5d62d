"""Rows of several groups laid out side by side, so that one batched product serves all groups."""

from __future__ import annotations

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
