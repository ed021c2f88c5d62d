"""How often two entities that have one relation have another one as well, in either direction."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from tempograph.data.frequency import check_countable
from tempograph.data.sorted_ranges import Ranges, equal_range
from tempograph.data.timeline import Timeline, both_directions

_SMOOTHING: Final = 2.0
"""Pairs of entities without the other relation that are added to those of each relation."""
NO_RATE: Final = -12.0
"""The logarithm of a rate for which no pair of entities speaks."""


class RelationRates:
    """log P(r' | r): the share of the ordered pairs with relation r that have r' as well.

    Relations are directed: r + |R| is the inverse of r. A fact counts once, however often and
    however long it holds.
    """

    def __init__(self, timeline: Timeline) -> None:
        check_countable(timeline)
        self.num_entities, self.num_relations = timeline.num_entities, timeline.num_relations
        directed = 2 * timeline.num_relations
        entity, relation, other = both_directions(
            timeline.facts[:, :3], timeline.num_relations
        ).unbind(1)
        self._keys = torch.unique((entity * self.num_entities + other) * directed + relation)
        """(pair, relation) of all facts, ascending."""
        pair, relation = self._keys // directed, self._keys % directed
        self._pairs = pair.contiguous()
        row, position = equal_range(self._pairs, self._pairs).expand()
        differs = row != position
        both = relation[row[differs]] * directed + relation[position[differs]]
        number = torch.bincount(relation, minlength=directed).double()
        self._both, count = torch.unique(both, return_counts=True)
        """(r, r') of all that some pair has together, ascending."""
        self._log_rate = (count / (number[self._both // directed] + _SMOOTHING)).log()
        by_rate = torch.argsort(self._log_rate, descending=True, stable=True)
        order = by_rate[torch.argsort(self._both[by_rate] // directed, stable=True)]
        self._related, self._related_rate = self._both[order] % directed, self._log_rate[order]
        self._start = torch.searchsorted(
            self._both, torch.arange(directed + 1, device=self._both.device) * directed
        )

    def related(self, relation: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
        """The relations that go best with directed relations [n], at most `most` of each.

        Rows of the given relations, the other relations, and log P(r' | r), [pairs] each.
        """
        start, stop = self._start[relation], self._start[relation + 1]
        row, position = Ranges(start, torch.minimum(stop, start + most)).expand()
        return row, self._related[position], self._related_rate[position]

    def log_rate(self, facts: Tensor) -> Tensor:
        """The highest log P(r' | r) of the relation r' of facts [n, 4], over those of the pair."""
        directed = 2 * self.num_relations
        subject, relation, object_ = facts[:, :3].unbind(1)
        row, position = equal_range(self._pairs, subject * self.num_entities + object_).expand()
        wanted = self._keys[position] % directed * directed + relation[row]
        place = torch.searchsorted(self._both, wanted).clamp(max=max(0, len(self._both) - 1))
        rate = torch.full((len(facts),), NO_RATE, dtype=torch.float64, device=facts.device)
        if len(self._both):
            known = self._both[place] == wanted
            rate.scatter_reduce_(0, row[known], self._log_rate[place[known]], "amax")
        return rate
