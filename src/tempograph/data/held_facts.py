"""Which facts hold at a step, by range look-up: no row for each step at which a fact holds."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import Ranges, key_range


def signed_gap(start: Tensor, end: Tensor, time: Tensor) -> Tensor:
    """0 where facts hold, else steps until their start, or less than 0: steps since their end."""
    return (start - time).clamp(min=0) + (end - time).clamp(max=0)


def random_steps(start: Tensor, end: Tensor, generator: torch.Generator) -> Tensor:
    """A random step of each interval, uniformly from start to end inclusive, [n]."""
    uniform = torch.rand(len(start), device=start.device, generator=generator, dtype=torch.float64)
    return torch.minimum(start + (uniform * (end - start + 1)).long(), end)


class HeldFacts:
    """Facts sorted by (key, length class, start), so that those holding at a step are few ranges.

    Class c has the facts of 2^c to 2^(c+1) - 1 steps. Those that hold at t began after
    t - 2^(c+1) + 1, which is one contiguous range, and most facts of that range hold at t.

    key, start and end [facts]; `num_steps` is the length of the time axis.
    """

    def __init__(self, key: Tensor, start: Tensor, end: Tensor, num_steps: int) -> None:
        self.num_steps = num_steps
        length = end - start + 1
        longest = int(length.max()) if len(length) else 1
        self.num_classes = longest.bit_length()
        bounds = 2 ** torch.arange(1, self.num_classes, device=key.device)
        row = key * self.num_classes + torch.bucketize(length, bounds, right=True)
        self._keys, self.order = torch.sort(row * num_steps + start, stable=True)
        """The fact at each position of the index, [facts]."""
        self._end = end[self.order]
        self._reach = 2 ** (torch.arange(self.num_classes, device=key.device) + 1) - 2
        """Steps before t after which a fact of each class may have begun, [classes]."""

    def holding(
        self, key: Tensor, time: Tensor, max_facts: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """The facts of keys [n] that hold at times [n]: row of the key, and fact, [held] each.

        With `max_facts`, those of a class that are not among the last to begin may be left out.
        """
        classes = torch.arange(self.num_classes, device=key.device)
        base = (key[:, None] * self.num_classes + classes) * self.num_steps
        now = base + time[:, None]
        first = base + (time[:, None] - self._reach).clamp(min=0)
        ranges = Ranges(*(each.flatten() for each in key_range(self._keys, first, now)))
        if max_facts is not None:
            # Facts of a class that began in the last 2^c steps all hold.
            sure = base + (time[:, None] - self._reach // 2).clamp(min=0)
            certain = torch.searchsorted(self._keys, sure).flatten()
            latest = torch.maximum(ranges.start, ranges.stop - max_facts)
            ranges = Ranges(torch.where(latest >= certain, latest, ranges.start), ranges.stop)
        row, position = ranges.expand()
        row = row // self.num_classes
        holds = self._end[position] >= time[row]
        return row[holds], self.order[position[holds]]
