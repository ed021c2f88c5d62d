"""What the past says about a fact: how often, how recently and how regularly it happened."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from tempograph.data.calendar import weekdays
from tempograph.data.sorted_times import SortedTimes
from tempograph.data.timeline import Timeline

WINDOWS: Final = (1, 3, 7, 30, 90)
"""Steps before a question in which facts are counted; all earlier facts are counted as well."""
PATTERNS: Final = ("sro", "sr", "ro", "so", "s", "o", "r", "ors", "os")
"""What counted facts share with the fact in question. In `ors` and `os` their subject is its object
and the other way round."""
_SMALLEST: Final = 1e-3
"""The least that a decayed number of occurrences counts."""
_REVERSED: Final = {"ors": "sro", "os": "so"}
_BY_WEEKDAY: Final = ("sro", "sr", "r")
_DECAYS: Final = (0.3, 0.7, 1.0, 1.5)
SHARED_FEATURES: Final = ("activity 1", "activity 7")
"""Features of the time before a step, which differ from day to day but not from fact to fact."""
FEATURES: Final = (
    *(f"N({pattern}, {window})" for pattern in PATTERNS for window in (*WINDOWS, "all")),
    *(f"since({pattern})" for pattern in PATTERNS),
    *(f"decayed {decay}" for decay in _DECAYS),
    *("mean gap", "irregularity", "due"),
    *(f"weekday {day}" for day in range(7)),
    *(f"N({pattern}, weekday)" for pattern in _BY_WEEKDAY),
    *SHARED_FEATURES,
    "horizon",
)
"""The features of a fact, given all facts before a step: log(1 + N) for the number of facts that
share a pattern, in windows that end before the step; the logarithm of the steps since the last of
them; the logarithm of the number of occurrences of the fact, each n steps ago counted as n^-decay;
the logarithm of the mean gap between two occurrences of the fact, the standard deviation of
the gaps over their mean, and the logarithm of the time since the last one over the mean gap; the
day of the week, and facts on the same day of the week; how many facts of any kind there were
lately, relative to the longer time before; the logarithm of how many steps lie between what is
known and the fact. Counts over all earlier steps are scaled to the longest window, so that features
do not grow as the data does."""


class OccurrenceFeatures:
    """Computes the features of facts from the past, sorted once: O(log facts) for each number."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        steps, time = timeline.num_steps, timeline.facts[:, 3]
        self._times = {
            pattern: SortedTimes(self._values(pattern, timeline.facts), time, steps)
            for pattern in PATTERNS
            if pattern not in _REVERSED
        }
        self._times |= {name: self._times[plain] for name, plain in _REVERSED.items()}
        days = weekdays(timeline.labels)
        self._weekday = None if days is None else days.to(timeline.device)
        self._on_weekday = {
            pattern: SortedTimes(
                self._with_weekday(self._values(pattern, timeline.facts), time), time, steps
            )
            for pattern in (_BY_WEEKDAY if days is not None else ())
        }
        triple = self._times["sro"]
        gaps = triple.times.diff(prepend=triple.times[:1]).double()
        self._squared_gaps = gaps.square().cumsum(0)
        """Sums of squared differences to the time before; within a triple, these are gaps."""

    def __call__(self, facts: Tensor, now: int) -> Tensor:
        """Features of facts [n, 4] at the step `now` or later, given those before `now`, [n, F]."""
        counts, since = [], []
        for pattern in PATTERNS:
            count, last = self._past(pattern, facts, now)
            counts.append(count)
            since.append((now - last).double().log())
        return torch.cat(
            [
                torch.cat(counts, dim=1).log1p(),
                torch.stack(since, dim=1),
                self._decayed(facts, now),
                self._gaps(facts, now),
                self._weekdays(facts, now),
                self._activity(now).expand(len(facts), -1),
                (facts[:, [3]] + 1 - now).double().log(),
            ],
            dim=1,
        )

    def happened(self, facts: Tensor) -> Tensor:
        """Which facts [n, 4] are among those of the timeline, at their own step, [n]."""
        times, time = self._times["sro"], facts[:, 3]
        return times.within(times.number(self._values("sro", facts)), time, time).lengths > 0

    def last_before(self, facts: Tensor, now: int) -> Tensor:
        """The last step before `now` at which each triple of facts [n, 4] happened, or -1, [n]."""
        return self._past("sro", facts, now)[1]

    def count(self, facts: Tensor, now: int) -> Tensor:
        """How often each triple of facts [n, 4] happened before the step `now`, [n]."""
        times = self._times["sro"]
        number = times.number(self._values("sro", facts))
        start, stop = (times.first_at(number, torch.full_like(number, step)) for step in (0, now))
        return stop - start

    def _past(self, pattern: str, facts: Tensor, now: int) -> tuple[Tensor, Tensor]:
        """Numbers of facts before `now` in each window, [n, windows + 1], and the last step, [n].

        The last number is of all facts, scaled to the longest window. If there was none, the last
        step is one before the first.
        """
        times = self._times[pattern]
        number = times.number(self._values(pattern, facts))
        stop = times.first_at(number, torch.full_like(number, now))
        starts = [
            times.first_at(number, torch.full_like(number, max(0, now - window)))
            for window in (*WINDOWS, now)
        ]
        last = times.times[(stop - 1).clamp(min=0)]
        last = torch.where(stop > starts[-1], last, -1)
        counts = torch.stack([stop - start for start in starts], dim=1).double()
        counts[:, -1] *= self._scale(now)
        return counts, last

    def _scale(self, now: int) -> float:
        """What scales a count over all steps before `now` to the longest window."""
        return WINDOWS[-1] / max(WINDOWS[-1], now)

    def _activity(self, now: int) -> Tensor:
        """The logarithm of facts per step in the last 1 and 7 steps, relative to 7 and 30, [2]."""
        start = self.timeline.step_start
        rates = [
            (start[now] - start[max(0, now - window)] + 1).double() / min(window, max(1, now))
            for window in (1, 7, 30)
        ]
        return torch.stack([rates[0] / rates[1], rates[1] / rates[2]]).log()

    def _decayed(self, facts: Tensor, now: int) -> Tensor:
        """Numbers of occurrences of each triple that decay with time, [n, decays]."""
        times = self._times["sro"]
        number = times.number(self._values("sro", facts))
        sums = [times.decayed_counts(now, decay)[number] for decay in _DECAYS]
        return torch.stack(sums, dim=1).clamp(min=_SMALLEST).log()

    def _gaps(self, facts: Tensor, now: int) -> Tensor:
        """The mean gap of each triple, its irregularity, and how far it is due, [n, 3]."""
        times = self._times["sro"]
        number = times.number(self._values("sro", facts))
        start, stop = (times.first_at(number, torch.full_like(number, step)) for step in (0, now))
        gaps = stop - start - 1
        known = gaps > 0
        first, last = start.clamp(max=len(times.times) - 1), (stop - 1).clamp(min=0)
        count = gaps.clamp(min=1).double()
        mean = (times.times[last] - times.times[first]).double() / count
        square = (self._squared_gaps[last] - self._squared_gaps[first]) / count
        spread = (square - mean.square()).clamp(min=0).sqrt()
        mean = torch.where(known, mean, 1.0)
        due = (now - times.times[last]).clamp(min=1).double() / mean
        columns = torch.stack([mean.log(), spread / mean, due.log()], dim=1)
        return torch.where(known[:, None], columns, 0.0)

    def _weekdays(self, facts: Tensor, now: int) -> Tensor:
        """The day of the week, [n, 7], and counts of facts on it, [n, patterns]; else 0."""
        width = 7 + len(_BY_WEEKDAY)
        if self._weekday is None:
            return torch.zeros(len(facts), width, dtype=torch.float64, device=facts.device)
        day = torch.nn.functional.one_hot(self._weekday[facts[:, 3]], 7).double()
        counts = []
        for pattern, times in self._on_weekday.items():
            values = self._values(pattern, facts)
            number = times.number(self._with_weekday(values, facts[:, 3]))
            start, stop = (
                times.first_at(number, torch.full_like(number, step)) for step in (0, now)
            )
            counts.append((self._scale(now) * (stop - start)).double().log1p())
        return torch.cat([day, torch.stack(counts, dim=1)], dim=1)

    def _values(self, pattern: str, facts: Tensor) -> Tensor:
        """The parts of facts [n, 4] that a pattern names, in its order, as an integer, [n]."""
        entities, relations = self.timeline.num_entities, self.timeline.num_relations
        value = torch.zeros(len(facts), dtype=torch.int64, device=facts.device)
        for letter in pattern:
            size = relations if letter == "r" else entities
            value = value * size + facts[:, "sro".index(letter)]
        return value

    def _with_weekday(self, values: Tensor, times: Tensor) -> Tensor:
        assert self._weekday is not None
        return values * 7 + self._weekday[times]
