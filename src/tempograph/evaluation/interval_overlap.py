"""How near predicted intervals are to true ones, first and last step included."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

INTERVAL_METRICS: Final = ("aeiou@1", "giou@1", "tac")


class Intervals(NamedTuple):
    """First and last steps, of any shapes that fit each other."""

    start: Tensor
    end: Tensor

    @property
    def length(self) -> Tensor:
        """The number of steps."""
        return self.end - self.start + 1


def aeiou(one: Intervals, other: Intervals) -> Tensor:
    """max(1, overlap) / hull: intervals that do not meet score more the nearer they are.

    Of Jain, Rathi, Mausam, Chakrabarti: Temporal Knowledge Base Completion: New Algorithms and
    Evaluation Protocols. EMNLP 2020.
    """
    return _overlap(one, other).clamp(min=1).double() / _hull(one, other)


def giou(one: Intervals, other: Intervals) -> Tensor:
    """overlap / union - gap / hull, between -1 and 1; the gap is what lies between intervals.

    Of Rezatofighi et al.: Generalized Intersection over Union. CVPR 2019.
    """
    overlap, hull = _overlap(one, other), _hull(one, other)
    union = one.length + other.length - overlap
    return overlap.double() / union - (hull - union).double() / hull


def tac(one: Intervals, other: Intervals, years: Tensor | None = None) -> Tensor:
    """The mean of 1 / (1 + |error in years|) over start and end.

    years: of each step; without them, errors are in steps.
    """
    if years is not None:
        one, other = (Intervals(years[each.start], years[each.end]) for each in (one, other))
    errors = torch.stack([(one.start - other.start).abs(), (one.end - other.end).abs()])
    means: Tensor = (1 / (1 + errors.double())).mean(0)
    return means


def interval_metrics(
    predicted: Intervals, true: Intervals, years: Tensor | None = None
) -> dict[str, float]:
    """The mean of each metric over n predictions; `tac` says what years are for."""
    values = (aeiou(predicted, true), giou(predicted, true), tac(predicted, true, years))
    means = (float(value.mean()) for value in values)
    return dict(zip(INTERVAL_METRICS, means, strict=True))


def _overlap(one: Intervals, other: Intervals) -> Tensor:
    shared = torch.minimum(one.end, other.end) - torch.maximum(one.start, other.start) + 1
    return shared.clamp(min=0)


def _hull(one: Intervals, other: Intervals) -> Tensor:
    return torch.maximum(one.end, other.end) - torch.minimum(one.start, other.start) + 1
