"""Rows of groups side by side against a loop."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from tempograph.layers.layout import laid_out, layout_of


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_each_group_holds_its_rows_in_their_order_and_then_the_fill(groups: list[int]) -> None:
    rows = torch.arange(2.0 * len(groups)).view(-1, 2)
    layout, slot = layout_of(torch.tensor(groups), 5)
    members = [
        [row for row, group in zip(rows.tolist(), groups, strict=True) if group == number] for number in range(5)
    ]
    most = max(map(len, members))
    assert layout == (5, most)
    laid = laid_out(rows, layout, slot, fill=-1.0)
    assert laid.tolist() == [mine + [[-1.0, -1.0]] * (most - len(mine)) for mine in members]
    assert torch.equal(laid.flatten(0, 1)[slot], rows)
    assert torch.equal(laid_out(rows[:, 0], layout, slot), laid_out(rows, layout, slot)[..., 0])
