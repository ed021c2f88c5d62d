"""How often answers are right by how sure they are, in bins, and as a table."""

from __future__ import annotations

from typing import Final

from torch import Tensor

BINS: Final = 10


def reliability(
    confidence: Tensor, right: Tensor, among: Tensor | None = None, bins: int = BINS
) -> list[dict[str, float]]:
    """How often the best answer is right by how sure it is, [n] each: one row for each bin that is not empty.

    With `among` also how often the right one is among the first ten.
    """
    place = (confidence * bins).long().clamp(0, bins - 1)
    table = []
    for number in range(bins):
        inside = place == number
        if inside.any():
            table.append(
                {
                    "from": number / bins,
                    "to": (number + 1) / bins,
                    "questions": int(inside.sum()),
                    "confidence": float(confidence[inside].double().mean()),
                    "right": float(right[inside].double().mean()),
                    **(
                        {} if among is None else {"among_ten": float(among[inside].double().mean())}
                    ),
                }
            )
    return table


def calibration_error(table: list[dict[str, float]]) -> float:
    """The mean distance between how sure and how often right, over all questions."""
    total = sum(row["questions"] for row in table)
    return sum(row["questions"] * abs(row["confidence"] - row["right"]) for row in table) / total
