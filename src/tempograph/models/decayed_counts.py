"""Decayed counts of facts: what TED ranks answers by, as sums that are looked up."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import equal_range
from tempograph.data.timeline import Timeline

_TIE: Final = 1e-9
"""Logarithms of sums are rounded to a multiple of this, so that nearly equal ones tie."""
_LOG_2: Final = math.log(2)
_MARGIN: Final = 1e-12
"""A bound of the rounding errors of a logarithm of a sum, whatever the order of its terms."""
_LIMB: Final = 31
"""Bits of each of the two integers that hold a weight: `MAX_FACTS` add up without overflow."""
MAX_FACTS: Final = 2**32
"""The largest number of facts whose weights add up."""


class DecayedCounts:
    """log of the sum of exp(-rate |t - t'|) over the facts at t' != t of any (key, answer).

    If the timeline is past-only, over those at t' < t.

    Two running sums over the facts of each (key, answer), from the past and from the future, are
    computed once. A sum at any t is then one entry of each, decayed to t: O(log facts).

    With `end` [n], facts hold from `time` to `end`. Then the first sum is over the ends of those
    that ended before t, the second over the starts of those that begin after t, and those that hold
    at t and at another step count 1 each.

    The logarithms are rounded, so that equal sums tie. The last bits of a logarithm depend on the
    order of its terms and on its position in a batch. They could decide which way it is rounded if
    it is halfway between two multiples, so those few are computed again by `_exact`, from the
    distances alone. What is returned therefore depends on nothing else, on any device.
    """

    def __init__(
        self,
        key: Tensor,
        answer: Tensor,
        time: Tensor,
        rate: float,
        timeline: Timeline,
        end: Tensor | None = None,
    ) -> None:
        self.rate = rate
        self.num_steps, self.past_only = timeline.num_steps, timeline.past_only
        # Numbered keys keep the joint key small: two entities and a relation may not fit 64 bits.
        entities = timeline.num_entities
        keys, key_id = torch.unique(key, return_inverse=True)
        pairs, group = torch.unique(key_id * entities + answer, return_inverse=True)
        self.group_key = keys[pairs // entities]
        self.group_answer = pairs % entities
        self.starts = self.ends = _Moments(group, time, len(pairs), self.num_steps)
        self.held: tuple[Tensor, Tensor] | None = None
        """(group, start) and (group, end) of the facts of several steps, sorted."""
        if end is not None:
            self.ends = _Moments(group, end, len(pairs), self.num_steps)
            longer, cells = end > time, (group * self.num_steps + step for step in (time, end))
            first, last = (torch.sort(cell[longer]).values for cell in cells)
            self.held = first, last
        moments = self.ends
        self.past = decayed_running_sum(moments.value, moments.time, moments.own, rate)
        moments = self.starts
        self.future = decayed_running_sum(
            moments.value.flip(0), -moments.time.flip(0), moments.own.flip(0), rate
        ).flip(0)
        largest_error = torch.finfo(torch.float64).eps * rate * self.num_steps
        self.tie = max(_TIE, 1024 * largest_error)
        # A GPU divides by a number by multiplying with its inverse, so all devices do.
        self.per_tie = 1 / self.tie
        self.margin = _MARGIN + 8 * largest_error
        # On the CPU, so that all devices use the same weights.
        weight = torch.exp(-rate * torch.arange(self.num_steps).double()) * 2**_LIMB
        limbs = torch.stack([weight.floor(), weight.frac() * 2**_LIMB], dim=1)
        self.weight = limbs.long().to(key.device)
        """exp(-rate gap) * 2^(2 * 31) as two integers of 31 bits, [steps, 2]."""

    def at(self, key: Tensor, time: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Answers of keys [n] at times [n]: row of the key, answer, log of the sum, [m] each."""
        row, group = equal_range(self.group_key, key).expand()
        now = time[row]
        cell = group * self.num_steps + now
        before = torch.searchsorted(self.ends.keys, cell) - 1
        past = before >= self.ends.of_group.start[group]
        value = self._decayed(self.past, self.ends.time, before, past, now)
        if not self.past_only:
            after = torch.searchsorted(self.starts.keys, cell, right=True)
            future = after < self.starts.of_group.stop[group]
            later = self._decayed(self.future, self.starts.time, after, future, now)
            value = torch.logaddexp(value, later)
        if self.held is not None:
            value = torch.logaddexp(value, self._number_held(cell).double().log())
        exists = value > -math.inf
        row, group, value = row[exists], group[exists], value[exists]
        scaled = value * self.per_tie
        rounded = scaled.round()
        # The distance to the nearest integer is 1/2 halfway between two of them.
        halfway = (scaled - rounded).abs() > 0.5 - self.margin * self.per_tie
        unclear = halfway.nonzero()[:, 0]
        exact = self._exact(group[unclear], time[row[unclear]])
        rounded[unclear] = (exact * self.per_tie).round()
        return row, self.group_answer[group], rounded * self.tie

    def num_answers(self, key: Tensor) -> Tensor:
        """How many answers keys [n] have at any time, [n]."""
        return equal_range(self.group_key, key).lengths

    def round_ties(self, value: Tensor) -> Tensor:
        """Round logarithms of sums, so that nearly equal sums tie."""
        return (value * self.per_tie).round() * self.tie

    def _exact(self, group: Tensor, time: Tensor) -> Tensor:
        """The logarithms for groups [n] at times [n], as a function of the distances alone.

        Sums of integers are exact in any order, atomic additions of a GPU included.
        """
        row, gap, count = self._gaps(self.starts, group, time)
        counts = gap > 0 if self.past_only else gap != 0
        if self.held is not None:
            past_row, past_gap, past_count = self._gaps(self.ends, group, time)
            number = self._number_held(group * self.num_steps + time)
            row = torch.cat([row, past_row, torch.arange(len(time), device=row.device)])
            counts = torch.cat([gap < 0, past_gap > 0, number > 0])
            gap = torch.cat([gap, past_gap, torch.zeros_like(time)])
            count = torch.cat([count, past_count, number])
        gap = gap.abs()
        row, gap, count = row[counts], gap[counts], count[counts]
        nearest = torch.full_like(time, self.num_steps).scatter_reduce_(0, row, gap, "amin")
        limbs = self.weight[gap - nearest[row]] * count[:, None]
        high, low = limbs.new_zeros(len(time), 2).index_add_(0, row, limbs).double().unbind(1)
        return portable_log(high + low / 2**_LIMB) - _LIMB * _LOG_2 - self.rate * nearest.double()

    def _gaps(
        self, moments: _Moments, group: Tensor, time: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Row, steps back in time and number of facts of each moment of groups [n], [m] each."""
        row, moment = moments.of_group.take(group).expand()
        return row, time[row] - moments.time[moment], moments.count[moment]

    def _number_held(self, cell: Tensor) -> Tensor:
        """Facts of several steps that hold, for cells group * steps + step [n], [n]."""
        assert self.held is not None
        first, last = self.held
        return torch.searchsorted(first, cell, right=True) - torch.searchsorted(last, cell)

    def _decayed(
        self, running: Tensor, times: Tensor, moment: Tensor, exists: Tensor, now: Tensor
    ) -> Tensor:
        moment = moment.clamp(0, len(running) - 1)
        value: Tensor = running[moment] - self.rate * (times[moment] - now).abs().double()
        return value.masked_fill(~exists, -math.inf)


class _Moments:
    """One moment for each (group, step), with the number of facts it has.   group, time [facts]."""

    def __init__(self, group: Tensor, time: Tensor, num_groups: int, num_steps: int) -> None:
        self.keys, self.count = torch.unique(group * num_steps + time, return_counts=True)
        self.time = self.keys % num_steps
        self.own = self.keys // num_steps
        """The group of each moment."""
        self.of_group = equal_range(self.own, torch.arange(num_groups, device=group.device))
        self.value = self.count.double().log()


def portable_log(value: Tensor) -> Tensor:
    """Natural logarithms, equal for equal values at any position of a tensor and on any device.

    The last bit of a library's logarithm may depend on the position, because vector instructions
    use other code. Additions, multiplications and divisions are rounded correctly everywhere:
    log(m) = 2 (z + z^3 / 3 + z^5 / 5 + ...) for z = (m - 1) / (m + 1).
    """
    mantissa, exponent = torch.frexp(value)
    z = (mantissa - 1) / (mantissa + 1)
    square, series = z * z, torch.zeros_like(z)
    # |z| <= 1/3: the first term that is left out is below the last bit.
    for divisor in range(35, 0, -2):
        series = series * square + 1 / divisor
    return 2 * z * series + exponent.double() * _LOG_2


def decayed_running_sum(value: Tensor, time: Tensor, group: Tensor, rate: float) -> Tensor:
    """log of the sum over j <= i in the group of i of exp(value_j - rate (time_i - time_j)), [n].

    Arguments are [n] each, times rise. After pass p each sum covers the last 2^p members of its
    group, so log2(longest group) passes are enough.
    """
    reach = 1
    while reach < len(value):
        same = group[reach:] == group[:-reach]
        if not same.any():
            break
        earlier = value[:-reach] - rate * (time[reach:] - time[:-reach]).double()
        value = torch.cat(
            [value[:reach], torch.logaddexp(value[reach:], earlier.masked_fill(~same, -math.inf))]
        )
        reach *= 2
    return value
