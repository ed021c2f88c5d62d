"""How often answers are right by how confident they are, as a text table."""

from __future__ import annotations

from tempograph.evaluation.calibration import Calibration, reliability_cells
from tempograph.report.text_table import TextTable


def reliability_table(calibration: Calibration, title: str, caption: str = "") -> TextTable:
    """The reliability of a calibration."""
    columns, cells = reliability_cells(calibration["reliability"])
    return TextTable(title, tuple(columns), cells, 1, caption)
