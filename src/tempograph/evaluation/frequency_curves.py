"""Metrics against a frequency: the paper's frequency effects as curves with confidence bounds."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tempograph.data.frequency import PATTERNS, PatternFrequencies
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.evaluation.rank_table import Floats, Integers, Measure, RankTable, Side

EFFECTS: Final[dict[str, tuple[tuple[Side, str], ...]]] = {
    "replication": (
        *(("subject", "s"), ("subject", "sr"), ("object", "o")),
        *(("object", "ro"), ("both", "so"), ("both", "sro")),
    ),
    "reference": (
        *(("object", "s"), ("object", "sr"), ("subject", "o")),
        *(("subject", "ro"), ("object", "r"), ("subject", "r")),
    ),
}
"""Pairs of a queried side and a pattern: one that holds the answer, or one that holds the given.

They are the paper's, but for the relation alone, which makes the seven patterns complete.
"""

_Z: Final = 1.959964
"""Standard deviations on each side that hold 95% of a normal distribution."""
_BANDWIDTH: Final = 0.35
"""The width of the smoothing kernel, in natural logarithms of a frequency: a factor of 1.4."""


class Curve(NamedTuple):
    """A mean along an axis, [points] each: where, over how many queries, and its bounds."""

    at: Floats
    questions: Floats
    mean: Floats
    low: Floats
    high: Floats


def pattern_frequencies(ranks: RankTable, graph: TemporalGraph, past: int, future: int) -> Integers:
    """The seven temporal pattern frequencies of each query's fact, as in PATTERNS, [n, 7]."""
    counter, facts = PatternFrequencies(Timeline(graph)), torch.from_numpy(ranks.facts[:, :4])
    frequencies: Integers = counter.count(facts, past, future).numpy()
    return frequencies


def effect_curves(
    ranks: RankTable,
    frequencies: Integers,
    side: Side,
    pattern: str,
    measure: Measure = "hits@10",
    bins: int = 12,
) -> tuple[Curve, Curve]:
    """A measure against one pattern's frequency for the queries of a side: binned, and smoothed."""
    queries = ranks.on_side(side)
    frequency = frequencies[queries, PATTERNS.index(pattern)]
    values = ranks.values(measure)[queries]
    binned = binned_curve(frequency, values, frequency_bins(frequency, bins))
    return binned, smoothed_curve(frequency, values)


def frequency_bins(frequency: Integers, count: int = 12) -> Integers:
    """The bin of each frequency [n]: 0 has its own, the others hold about equally many."""
    positive = frequency[frequency > 0]
    if not len(positive):
        return np.zeros_like(frequency)
    edges = np.unique(np.quantile(positive, np.linspace(0, 1, count + 1)[1:-1], method="higher"))
    return np.where(frequency > 0, 1 + np.searchsorted(edges, frequency, side="right"), 0)


def binned_curve(frequency: Integers, values: Floats, bins: Integers) -> Curve:
    """The mean value of each bin with queries, at its mean log frequency.   [n] each."""
    _, index = np.unique(bins, return_inverse=True)
    count = np.bincount(index).astype(np.float64)
    mean = np.bincount(index, values) / count
    low, high = confidence_bounds(mean, count, np.bincount(index, values**2) / count)
    at = np.expm1(np.bincount(index, np.log1p(frequency)) / count)
    return Curve(at, count, mean, low, high)


def smoothed_curve(
    frequency: Integers, values: Floats, points: int = 48, min_weight: float = 10
) -> Curve:
    """The mean value around each point of a logarithmic grid, weighted by a normal kernel.

    Frequencies of 0 are left out, and so are points whose weights add up to less than `min_weight`.
    `questions` is the effective sample size (sum of weights)^2 / (sum of squared weights).
    """
    distinct, index = np.unique(frequency[frequency > 0], return_inverse=True)
    if len(distinct) < 2:
        return Curve(*(np.empty(0) for _ in Curve._fields))
    values, log_frequency = values[frequency > 0], np.log(distinct)
    grid = np.linspace(log_frequency[0], log_frequency[-1], points)
    weight = np.exp(-(((grid[:, None] - log_frequency) / _BANDWIDTH) ** 2) / 2)
    count = np.bincount(index)
    total = weight @ count
    mean, mean_square = (weight @ np.bincount(index, values**power) / total for power in (1, 2))
    effective = total**2 / (weight**2 @ count)
    low, high = confidence_bounds(mean, effective, mean_square)
    near = total >= min_weight
    return Curve(*(column[near] for column in (np.exp(grid), effective, mean, low, high)))


def confidence_bounds(mean: Floats, count: Floats, mean_square: Floats) -> tuple[Floats, Floats]:
    """Wilson's 95% bounds of a mean of values between 0 and 1.

    Values of 0 and 1 have the largest variance that a mean allows; others count as that many more
    queries as their variance is smaller.
    """
    largest, variance = mean * (1 - mean), mean_square - mean**2
    factor = np.divide(largest, variance, out=np.ones_like(mean), where=variance > 1e-12)
    return wilson_bounds(mean, count * np.maximum(factor, 1))


def wilson_bounds(share: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Wilson's 95% bounds of a share among `count` queries."""
    scale = 1 + _Z**2 / count
    centre = (share + _Z**2 / (2 * count)) / scale
    radius = _Z / scale * np.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return np.clip(centre - radius, 0, share), np.clip(centre + radius, share, 1)


def shares_with_at_least(counts: Integers) -> tuple[Integers, Floats]:
    """The distinct counts above 0, and the share of all counts that are at least as large."""
    distinct, times = np.unique(counts[counts > 0], return_counts=True)
    return distinct, times[::-1].cumsum()[::-1] / max(1, len(counts))


def rolling_mean(values: NDArray[Any], width: int) -> Floats:
    """The mean of the values at most width // 2 positions away from each, [n]."""
    total = np.concatenate([[0], np.cumsum(values, dtype=np.float64)])
    index = np.arange(len(values))
    low, high = (index - width // 2).clip(min=0), (index + width // 2 + 1).clip(max=len(values))
    mean: Floats = (total[high] - total[low]) / (high - low)
    return mean
