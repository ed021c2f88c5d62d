"""How often the best answer is right, in bins of its probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NotRequired

import torch
from torch import Tensor
from typing_extensions import TypedDict  # That of typing has no schema before Python 3.12.

BINS: Final = 10

ReliabilityRow = TypedDict(
    "ReliabilityRow",
    {
        "from": float,
        "to": float,
        "questions": int,
        "confidence": float,
        "right": float,
        "among_ten": NotRequired[float],
    },
)
"""One bin of confidence: its bounds, the number of queries, the mean confidence, and how often the
best answer is right, or the right one among the best ten."""


def reliability(
    confidence: Tensor, right: Tensor, among: Tensor | None = None, bins: int = BINS
) -> list[ReliabilityRow]:
    """How often the best answer is right, by its probability: a row for each bin with queries.

    confidence, right and among [n]; `among` says whether the right answer is among the best ten.
    """
    bin_of = (confidence * bins).long().clamp(0, bins - 1)
    table = []
    for number in torch.unique(bin_of).tolist():
        inside = bin_of == number
        row: ReliabilityRow = {
            "from": number / bins,
            "to": (number + 1) / bins,
            "questions": int(inside.sum()),
            "confidence": float(confidence[inside].double().mean()),
            "right": float(right[inside].double().mean()),
        }
        if among is not None:
            row["among_ten"] = float(among[inside].double().mean())
        table.append(row)
    return table


def calibration_error(table: Sequence[ReliabilityRow]) -> float:
    """The expected calibration error: the mean of |confidence - accuracy| over all queries."""
    total = sum(row["questions"] for row in table)
    return sum(row["questions"] * abs(row["confidence"] - row["right"]) for row in table) / total


def reliability_cells(table: Sequence[ReliabilityRow]) -> tuple[list[str], list[list[str]]]:
    """The column names and the cells of a reliability table, as people read it."""
    columns = ["probability", "queries", "mean", "first is right"]
    cells = [
        [
            f"{row['from']:.0%} to {row['to']:.0%}",
            f"{row['questions']:,}",
            f"{row['confidence']:.1%}",
            f"{row['right']:.1%}",
            *([f"{row['among_ten']:.1%}"] if "among_ten" in row else []),
        ]
        for row in table
    ]
    return columns + ["right answer in first ten"] * ("among_ten" in table[0]), cells
