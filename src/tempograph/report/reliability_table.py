"""How often answers are right by how confident they are, as a text table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tempograph.report.text_table import TextTable


def reliability_table(calibration: Mapping[str, Any], title: str, caption: str = "") -> TextTable:
    """What `reliability` found, for people."""
    rows = calibration["reliability"]
    shares = {"mean": "confidence", "first is right": "right", "right one in ten": "among_ten"}
    shown = {column: share for column, share in shares.items() if share in rows[0]}
    cells = [
        [
            f"{row['from']:.0%} to {row['to']:.0%}",
            f"{row['questions']:,}",
            *(f"{row[each]:.1%}" for each in shown.values()),
        ]
        for row in rows
    ]
    return TextTable(title, ("probability", "questions", *shown), cells, 1, caption)
