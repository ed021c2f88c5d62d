"""How near predicted intervals are to true ones, in steps, first and last step included."""

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


def tac(one: Intervals, other: Intervals) -> Tensor:
    """The mean of 1 / (1 + |error|) over start and end."""
    errors = torch.stack([(one.start - other.start).abs(), (one.end - other.end).abs()])
    means: Tensor = (1 / (1 + errors.double())).mean(0)
    return means


def interval_metrics(predicted: Intervals, true: Intervals) -> dict[str, float]:
    """The mean of each metric over n predictions."""
    values = (measure(predicted, true).mean() for measure in (aeiou, giou, tac))
    return dict(zip(INTERVAL_METRICS, map(float, values), strict=True))


def _overlap(one: Intervals, other: Intervals) -> Tensor:
    shared = torch.minimum(one.end, other.end) - torch.maximum(one.start, other.start) + 1
    return shared.clamp(min=0)


def _hull(one: Intervals, other: Intervals) -> Tensor:
    return torch.maximum(one.end, other.end) - torch.minimum(one.start, other.start) + 1
