"""The arithmetic of successive halving: who is kept, and how long each may train."""

from __future__ import annotations

import math
from collections.abc import Mapping


def keep_better_half(scores: Mapping[str, float | None]) -> list[str]:
    """The names of the better half, rounded up, in their order; none without a score is kept.

    Of equal scores, the earlier is better.
    """
    measured = {name: score for name, score in scores.items() if score is not None}
    ranked = sorted(measured, key=lambda name: -measured[name])
    kept = set(ranked[: math.ceil(len(scores) / 2)])
    return [name for name in scores if name in kept]


def halvings_left(trials: int) -> int:
    """How many times some trials can be halved until one is left."""
    return math.ceil(math.log2(trials)) if trials > 1 else 0


def share_of_trial(seconds: float, halvings: int, trials: int, jobs: int) -> float:
    """The seconds that each of some trials may train in the next round.

    The rounds of all halvings, and the training of the last trial after them, take equally long;
    `jobs` trials are trained at a time.
    """
    return seconds / (halvings + 1) / math.ceil(trials / jobs)
