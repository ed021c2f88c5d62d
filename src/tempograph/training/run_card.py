"""The README.md of a run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def reliability_page(calibration: Mapping[str, Any]) -> str:
    """How far the probabilities of a run can be trusted, as Markdown."""
    return (
        f"Probabilities are softmax(scores / {calibration['temperature']:.3f}). On {calibration['facts']:,} facts of "
        f"{calibration['split']}, from both sides, the best answer is this sure and this often right; the mean "
        f"distance, the expected calibration error, is {calibration['calibration_error']:.3f}, and "
        f"{calibration['calibration_error_before']:.3f} before the temperature was fitted; the log loss, to which it "
        f"is fitted, is {calibration['log_loss']:.3f}, and {calibration['log_loss_before']:.3f} before.\n\n"
        f"{_reliability_rows(calibration['reliability'])}\n"
    )


def _reliability_rows(rows: Sequence[Mapping[str, float]]) -> str:
    """The reliability diagram as a Markdown table."""
    shares = {"mean": "confidence", "first is right": "right", "right one in ten": "among_ten"}
    shown = {column: share for column, share in shares.items() if share in rows[0]}
    head = [
        f"| {' | '.join(['probability', 'questions', *shown])} |",
        f"| --- |{' ---: |' * (1 + len(shown))}",
    ]
    return "\n".join(
        head
        + [
            f"| {row['from']:.0%} to {row['to']:.0%} | {row['questions']:,} | "
            + " | ".join(f"{row[share]:.1%}" for share in shown.values())
            + " |"
            for row in rows
        ]
    )
