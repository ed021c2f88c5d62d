"""TED, temporal exponential decay: rank answers by decayed counts of similar facts."""

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
from tempograph.models.sparse_scores import MIN_ENTITIES, ConstantRest, SparseScores
from tempograph.nn.padded_groups import pad_groups, padded_layout

PAPER_SIGMAS: Final = (1e-5, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e5)
"""Decay rates of the paper's sensitivity table; `sigma = "auto"` chooses among them on valid."""

SAME: Final = ("same entity and relation", "same entity", "same relation")
"""What a copied fact shares with the query, best first."""

_LARGEST_SIGMA: Final = 64.0
"""exp(-64) vanishes next to 1 in double precision: a larger sigma gives the same order."""
_TIE: Final = 1e-9
"""Logarithms of sums are rounded to a multiple of this, so that nearly equal ones tie."""
_LOG_2: Final = math.log(2)
_MARGIN: Final = 1e-12
"""A bound of the rounding errors of a logarithm of a sum, whatever the order of its terms."""
_LIMB: Final = 31
"""Bits of each of the two integers that hold a weight: `_MAX_FACTS` add up without overflow."""
_MAX_FACTS: Final = 2**32


@dataclass(frozen=True)
class TEDSettings:
    """Settings of TED."""

    sigma: float | str = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.sigma, str):
            valid = self.sigma == "auto"
        else:
            valid = math.isfinite(self.sigma) and self.sigma >= 0
        if not valid:
            shown = repr(self.sigma)
            raise ConfigError(f"sigma must be a number of at least 0 or 'auto', found {shown}")


class TED(Model):
    """`score(o) = sum over train facts (e', r', o, t') with t' != t of exp(-sigma |t - t'|)`

    for a query (e, r, ?, t), over three sets of facts: same entity and relation, same entity, same
    relation. Answers of the first set rank before those of the second, the third and the rest.
    To forecast, it takes facts with t' < t.
    The baseline of Wu, Cao, Cheung, Hamilton: TeMP: Temporal Message Passing for Temporal Knowledge
    Graph Completion. EMNLP 2020.
    """

    name = "ted"
    # The widest set may hold every entity: eleven temporaries of 8 bytes, and the scores.
    bytes_per_candidate = 96

    def __init__(self, timeline: Timeline, sigma: float, min_capacity: int = 0) -> None:
        """Scores are scaled for the number of facts, or for min_capacity facts if that is more.

        Those of a forecaster are scaled for any number: it does not know how many facts come later.
        """
        super().__init__()
        self.sigma = sigma
        self.timeline = timeline
        self.num_relations = timeline.num_relations
        self.num_entities = timeline.num_entities
        self.facts = both_directions(timeline.facts, timeline.num_relations)
        # Smaller logarithms leave more digits for the counts.
        self.rate = rate = min(sigma, _LARGEST_SIGMA)
        answer, time = self.facts[:, 2], self.facts[:, 3]
        self.sets = [
            DecayedCounts(key, answer, time, rate, timeline)
            for key in self._keys(self.facts[:, 0], self.facts[:, 1])
        ]
        self.lowest = -rate * timeline.num_steps
        self.capacity = max(min_capacity, _MAX_FACTS if timeline.past_only else len(self.facts))
        self.span = math.log(self.capacity) - self.lowest + 1

    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each query, [queries, entities].

        The log of an entity's sum, scaled to 0..1, plus 2, 1 or 0 for its set; -inf for the rest.
        """
        scores = self._no_scores(len(queries.time), self.num_entities)
        keys = self._keys(queries.entity, queries.relation)
        # Better sets overwrite the others.
        for level, counts, key in zip((0, 1, 2), self.sets[::-1], keys[::-1], strict=True):
            row, answer, value = counts.at(key, queries.time)
            scores[row, answer] = (value - self.lowest) / self.span + level
        return scores

    def sparse_sizes(self, queries: Queries) -> Tensor | None:
        if self.num_entities < MIN_ENTITIES:
            return None
        # Answers of the first set are in the second as well.
        keys = self._keys(queries.entity, queries.relation)[1:]
        sizes: Tensor = sum(
            (counts.num_answers(key) for counts, key in zip(self.sets[1:], keys, strict=True)),
            torch.ones_like(queries.entity),
        )
        return sizes

    def sparse_scores(self, queries: Queries) -> SparseScores:
        """Scores of the answers of the three sets; the others are ruled out."""
        found = []
        for level, counts, key in zip(
            (2, 1, 0), self.sets, self._keys(queries.entity, queries.relation), strict=True
        ):
            row, answer, value = counts.at(key, queries.time)
            score = (value - self.lowest) / self.span + level
            found.append((row * self.num_entities + answer, score))
        keys, cell = torch.unique(torch.cat([keys for keys, _ in found]), return_inverse=True)
        scores = torch.full_like(keys, -math.inf, dtype=torch.float64)
        # The better set has the higher score.
        scores.scatter_reduce_(0, cell, torch.cat([score for _, score in found]), "amax")
        rows = len(queries.time)
        rest = ConstantRest(-math.inf, rows, self.num_entities, scores)
        row, candidate = keys // self.num_entities, keys % self.num_entities
        return SparseScores(row, candidate, scores, rest, rows, self.num_entities)

    def _no_scores(self, rows: int, columns: int) -> Tensor:
        return torch.full((rows, columns), -math.inf, dtype=torch.float64, device=self.device)

    def evidence(self, query: Queries, answer: int) -> Evidence:
        """The facts behind the rank of an answer, nearest first, with their shares of the sum."""
        eligible = self.facts[(self.facts[:, 2] == answer) & self._counts_for(query)]
        entity, relation = eligible[:, 0], eligible[:, 1]
        for shared, key, query_key in zip(
            SAME, self._keys(entity, relation), self._keys(*query[:2]), strict=True
        ):
            facts = eligible[key == query_key]
            if len(facts):
                distance = (facts[:, 3] - query.time).abs()
                order = torch.argsort(distance, stable=True)
                shares = torch.softmax(-self.sigma * distance[order].double(), dim=0)
                return Evidence(shared, undirected_facts(facts[order], self.num_relations), shares)
        return Evidence("nothing", self.facts[:0], torch.empty(0, dtype=torch.float64))

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> TED:
        return self if timeline is self.timeline else TED(timeline, self.sigma, self.capacity)

    def counterfactual_scores(self, query: Queries, left_out: Tensor, candidates: Tensor) -> Tensor:
        entity, relation, answer, time = self.facts.unbind(1)
        scores = self._no_scores(1 + len(left_out), len(candidates))
        column = torch.full((self.num_entities,), -1, device=self.device)
        column[candidates] = torch.arange(len(candidates), device=self.device)
        row = torch.zeros(len(self.timeline.facts), dtype=torch.int64, device=self.device)
        row[left_out] = torch.arange(1, 1 + len(left_out), device=self.device)
        for level, counts, key, query_key in zip(
            (2, 1, 0), self.sets, self._keys(entity, relation), self._keys(*query[:2]), strict=True
        ):
            matches = (key == query_key) & self._counts_for(query) & (column[answer] >= 0)
            facts = matches.nonzero()[:, 0]
            its_column, its_row = column[answer[facts]], row[facts % len(self.timeline.facts)]
            weight = -self.rate * (time[facts] - query.time).abs().double()
            whole, without = sums_without_each(weight, its_column, len(candidates))
            value = whole.repeat(1 + len(left_out), 1)
            # A fact is in a set in one direction only, so one candidate loses it.
            removed = its_row > 0
            value[its_row[removed], its_column[removed]] = without[removed]
            value = counts.round_ties(value)
            scaled = (value - self.lowest) / self.span + level
            scores = torch.where((scores == -math.inf) & (value > -math.inf), scaled, scores)
        return scores

    def _counts_for(self, query: Queries) -> Tensor:
        """Which facts are at a time that counts for one query, [2 facts]."""
        time = self.facts[:, 3]
        return time < query.time if self.timeline.past_only else time != query.time

    def _keys(self, entity: Tensor, relation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What a fact must share with a query to be in each of the three sets, [n] each."""
        side = relation // self.num_relations
        return entity * 2 * self.num_relations + relation, entity * 2 + side, relation


def sums_without_each(logs: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Log-sum-exp of each group, [groups], and of each member's group without it, [n]."""
    layout, slot = padded_layout(group, groups)
    laid = pad_groups(logs, layout, slot, fill=-math.inf)
    before, after = (torch.logcumsumexp(each, 1) for each in (laid, laid.flip(1)))
    nothing = laid.new_full((groups, 1), -math.inf)
    before, after = (torch.cat([nothing, each], 1) for each in (before, after))
    without = torch.logaddexp(before[:, :-1], after[:, :-1].flip(1))
    return before[:, -1], without.flatten()[slot]


class DecayedCounts:
    """log of the sum of exp(-rate |t - t'|) over the facts at t' != t of any (key, answer).

    If the timeline is past-only, over those at t' < t.

    Two running sums over the facts of each (key, answer), from the past and from the future, are
    computed once. A sum at any t is then one entry of each, decayed to t: O(log facts).

    The logarithms are rounded, so that equal sums tie. The last bits of a logarithm depend on the
    order of its terms and on its position in a batch. They could decide which way it is rounded if
    it is halfway between two multiples, so those few are computed again by `_exact`, from the
    distances alone. What is returned therefore depends on nothing else, on any device.
    """

    def __init__(
        self, key: Tensor, answer: Tensor, time: Tensor, rate: float, timeline: Timeline
    ) -> None:
        self.rate = rate
        self.num_steps, self.past_only = timeline.num_steps, timeline.past_only
        # Numbered keys keep the joint key small: two entities and a relation may not fit 64 bits.
        entities = timeline.num_entities
        keys, key_id = torch.unique(key, return_inverse=True)
        pairs, group = torch.unique(key_id * entities + answer, return_inverse=True)
        self.group_key = keys[pairs // entities]
        self.group_answer = pairs % entities
        # One moment for each (group, step), with the number of facts it holds.
        self.moments, count = torch.unique(group * self.num_steps + time, return_counts=True)
        self.time = self.moments % self.num_steps
        own = self.moments // self.num_steps
        groups = torch.arange(len(pairs), device=key.device)
        self.group_moments = equal_range(own, groups)
        self.count = count
        value = count.double().log()
        self.past = decayed_running_sum(value, self.time, own, rate)
        self.future = decayed_running_sum(
            value.flip(0), -self.time.flip(0), own.flip(0), rate
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
        here = equal_range(self.moments, group * self.num_steps + now)
        start, stop = self.group_moments.take(group)
        before, after = here.start - 1, here.stop
        value = self._decayed(self.past, before, before >= start, now)
        if not self.past_only:
            later = self._decayed(self.future, after, after < stop, now)
            value = torch.logaddexp(value, later)
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
        row, moment = self.group_moments.take(group).expand()
        gap = time[row] - self.time[moment]
        counts = gap > 0 if self.past_only else gap != 0
        gap = gap.abs()
        row, gap, count = row[counts], gap[counts], self.count[moment[counts]]
        nearest = torch.full_like(time, self.num_steps).scatter_reduce_(0, row, gap, "amin")
        limbs = self.weight[gap - nearest[row]] * count[:, None]
        high, low = limbs.new_zeros(len(time), 2).index_add_(0, row, limbs).double().unbind(1)
        return portable_log(high + low / 2**_LIMB) - _LIMB * _LOG_2 - self.rate * nearest.double()

    def _decayed(self, running: Tensor, moment: Tensor, exists: Tensor, now: Tensor) -> Tensor:
        moment = moment.clamp(0, len(running) - 1)
        value: Tensor = running[moment] - self.rate * (self.time[moment] - now).abs().double()
        return value.masked_fill(~exists, -math.inf)


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
