"""Text in columns that fit a width: the widest columns give way, and long names are folded."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len


def column_widths(rows: Sequence[Sequence[str]], room: int, gap: int) -> list[int]:
    """The width of each column of cells, in letters, with `gap` between columns.

    If the columns need more than `room`, the widest give way first.
    """
    lines = [[max(map(cell_len, cell.split("\n"))) for cell in row] for row in rows]
    widths = [max(column) for column in zip(*lines, strict=True)]
    room -= gap * (len(widths) - 1)
    widest = max(widths)
    while widest > 1 and sum(min(width, widest) for width in widths) > room:
        widest -= 1
    return [min(width, widest) for width in widths]


def fold(name: str, width: int) -> list[str]:
    """A name in lines of at most `width` letters, broken at spaces where there are any."""
    lines = textwrap.wrap(name, width, break_on_hyphens=False) or [""]
    letters = width
    # Letters of some scripts take the room of two.
    while letters > 1 and any(cell_len(line) > width for line in lines):
        letters -= 1
        lines = textwrap.wrap(name, letters, break_on_hyphens=False)
    return lines
