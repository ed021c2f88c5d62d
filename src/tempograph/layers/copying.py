"""Copying: train facts that share a key with a question vote for candidates, each with a learned weight."""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor, nn

from tempograph.layers.voting import Ballot, fact_weights, vote_sums, voters
from tempograph.ranges import Ranges
from tempograph.timeline import Queries, Timeline, both_directions

Key = Literal["entity", "relation", "time"]
_COLUMNS: Final[dict[Key, int]] = {"entity": 0, "relation": 1, "time": 3}
_GAPS: Final = (1, 2, 4, 9, 23, 61, 161)
"""Gaps in steps at which the weights of pairs of relations change; less than the first is the same step."""


class View:
    """Train facts in both directions, ordered by (key, time): those of a key nearest to a time are one range.

    Keys are the given entity, the relation or the time itself. A fact (x, r', o, t') votes for o. The distinct
    candidates of a key are numbered, so that sums over facts need room for these alone, not for all entities.
    """

    def __init__(self, timeline: Timeline, key: Key) -> None:
        self.key: Key = key
        count = (timeline.num_entities, 2 * timeline.num_relations, 0, timeline.num_steps)[_COLUMNS[key]]
        directed = both_directions(timeline.facts, timeline.num_relations)
        self.steps, entities = timeline.num_steps, timeline.num_entities
        order = torch.argsort(directed[:, _COLUMNS[key]] * self.steps + directed[:, 3], stable=True)
        directed = directed[order]
        of_key, candidate = directed[:, _COLUMNS[key]].contiguous(), directed[:, 2]
        keys = torch.arange(count + 1, device=directed.device)

        self.relation, self.time = directed[:, 1].contiguous(), directed[:, 3].contiguous()
        self.fact = order % max(1, len(timeline.facts))
        """Which train fact each is, whichever its direction, [2 facts]."""
        self._place = torch.argsort(order)
        self.joint = of_key * self.steps + self.time
        self.start = torch.searchsorted(of_key, keys)
        """The facts of key k are at start[k]:start[k + 1], [keys + 1]."""
        distinct, place = torch.unique(of_key * entities + candidate, return_inverse=True)
        self.candidate_start = torch.searchsorted(distinct, keys * entities)
        """The distinct candidates of key k are candidates[candidate_start[k]:candidate_start[k + 1]], [keys + 1]."""
        self.candidates = distinct % entities
        self.slot = place - self.candidate_start[of_key]
        """The number of each fact's candidate among those of its key, [2 facts]."""

    def keys_of(self, queries: Queries) -> Tensor:
        """What the questions are looked up by, [n]."""
        return {"entity": queries.entity, "relation": queries.relation, "time": queries.time}[self.key]

    def nearest(self, queries: Queries, most: int, removed: Tensor) -> Ranges:
        """At most so many facts of each question's key, those nearest to its time, removed ones not counted, [n]."""
        key, time = self.keys_of(queries), queries.time
        first, stop = self.start[key], self.start[key + 1]
        left = stop - (removed < stop[:, None]).sum(1)
        low, high = first, torch.maximum(first, left - most)
        # The range slides right while the fact behind its end is nearer than the one at its start: by bisection.
        for _ in range(int((high - low).max()).bit_length() if len(key) else 0):
            middle = (low + high) // 2
            slide = time - self._time_at(middle, removed) > self._time_at(middle + most, removed) - time
            slide &= middle < high
            low, high = torch.where(slide, middle + 1, low), torch.where(slide, high, middle)
        after = _past_removed(torch.minimum(low + most, left) - 1, removed) + 1
        return Ranges(torch.minimum(low, after), after)

    def positions_of(self, queries: Queries, fact: Tensor | None) -> Tensor:
        """Where a train fact of each question stands among those of its key, rising; past all if it does not, [n, 2].

        A fact stands there twice when both its directions have the key, as with a loop from an entity to itself.
        """
        key, nowhere = self.keys_of(queries), len(self.time)
        if fact is None:
            return torch.full((len(key), 2), nowhere, device=key.device)
        both = self._place[torch.stack([fact, fact + nowhere // 2], dim=1)]
        there = (both >= self.start[key][:, None]) & (both < self.start[key + 1][:, None])
        return torch.where(there, both, nowhere).sort(1).values

    def _time_at(self, number: Tensor, removed: Tensor) -> Tensor:
        return self.time[_past_removed(number, removed).clamp(max=len(self.time) - 1)]

    def slots(self, queries: Queries) -> Ranges:
        """Where the distinct candidates of each question's key are, [n]."""
        key = self.keys_of(queries)
        return Ranges(self.candidate_start[key], self.candidate_start[key + 1])


class Contribution(NamedTuple):
    """What candidates of questions gain: row of the question, candidate, gain; [n] each, no pair twice."""

    row: Tensor
    candidate: Tensor
    gain: Tensor


class Copying(nn.Module):
    """gain(o) = u_r log(1 + c_r S(o)), S(o) the sum over the facts (x, r', o, t') of a view of

    exp(A[r, r'] + C[r, r', gap] + B[r, t' - t] + N[r, n] + bonuses for r' = r and r' = r inverted),
    where gap is a coarse class of |t' - t|, B and N are tables over signed logarithmic bins, and n counts the facts of
    the key between t and the fact, so that weights follow the pace of the key as well as the calendar.
    """

    def __init__(self, view: View, num_relations: int, most: int, start: float) -> None:
        super().__init__()
        self.view = view
        self.num_relations = num_relations
        self.most = most
        directed, device = 2 * num_relations, view.time.device
        gaps = torch.arange(view.steps, device=device)
        self.gap_class = torch.bucketize(gaps, torch.tensor(_GAPS, device=device), right=True)
        """The coarse class of each gap, [steps]."""
        self.time_bin = signed_bins(view.steps, per_octave=3).to(device)
        """The bin of t' - t + steps, [2 steps + 1]."""
        self.count_bin = signed_bins(most, per_octave=2).to(device)
        """The bin of n + most, [2 most + 1]."""
        self.pair = nn.Parameter(torch.zeros(directed, directed, len(_GAPS) + 1))
        self.by_time = nn.Parameter(-0.15 * (bin_distance(self.time_bin).expand(directed, -1)).clone())
        self.by_count = nn.Parameter(torch.zeros(directed, int(self.count_bin.max()) + 1))
        self.same = nn.Parameter(torch.zeros(directed) + 1.0)
        self.inverse = nn.Parameter(torch.zeros(directed) + 0.5)
        self.height = nn.Parameter(torch.full((directed,), start))
        self.steepness = nn.Parameter(torch.zeros(directed))

    def forward(self, queries: Queries, left_out: Tensor | None = None, kept: Tensor | None = None) -> Contribution:
        """What the candidates of questions gain; the train facts left_out [n] do not vote, nor those not kept."""
        row, candidate = self.view.slots(queries).expand()
        candidate = self.view.candidates[candidate]
        sums = vote_sums(self.ballot(queries, left_out, kept), *self.tables(queries.relation))
        relation = queries.relation[row]
        gain = self.height[relation] * torch.log1p(torch.exp(self.steepness[relation]) * sums)
        return Contribution(row, candidate, gain)

    def votes_for(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """The train facts that vote for a candidate of one question, and what each adds to its gain, [facts] each."""
        gained = self(query)
        gain = gained.gain[gained.candidate == candidate].sum()
        ballot = self.ballot(query)
        _, weight, slot = fact_weights(ballot, *self.tables(query.relation))
        chosen = self.view.candidates[ballot.slots.start + slot] == candidate
        position = voters(ballot)[1][chosen]
        return self.view.fact[position], gain * weight[chosen] / weight[chosen].sum()

    def ballot(self, queries: Queries, left_out: Tensor | None = None, kept: Tensor | None = None) -> Ballot:
        """Which facts the questions look at, in numbers."""
        view = self.view
        key = view.keys_of(queries) * view.steps + queries.time
        removed = view.positions_of(queries, left_out)
        return Ballot(
            facts=view.nearest(queries, self.most, removed),
            pivot=torch.searchsorted(view.joint, key),
            slots=view.slots(queries),
            time=queries.time.contiguous(),
            removed=removed,
            kept=kept,
            view=view,
            gap_class=self.gap_class,
            time_bin=self.time_bin,
            count_bin=self.count_bin,
            classes=self.pair.shape[2],
        )

    def tables(self, relation: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows of the tables for the distinct relations asked for, and each question's row, [n]."""
        distinct, place = torch.unique(relation, return_inverse=True)
        directed = self.pair.shape[1]
        bonus = self.same.new_zeros(len(distinct), directed)
        rows = torch.arange(len(distinct), device=relation.device)
        turned = (distinct + self.num_relations) % directed
        bonus = bonus.index_put((rows, distinct), self.same[distinct]).index_put((rows, turned), self.inverse[distinct])
        pair = self.pair.index_select(0, distinct) + bonus[..., None]
        return pair, self.by_time.index_select(0, distinct), self.by_count.index_select(0, distinct), place


def _past_removed(number: Tensor, removed: Tensor) -> Tensor:
    """The positions of facts that are numbered without the removed ones, at most two, rising.   [n], [n, 2] -> [n]."""
    number = number + (removed[:, 0] <= number)
    return number + (removed[:, 1] <= number)


def signed_bins(largest: int, per_octave: int) -> Tensor:
    """The bin of each difference from -largest to largest: finer near 0, the sign kept, [2 largest + 1]."""
    distance = torch.arange(largest + 1, dtype=torch.float64)
    bins = torch.floor(per_octave * torch.log2(1 + distance)).long()
    # Bins of small distances may be empty; those that occur are numbered.
    numbered = torch.unique(bins, return_inverse=True)[1]
    return torch.cat([numbered.max() - numbered[1:].flip(0), numbered.max() + numbered])


def bin_distance(bins: Tensor) -> Tensor:
    """How far each bin is from that of no difference, in bins, [bins]."""
    count = int(bins.max()) + 1
    return (torch.arange(count, device=bins.device) - count // 2).abs() / math.log2(count + 1)
