"""TED, temporal exponential decay: answer by copying what happened near in time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import equal_range
from tempograph.data.timeline import Queries, Timeline, both_directions, undirected_facts
from tempograph.errors import ConfigError
from tempograph.models.base import Evidence, Model
from tempograph.nn.padded_groups import pad_groups, padded_layout

PAPER_SIGMAS: Final = (1e-5, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e5)
"""The decay rates of the paper's sensitivity table; `sigma = "auto"` chooses among them on valid."""

SAME: Final = ("same entity and relation", "same entity", "same relation")
"""What a copied fact shares with the question, best first."""

_LARGEST_SIGMA: Final = 64.0
_TIE: Final = 1e-9


@dataclass(frozen=True)
class TEDSettings:
    """Settings of TED."""

    sigma: float | str = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.sigma, str):
            if self.sigma != "auto":
                raise ConfigError(
                    f"sigma must be a number of at least 0 or 'auto', found '{self.sigma}'"
                )
        elif not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ConfigError(f"sigma must be a number of at least 0 or 'auto', found {self.sigma}")


class TED(Model):
    """Rank entities by the decayed count of the train facts that put them in the place asked for.

    For (e, r, ?, t) three sets of train facts at t' != t: same e and r, same e, same r. An entity's score in a set is
    the sum of exp(-sigma |t - t'|); the first set ranks before the second before the third before the rest.
    """

    name = "ted"
    # The widest set holds at most every entity for each question: eleven temporaries of 8 bytes beside the scores.
    bytes_per_candidate = 96

    def __init__(self, timeline: Timeline, sigma: float, most_facts: int = 0) -> None:
        """Scores have room for as many facts as there are, or `most_facts` if that is more."""
        super().__init__()
        self.sigma = sigma
        self.timeline = timeline
        self.num_relations = timeline.num_relations
        self.num_entities = timeline.num_entities
        self.facts = both_directions(timeline.facts, timeline.num_relations)
        # From 64 on, exp(-sigma) is lost beside 1 in double precision: any larger sigma gives the same order, and
        # smaller logarithms leave more digits for the counts.
        self.rate = rate = min(sigma, _LARGEST_SIGMA)
        answer, time = self.facts[:, 2], self.facts[:, 3]
        self.sets = [
            DecayedCounts(key, answer, time, rate, timeline)
            for key in self._keys(self.facts[:, 0], self.facts[:, 1])
        ]
        self.lowest = -rate * timeline.num_steps
        self.most_facts = max(most_facts, len(self.facts))
        self.span = math.log(self.most_facts) - self.lowest + 1

    @property
    def device(self) -> torch.device:
        """Where the facts lie."""
        return self.facts.device

    def scores(self, queries: Queries) -> Tensor:
        """The logarithm of each entity's sum, scaled to 0..1, and 2, 1 or 0 for its set; -inf for the rest.

        [queries, entities]: 2.9 says that facts of the same entity and relation put the answer there, and many or near.
        """
        scores = torch.full(
            (len(queries.time), self.num_entities),
            -math.inf,
            dtype=torch.float64,
            device=self.device,
        )
        keys = self._keys(queries.entity, queries.relation)
        for place, (counts, key) in enumerate(
            zip(reversed(self.sets), reversed(keys), strict=True)
        ):
            row, answer, value = counts.at(key, queries.time)
            scores[row, answer] = (value - self.lowest) / self.span + place
        return scores

    def evidence(self, query: Queries, answer: int) -> Evidence:
        """The facts that put an answer where it ranks, nearest first, each with its share of the decayed sum."""
        eligible = self.facts[(self.facts[:, 2] == answer) & (self.facts[:, 3] != query.time)]
        entity, relation = eligible[:, 0], eligible[:, 1]
        for shared, own, asked in zip(
            SAME, self._keys(entity, relation), self._keys(*query[:2]), strict=True
        ):
            found = eligible[own == asked]
            if len(found):
                distance = (found[:, 3] - query.time).abs()
                order = torch.argsort(distance, stable=True)
                shares = torch.softmax(-self.sigma * distance[order].double(), dim=0)
                return Evidence(shared, undirected_facts(found[order], self.num_relations), shares)
        return Evidence("nothing", self.facts[:0], torch.empty(0, dtype=torch.float64))

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> TED:
        """Counts of other facts."""
        return self if timeline is self.timeline else TED(timeline, self.sigma, self.most_facts)

    def counterfactual_scores(self, query: Queries, left_out: Tensor, candidates: Tensor) -> Tensor:
        """Each sum anew over the facts that are left, [1 + n, candidates]."""
        entity, relation, answer, time = self.facts.unbind(1)
        scores = torch.full(
            (1 + len(left_out), len(candidates)), -math.inf, dtype=torch.float64, device=self.device
        )
        column = torch.full((self.num_entities,), -1, device=self.device)
        column[candidates] = torch.arange(len(candidates), device=self.device)
        row = torch.zeros(len(self.timeline.facts), dtype=torch.int64, device=self.device)
        row[left_out] = torch.arange(1, 1 + len(left_out), device=self.device)
        for place, own, asked in zip(
            (2, 1, 0), self._keys(entity, relation), self._keys(*query[:2]), strict=True
        ):
            mine = ((own == asked) & (time != query.time) & (column[answer] >= 0)).nonzero()[:, 0]
            of, left = column[answer[mine]], row[mine % len(self.timeline.facts)]
            weight = -self.rate * (time[mine] - query.time).abs().double()
            whole, without = sums_without_each(weight, of, len(candidates))
            value = whole.repeat(1 + len(left_out), 1)
            # A fact is in a set once, whichever way it is read, so it is missed by one candidate.
            value[left[left > 0], of[left > 0]] = without[left > 0]
            value = (value / self.sets[2 - place].tie).round() * self.sets[2 - place].tie
            found = (value - self.lowest) / self.span + place
            scores = torch.where((scores == -math.inf) & (value > -math.inf), found, scores)
        return scores

    def _keys(self, entity: Tensor, relation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What a fact must share with a question to be in each of the three sets, [n] each."""
        side = relation // self.num_relations
        return entity * 2 * self.num_relations + relation, entity * 2 + side, relation


def sums_without_each(logs: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """The logarithm of each group's sum of exponentials [groups], and of what is left of it without each member [n]."""
    layout, slot = padded_layout(group, groups)
    laid = pad_groups(logs, layout, slot, fill=-math.inf)
    before, after = (torch.logcumsumexp(each, 1) for each in (laid, laid.flip(1)))
    nothing = laid.new_full((groups, 1), -math.inf)
    before, after = (torch.cat([nothing, each], 1) for each in (before, after))
    without = torch.logaddexp(before[:, :-1], after[:, :-1].flip(1))
    return before[:, -1], without.flatten()[slot]


class DecayedCounts:
    """For every (key, answer): the logarithm of the sum of exp(-rate |t - t'|) over its facts at t' != t, for any t.

    The facts of a (key, answer) stand in order of time. Two running sums, from the past and from the future, each
    decayed to its own fact's time, are made once; a sum at any t is then one of each, decayed to t: O(log facts).
    """

    def __init__(
        self, key: Tensor, answer: Tensor, time: Tensor, rate: float, timeline: Timeline
    ) -> None:
        self.rate = rate
        self.num_steps = timeline.num_steps
        # Numbering the keys that occur keeps the joint key small: two entities and a relation may not fit.
        keys, place = torch.unique(key, return_inverse=True)
        group_of, group = torch.unique(place * timeline.num_entities + answer, return_inverse=True)
        self.group_key = keys[group_of // timeline.num_entities]
        self.group_answer = group_of % timeline.num_entities
        # One moment for each (group, step), with the number of facts it holds.
        self.moments, count = torch.unique(group * self.num_steps + time, return_counts=True)
        self.time = self.moments % self.num_steps
        own = self.moments // self.num_steps
        groups = torch.arange(len(group_of), device=key.device)
        self.group_moments = equal_range(own, groups)
        value = count.double().log()
        self.past = decayed_running_sum(value, self.time, own, rate)
        self.future = decayed_running_sum(
            value.flip(0), -self.time.flip(0), own.flip(0), rate
        ).flip(0)
        self.tie = max(_TIE, 64 * torch.finfo(torch.float64).eps * rate * self.num_steps)

    def at(self, key: Tensor, time: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The answers of each key with a fact at another step: (row of the key, answer, logarithm of the sum)."""
        row, group = equal_range(self.group_key, key).expand()
        now = time[row]
        here = equal_range(self.moments, group * self.num_steps + now)
        start, stop = self.group_moments.take(group)
        before, after = here.start - 1, here.stop
        value = torch.logaddexp(
            self._decayed(self.past, before, before >= start, now),
            self._decayed(self.future, after, after < stop, now),
        )
        found = value > -math.inf
        # Equal sums added up in different orders differ in their last digits; rounding makes them tie again.
        return (
            row[found],
            self.group_answer[group[found]],
            (value[found] / self.tie).round() * self.tie,
        )

    def _decayed(self, running: Tensor, moment: Tensor, exists: Tensor, now: Tensor) -> Tensor:
        moment = moment.clamp(0, len(running) - 1)
        value: Tensor = running[moment] - self.rate * (self.time[moment] - now).abs().double()
        return value.masked_fill(~exists, -math.inf)


def decayed_running_sum(value: Tensor, time: Tensor, group: Tensor, rate: float) -> Tensor:
    """Log of sum over j <= i in i's group of exp(value_j - rate (time_i - time_j)), for each i.   all [n], time rising.

    Doubling: after pass p each sum covers the last 2^p members of its group, so log2(longest group) passes are enough.
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
