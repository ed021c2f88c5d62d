"""How often answers are right by how sure they are, in bins, and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torch import Tensor

from tempograph.sheet import Sheet

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
                    **({} if among is None else {"among_ten": float(among[inside].double().mean())}),
                }
            )
    return table


def calibration_error(table: list[dict[str, float]]) -> float:
    """The mean distance between how sure and how often right, over all questions."""
    total = sum(row["questions"] for row in table)
    return sum(row["questions"] * abs(row["confidence"] - row["right"]) for row in table) / total


def reliability_sheet(calibration: Mapping[str, Any], title: str, caption: str = "") -> Sheet:
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
    return Sheet(title, ("probability", "questions", *shown), cells, 1, caption)


def reliability_page(calibration: Mapping[str, Any]) -> str:
    """How far the probabilities of a run can be trusted, as Markdown."""
    return (
        f"Probabilities are softmax(scores / {calibration['temperature']:.3f}). On {calibration['facts']:,} facts of "
        f"{calibration['split']}, from both sides, the best answer is this sure and this often right; the mean "
        f"distance, the expected calibration error, is {calibration['calibration_error']:.3f}, and "
        f"{calibration['calibration_error_before']:.3f} before the temperature was fitted; the log loss, to which it "
        f"is fitted, is {calibration['log_loss']:.3f}, and {calibration['log_loss_before']:.3f} before.\n\n"
        f"{reliability_sheet(calibration, '').markdown()}\n"
    )
