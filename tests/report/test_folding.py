"""Columns that fit a width, and names folded into them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tempograph.report.folding import column_widths, fold

NAMES = st.text("abc W漢-", max_size=60)


@pytest.mark.parametrize(
    ("cells", "room", "widths"),
    [
        (["ab", "c" * 9, "d" * 5], 40, [2, 9, 5]),
        (["ab", "c" * 9, "d" * 5], 18, [2, 7, 5]),
        (["ab", "c" * 900, "d" * 5], 12, [2, 3, 3]),
        (["ab", "漢字", "one\nlonger"], 40, [2, 4, 6]),
    ],
)
def test_the_widest_columns_give_way_first(cells: list[str], room: int, widths: list[int]) -> None:
    assert column_widths([cells, ["", "c", "d"]], room, gap=2) == widths


@given(NAMES, st.integers(2, 30))
def test_a_folded_name_is_whole(name: str, width: int) -> None:
    lines = fold(name, width)
    assert "".join("".join(lines).split()) == "".join(name.split())
    assert all(cell_len(line) <= width for line in lines)
    assert "" not in lines or lines == [""]
