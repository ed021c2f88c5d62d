"""Rows of groups side by side, and groups by parts, against a loop."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tempograph.nn.padded_groups import chunk_groups, pad_groups, padded_layout


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_groups_are_padded_after_their_rows(groups: list[int]) -> None:
    rows = torch.arange(2.0 * len(groups)).view(-1, 2)
    layout, slot = padded_layout(torch.tensor(groups), 5)
    members = [
        [row for row, group in zip(rows.tolist(), groups, strict=True) if group == number]
        for number in range(5)
    ]
    largest = max(map(len, members))
    assert layout == (5, largest)
    padded = pad_groups(rows, layout, slot, fill=-1.0)
    assert padded.tolist() == [mine + [[-1.0, -1.0]] * (largest - len(mine)) for mine in members]
    assert torch.equal(padded.flatten(0, 1)[slot], rows)
    assert torch.equal(pad_groups(rows[:, 0], layout, slot), pad_groups(rows, layout, slot)[..., 0])


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 11), st.integers(0, 60))
def test_every_group_is_in_one_chunk_and_chunks_are_within_bounds(
    members: list[int], max_groups: int, slots: int
) -> None:
    group, covered = torch.tensor(members, dtype=torch.int64), []
    for groups, member, index in chunk_groups(group, max_groups, slots):
        assert torch.equal(groups[index], group[member])
        assert (
            groups.tolist() == sorted(set(groups.tolist())) == sorted(set(group[member].tolist()))
        )
        (rows, columns), _ = padded_layout(index, len(groups))
        assert rows <= max_groups and rows * columns <= max(slots, 2 * len(member))
        assert member.tolist() == [
            number for number, each in enumerate(members) if each in groups.tolist()
        ]
        covered += groups.tolist()
    assert sorted(covered) == sorted(set(members))


@pytest.mark.parametrize(
    ("sizes", "slots", "parts"),
    [
        ([9] * 6, 0, [[0, 1, 2, 3, 4, 5]]),
        ([9, 5, 9, 1, 9, 5], 0, [[0, 1, 2, 3, 4, 5]]),
        ([2, 2, 90, 2, 2, 2], 0, [[0, 2], [1, 3, 4, 5]]),
        ([2, 2, 90, 2, 2, 2], 539, [[0, 1, 2, 3, 4], [5]]),
        ([2, 2, 90, 2, 2, 2], 540, [[0, 1, 2, 3, 4, 5]]),
        ([1, 4, 40, 400, 4, 1], 0, [[2, 3], [0, 1, 4, 5]]),
    ],
)
def test_chunks_are_split_only_to_avoid_mostly_empty_layouts(
    sizes: list[int], slots: int, parts: list[list[int]]
) -> None:
    group = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    assert [groups.tolist() for groups, _, _ in chunk_groups(group, 6, slots)] == parts
    assert [groups.tolist() for groups, _, _ in chunk_groups(group, 4)] == [[0, 1, 2, 3], [4, 5]]
