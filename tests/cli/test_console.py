"""Tables as commands print them."""

from __future__ import annotations

import pytest

from tempograph.cli.console import out, show
from tempograph.report.text_table import TextTable

COLUMNS = tuple(f"column {number}" for number in range(20))
ROW = [f"{number},000,000" for number in range(20)]


@pytest.mark.parametrize("width", [30, 80])
def test_a_table_in_a_pipe_is_whole(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out, "_width", width)
    assert not show(TextTable("Wide", COLUMNS, [ROW], 0))
    lines = capsys.readouterr().out.splitlines()
    assert ROW in [line.split() for line in lines]
    assert any(all(column in line for column in COLUMNS) for line in lines)


def test_a_table_takes_its_narrow_form_if_that_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out, "_width", 40)
    narrow = [("first", [0]), ("others", [1, 2])]
    assert not show(TextTable("Wide", COLUMNS, [ROW], 0, narrow_columns=narrow))
    assert capsys.readouterr().out.split()[:3] == ["Wide", "first", "others"]
