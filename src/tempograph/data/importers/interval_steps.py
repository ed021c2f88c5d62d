"""Choose time steps for facts with a start and an end: years, months, days, numbers or bins."""

from __future__ import annotations

from typing import Final

import numpy as np

from tempograph.data.importers.option_words import COMMAND_LINE, OptionWords
from tempograph.data.importers.partial_dates import Known
from tempograph.data.importers.time_grid import (
    Placed,
    check_integers,
    check_length,
    steps_since_1970,
)
from tempograph.data.importers.time_parsing import Integers, Mask
from tempograph.data.spans import Bounds
from tempograph.errors import DataError
from tempograph.typing import Granularity

_UNITS: Final[tuple[Granularity, ...]] = ("day", "month", "year")
_PRECISION: Final[dict[Granularity, Known]] = {"day": Known.DAY, "month": Known.MONTH}
_PRECISE: Final = 0.75
"""The fraction of dates that must be known as precisely as a step."""
_LONG: Final = 1000
"""If half of the facts last longer than this, steps are made longer."""
_MANY: Final = 20_000
_VERY_LONG: Final = 2000
"""Facts that span more steps than this are worth a warning."""


class IntervalSteps:
    """Puts facts on steps: of the granularity, or else of a length that suits their dates.

    If all bounds are numbers, these are the steps, or years if they look like years. `bins` joins
    neighboring steps to that many bins with about equally many starts and ends.
    """

    def __init__(
        self,
        granularity: Granularity | None = None,
        bins: int | None = None,
        integers: bool = False,
        words: OptionWords = COMMAND_LINE,
    ) -> None:
        self.remarks: list[str] = []
        """Why the steps have their length, and which facts are long."""
        self._granularity, self._bins = granularity, bins
        self._integers, self._words = integers, words

    def place(self, seconds: Integers, known: Integers, bounds: Integers) -> Placed:
        """When facts hold, as rows (start, end, bounds) in steps, and the labels of the steps.

        seconds, known [n, 2]: the first and last second of each fact, and what is `Known` of them.
        """
        dated = known >= Known.INTEGER
        if not dated.any():
            raise DataError("no fact has a start or an end that is a date, so there are no steps")
        self.remarks = []
        unit = self._find_unit(seconds, known, dated)
        steps = _to_steps(seconds, unit)
        first, last = int(steps[dated].min()), int(steps[dated].max())
        if unit is None:
            if not self._integers:
                check_integers(first, last, steps[dated])
            labels = check_length(first, last, None)
        else:
            labels = check_length(first, last, unit)
        steps -= first
        if self._bins is not None:
            steps, labels = _join_steps(steps, dated, labels, self._bins)
            self.remarks.append(
                f"{len(labels):,} bins with about equally many starts and ends, "
                f"from {labels[0]} to {labels[-1]}"
            )
        start, end = fill_bounds(steps, bounds, len(labels))
        closed = dated[:, 0] & dated[:, 1]
        self._warn_of_long((end - start + 1)[closed], unit)
        return Placed(np.column_stack([start, end, bounds]), labels)

    def _find_unit(self, seconds: Integers, known: Integers, dated: Mask) -> Granularity | None:
        """The length of a step; None if the bounds are numbers that count steps."""
        numbers = known == Known.INTEGER
        if self._integers:
            return None
        values = _to_steps(seconds, None)[numbers]
        if self._granularity is None and (numbers == dated).all():
            looks_like_years = (values > -10_000) & (values < 10_000)
            common = ((values >= 1000) & (values <= 2100)).mean()
            return "year" if looks_like_years.all() and common > 0.5 else None
        far = values[abs(values) >= 10_000]
        if len(far):
            raise DataError(
                f"the time '{far[0]}' is a number, but others are dates; write all of them one "
                "way, or pass the time format"
            )
        return self._granularity or self._choose(seconds, known, dated)

    def _choose(self, seconds: Integers, known: Integers, dated: Mask) -> Granularity:
        """The length of a step that suits how precisely dates are known and how long facts are."""
        precise = {unit: (known[dated] >= _PRECISION[unit]).mean() for unit in _UNITS[:2]}
        unit: Granularity = next(
            (unit for unit, share in precise.items() if share >= _PRECISE), "year"
        )
        share = precise.get(unit, 1 - precise["month"])
        shown = "all" if share > 0.9995 else f"{share:.0%}"
        alone = " alone" if unit == "year" else ""
        reason = f"{shown} of the dates are known to the {unit}{alone}"
        if shown == "all":
            reason = f"all dates are known to the {unit}{alone}"
        for coarser in _UNITS[_UNITS.index(unit) + 1 :]:
            problem = self._too_fine(_to_steps(seconds, unit), dated, unit)
            if problem is None:
                break
            reason = problem
            unit = coarser
        self.remarks.append(f"steps are {unit}s: {reason}; {self._words.granularity} sets another")
        return unit

    def _too_fine(self, steps: Integers, dated: Mask, unit: Granularity) -> str | None:
        """Why steps are too short, else None."""
        lengths = (steps[:, 1] - steps[:, 0] + 1)[dated.all(axis=1)]
        if len(lengths) and (lengths == 1).all() and dated.all():
            # Events need no room between a start and an end.
            return None
        if len(lengths) and np.median(lengths) > _LONG:
            return f"half of the facts last more than {_LONG:,} {unit}s"
        count = int(steps[dated].max() - steps[dated].min() + 1)
        return f"the facts span {count:,} {unit}s" if count > _MANY else None

    def _warn_of_long(self, lengths: Integers, unit: Granularity | None) -> None:
        """Warn of facts with a known start and end that span thousands of steps."""
        count = int((lengths > _VERY_LONG).sum())
        if count:
            facts = "1 fact spans" if count == 1 else f"{count:,} facts span"
            name = "bins" if self._bins else f"{unit or 'step'}s"
            self.remarks.append(
                f"warning: {facts} more than {_VERY_LONG:,} {name}, the longest "
                f"{int(lengths.max()):,}; coarser steps ({self._words.granularity} or "
                f"{self._words.bins}) may be learned better"
            )


def _to_steps(seconds: Integers, unit: Granularity | None) -> Integers:
    """Seconds as steps; without a unit, as the numbers that years stand for."""
    if unit is None:
        return steps_since_1970(seconds.astype("M8[s]"), "year") + 1970
    return steps_since_1970(seconds.astype("M8[s]"), unit)


def fill_bounds(steps: Integers, bounds: Integers, num_steps: int) -> tuple[Integers, Integers]:
    """The first and last step of each fact: open bounds at the ends of the axis."""
    start = np.where(bounds & Bounds.OPEN_START, 0, steps[:, 0])
    end = np.where(bounds & Bounds.OPEN_END, num_steps - 1, steps[:, 1])
    start, end = (
        np.where(bounds & Bounds.UNKNOWN_START, end, start),
        np.where(bounds & Bounds.UNKNOWN_END, start, end),
    )
    return start, end


def _join_steps(
    steps: Integers, dated: Mask, labels: tuple[str, ...], bins: int
) -> tuple[Integers, tuple[str, ...]]:
    """The bin of each bound, and the labels of the bins, such as 1926/1931.

    A step with many facts is not divided, so there may be fewer bins.
    """
    counts = np.bincount(steps[dated], minlength=len(labels))
    middle = np.cumsum(counts) - counts / 2
    number = np.minimum(middle * bins // counts.sum(), bins - 1).astype(np.int64)
    starts = np.flatnonzero(np.append(True, np.diff(number) > 0))
    ends = np.append(starts[1:], len(labels)) - 1
    names = tuple(
        labels[start] if start == end else f"{labels[start]}/{labels[end]}"
        for start, end in zip(starts, ends, strict=True)
    )
    found = np.searchsorted(starts, np.clip(steps, 0, len(labels) - 1), side="right") - 1
    return found, names
