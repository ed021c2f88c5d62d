"""From plausibility step by step to intervals: how likely each is, and which is best.

    P(I | s, r, o) ~ P(length of I | r) exp(sum over t in I of sharpness (m_t - max m) + threshold)
    m_t = plausibility + w log P(t | r)

The model says how plausible the fact is at step t (`step_plausibility`), and train facts at which
steps those of a relation hold (`fit_density`). An interval gains by a step that
is nearly as plausible as the best one and loses by any other. The best interval is the one with the
highest overlap (aeIOU) to expect, which is more useful than the most likely one: neighbors of the
best interval are nearly as likely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.data.spans import Bounds
from tempograph.data.timeline import Timeline
from tempograph.evaluation.interval_overlap import Intervals, aeiou
from tempograph.typing import Progress

_MAX_LENGTHS: Final = 48
"""Different lengths of closed intervals that are candidates."""
_CONSIDERED: Final = 64
"""The most likely intervals, among which the best are chosen."""
_SMOOTHING: Final = 4.0
"""How many facts of a relation the lengths of all relations are worth."""
_SHARPNESS: Final = (0.1, 0.3, 1.0, 3.0)
_THRESHOLDS: Final = (0.0, 0.1, 0.3, 1.0, 2.0)
_DENSITY_WEIGHTS: Final = (0.1, 0.2, 0.4)
_CELLS: Final = 2**24
"""Candidates that are compared at once."""


class Lengths(NamedTuple):
    """How long facts hold, by relation: candidates and their log probabilities.

    The last two columns stand for facts with an open end and an open start.
    """

    steps: Tensor
    """[lengths] ascending."""
    log_prob: Tensor
    """[relations, lengths + 2]."""


def fit_lengths(timeline: Timeline) -> Lengths:
    """How long train facts hold, by relation; each length stands for those up to the next."""
    facts, device = timeline.facts, timeline.device
    length = timeline.fact_end - facts[:, 3] + 1
    bounds = timeline.fact_bounds if timeline.fact_bounds is not None else torch.zeros_like(length)
    closed = bounds == 0
    known = length[closed] if closed.any() else length.new_ones(1)
    quantiles = torch.linspace(0, len(known) - 1, _MAX_LENGTHS, device=device).round().long()
    steps = torch.unique(known.sort().values[quantiles])
    column = torch.searchsorted(steps, length, right=True) - 1
    column = torch.where((bounds & Bounds.OPEN_END) > 0, len(steps), column)
    column = torch.where(bounds == Bounds.OPEN_START, len(steps) + 1, column)
    counts = torch.zeros(timeline.num_relations, len(steps) + 2, dtype=torch.float64, device=device)
    counted = (bounds & (Bounds.UNKNOWN_START | Bounds.UNKNOWN_END)) == 0
    cell = facts[counted, 1] * counts.shape[1] + column[counted]
    counts.view(-1).index_add_(0, cell, torch.ones_like(cell, dtype=torch.float64))
    total = counts.sum(0) + 1e-3
    counts += _SMOOTHING * total / total.sum()
    return Lengths(steps, (counts / counts.sum(1, keepdim=True)).log())


class BestIntervals(NamedTuple):
    """The best intervals of n facts, best first, [n, k] each."""

    intervals: Intervals
    probability: Tensor
    """Of exactly this interval."""
    overlap: Tensor
    """The aeIOU with the true interval to expect."""


@dataclass(frozen=True)
class IntervalChooser:
    """Chooses intervals by how plausible a fact is at each step."""

    lengths: Lengths
    sharpness: float = 1.0
    threshold: float = 0.3
    density: Tensor | None = None
    """log P(t | r), [relations, all steps]; None to look at plausibility alone."""
    density_weight: float = 0.0

    def best(
        self, plausibility: Tensor, relation: Tensor, top: int = 1, first_step: int = 0
    ) -> BestIntervals:
        """The best intervals of facts.   plausibility [n, steps], relation [n] -> [n, top].

        first_step: the step of the first column; intervals count from there.
        """
        if self.density is not None and self.density_weight:
            columns = self.density[:, first_step : first_step + plausibility.shape[1]]
            plausibility = plausibility + self.density_weight * columns[relation]
        candidates = plausibility.shape[1] * (len(self.lengths.steps) + 2)
        compared = min(max(top, _CONSIDERED), candidates) ** 2
        rows = max(1, _CELLS // max(candidates, compared))
        parts = [
            self._best(*part, top)
            for part in zip(plausibility.split(rows), relation.split(rows), strict=True)
        ]
        start, end, probability, overlap = (
            torch.cat(column)
            for column in zip(*((*each[0], *each[1:]) for each in parts), strict=True)
        )
        return BestIntervals(Intervals(start, end), probability, overlap)

    def _best(self, plausibility: Tensor, relation: Tensor, top: int) -> BestIntervals:
        candidates, log_probs = self.log_probs(plausibility, relation)
        likely = log_probs.topk(min(max(top, _CONSIDERED), log_probs.shape[1]), dim=1)
        among = Intervals(candidates.start[likely.indices], candidates.end[likely.indices])
        probability = likely.values.exp()
        one = Intervals(among.start[:, :, None], among.end[:, :, None])
        other = Intervals(among.start[:, None, :], among.end[:, None, :])
        share = probability / probability.sum(1, keepdim=True)
        expected = (aeiou(one, other) * share[:, None, :]).sum(2)
        best = expected.sort(dim=1, descending=True, stable=True).indices[:, :top]
        columns = (column.gather(1, best) for column in (*among, probability, expected))
        start, end, probability, overlap = columns
        return BestIntervals(Intervals(start, end), probability, overlap)

    def log_probs(self, plausibility: Tensor, relation: Tensor) -> tuple[Intervals, Tensor]:
        """All distinct intervals [candidates], and their log probabilities, [n, candidates]."""
        steps, device = plausibility.shape[1], plausibility.device
        best = plausibility.max(1, keepdim=True).values
        # Where no step is plausible at all, all are alike.
        gap = torch.where(best > -math.inf, plausibility - best, 0.0)
        gain = self.sharpness * gap.clamp(min=-1e4) + self.threshold
        total = torch.nn.functional.pad(gain.cumsum(1), (1, 0))
        first = torch.arange(steps, device=device)
        # The start, the end and the kind of each candidate: lengths, then open ends and starts.
        kinds = len(self.lengths.steps)
        start = torch.cat([first.repeat_interleave(kinds), first, torch.zeros_like(first)])
        stop = torch.cat([(first[:, None] + self.lengths.steps).flatten(), first * 0 + steps])
        stop = torch.cat([stop, first + 1])
        kind = torch.cat([torch.arange(kinds, device=device).repeat(steps), first * 0 + kinds])
        kind = torch.cat([kind, first * 0 + kinds + 1])
        inside = stop <= steps
        start, stop, kind = start[inside], stop[inside], kind[inside]
        # All starts of one kind are alike before a fact is looked at.
        per_kind = torch.bincount(kind, minlength=kinds + 2).double().log()
        prior = self.lengths.log_prob[relation][:, kind] - per_kind[kind]
        probs = torch.softmax(prior + total[:, stop] - total[:, start], dim=1)
        # Closed and open intervals may be the same steps.
        distinct, number = torch.unique(start * steps + stop - 1, return_inverse=True)
        joint = probs.new_zeros(len(probs), len(distinct)).index_add_(1, number, probs)
        return Intervals(distinct // steps, distinct % steps), joint.log()


def fit_chooser(
    lengths: Lengths,
    plausibility: Tensor,
    relation: Tensor,
    true: Intervals,
    progress: Progress | None = None,
    density: Tensor | None = None,
) -> IntervalChooser:
    """The chooser with the highest mean aeIOU on some facts.

    plausibility [n, steps], relation [n], true [n]; without facts, the default. Sharpness and
    threshold are found without the density, then the sharpness again for each weight of it, and
    the threshold for the best of these.
    """
    best = IntervalChooser(lengths, density=density)
    if not len(relation):
        return best
    weighted = [] if density is None else list(product(_SHARPNESS, _DENSITY_WEIGHTS))
    total = len(_SHARPNESS) * len(_THRESHOLDS) + len(weighted)
    total += len(_THRESHOLDS) if weighted else 0
    highest, tried = -1.0, 0

    def consider(choosers: Sequence[IntervalChooser]) -> None:
        nonlocal best, highest, tried
        for chooser in choosers:
            found = chooser.best(plausibility, relation).intervals
            chosen = Intervals(found.start[:, 0], found.end[:, 0])
            reached = float(aeiou(chosen, true).mean())
            if reached > highest:
                best, highest = chooser, reached
            tried += 1
            if progress is not None:
                progress(tried, total)

    pairs = product(_SHARPNESS, _THRESHOLDS)
    consider([replace(best, sharpness=s, threshold=t) for s, t in pairs])
    if weighted:
        consider([replace(best, sharpness=s, density_weight=w) for s, w in weighted])
        consider([replace(best, threshold=t) for t in _THRESHOLDS])
    return best
