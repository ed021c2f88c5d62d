"""Copying: train facts that share a key with a question vote for candidates, each with a learned weight."""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor, nn

from tempograph.layers.voting import Ballot, fact_weights, vote_sums, voters
from tempograph.ranges import Ranges, equal_range
from tempograph.timeline import Queries, Timeline, both_directions

Key = Literal["entity", "relation", "both", "time"]
"""What a fact must share with a question to vote: its entity, its relation, both of these, or its time."""

_GAPS: Final = (1, 2, 4, 9, 23, 61, 161)
"""Gaps in steps at which the weights of pairs of relations change; less than the first is the same step."""


class View:
    """Train facts in both directions, ordered by (key, time): those of a key nearest to a time are one range.

    A fact (x, r', o, t') votes for o. The distinct candidates of a key are numbered, so that sums over facts need room
    for these alone, not for all entities. A key that no fact has stands last, with nothing.
    """

    def __init__(self, timeline: Timeline, key: Key) -> None:
        self.key: Key = key
        self.steps, self.relations, entities = timeline.num_steps, 2 * timeline.num_relations, timeline.num_entities
        directed = both_directions(timeline.facts, timeline.num_relations)
        self.values, of_fact = torch.unique(self._value(*directed[:, [0, 1, 3]].unbind(1)), return_inverse=True)
        # Facts of one key and time stand in no order of theirs: when not all may vote, chance decides, always alike.
        order = torch.argsort(scattered(directed))
        order = order[torch.argsort((of_fact * self.steps + directed[:, 3])[order], stable=True)]
        directed, of_fact = directed[order], of_fact[order]
        keys = torch.arange(len(self.values) + 2, device=directed.device)

        self.relation, self.time = directed[:, 1].contiguous(), directed[:, 3].contiguous()
        self.fact = order % max(1, len(timeline.facts))
        """Which train fact each is, whichever its direction, [2 facts]."""
        self._place = torch.argsort(order)
        self.joint = of_fact * self.steps + self.time
        self.start = torch.searchsorted(of_fact, keys)
        """The facts of key k are at start[k]:start[k + 1], [keys + 2]."""
        distinct, place, count = torch.unique(
            of_fact * entities + directed[:, 2], return_inverse=True, return_counts=True
        )
        self.candidate_start = torch.searchsorted(distinct, keys * entities)
        """The distinct candidates of key k are candidates[candidate_start[k]:candidate_start[k + 1]], [keys + 2]."""
        self.candidates, self.candidate_count = distinct % entities, count
        self.slot = place - self.candidate_start[of_fact]
        """The number of each fact's candidate among those of its key, [2 facts]."""

    def keys_of(self, queries: Queries) -> Tensor:
        """The numbers of the questions' keys, [n]."""
        place = equal_range(self.values, self._value(*queries))
        return torch.where(place.lengths > 0, place.start, len(self.values))

    def _value(self, entity: Tensor, relation: Tensor, time: Tensor) -> Tensor:
        if self.key == "both":
            return entity * self.relations + relation
        return {"entity": entity, "relation": relation, "time": time}[self.key]

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
    """gain(o) = u_r log(1 + c_r S(o)) + v_r log(1 + N(o)), N(o) the facts of the key with o, S(o) their weights' sum.

    The weight of a fact (x, r', o, t') is exp(A[r, r'] + C[r, r', gap] + B[r, t' - t] + M[r, n]): gap is a coarse class
    of |t' - t|, B and M are tables over signed logarithmic bins, and n counts the facts of the key between t and t', so
    that weights follow the pace of the key as well as the calendar. Each table is the sum of one that all relations
    share, by r' = r, r' = r inverted or neither, and one of their own. N counts all facts, S the nearest.
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
        classes, time_bins, count_bins = len(_GAPS) + 1, int(self.time_bin.max()) + 1, int(self.count_bin.max()) + 1
        # Of any relation, of the same one, of its inverse.
        self.shared_pair = nn.Parameter(torch.tensor([[0.0], [1.0], [0.5]]).repeat(1, classes))
        self.shared_time = nn.Parameter(-0.15 * (torch.arange(time_bins) - time_bins // 2).abs().float())
        self.shared_count = nn.Parameter(torch.zeros(count_bins))
        self.shared_gain = nn.Parameter(torch.tensor([start, 0.0, 0.1 * start]))
        self.pair = nn.Parameter(torch.zeros(directed, directed, classes))
        self.by_time = nn.Parameter(torch.zeros(directed, time_bins))
        self.by_count = nn.Parameter(torch.zeros(directed, count_bins))
        self.gain = nn.Parameter(torch.zeros(directed, 3))

    def forward(self, queries: Queries, left_out: Tensor | None = None, kept: Tensor | None = None) -> Contribution:
        """What the candidates of questions gain; the train facts left_out [n] do not vote, nor those not kept."""
        view, ballot = self.view, self.ballot(queries, left_out, kept)
        row, position = ballot.slots.expand()
        sums = vote_sums(ballot, *self.tables(queries.relation))
        height, steepness, of_count = (self.shared_gain + self.gain).index_select(0, queries.relation[row]).unbind(1)
        count = self._counts(ballot, position)
        gain = height * torch.log1p(torch.exp(steepness) * sums) + of_count * torch.log1p(count)
        return Contribution(row, view.candidates[position], gain)

    def _counts(self, ballot: Ballot, position: Tensor) -> Tensor:
        """How many facts of the key each candidate has, without those removed, in the order of the sums."""
        view, lengths = self.view, ballot.slots.lengths
        count = view.candidate_count[position].to(self.gain.dtype)
        row, which = (ballot.removed < len(view.time)).nonzero().unbind(1)
        slot = view.slot[ballot.removed[row, which]]
        gone = -torch.ones(len(row), dtype=count.dtype, device=count.device)
        left: Tensor = count.index_add(0, (lengths.cumsum(0) - lengths)[row] + slot, gone)
        return left

    def votes_for(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """The train facts that speak for a candidate of one question, and what each adds to its gain, [facts] each.

        What the sum of weights gives is shared by weight, what the count gives in equal parts.
        """
        view, ballot, key = self.view, self.ballot(query), int(self.view.keys_of(query))
        listed = torch.arange(int(view.start[key]), int(view.start[key + 1]), device=view.time.device)
        listed = listed[view.candidates[ballot.slots.start + view.slot[listed]] == candidate]
        _, weight, _ = fact_weights(ballot, *self.tables(query.relation))
        weights = torch.zeros(len(view.time), dtype=weight.dtype, device=weight.device)
        mine = weights.index_copy(0, voters(ballot)[1], weight)[listed]
        height, steepness, of_count = (self.shared_gain + self.gain)[query.relation[0]]
        by_weight = height * torch.log1p(torch.exp(steepness) * mine.sum())
        by_count = of_count * math.log1p(len(listed))
        return view.fact[listed], by_weight * mine / mine.sum().clamp(min=1e-30) + by_count / max(1, len(listed))

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
        every, turned = torch.arange(self.pair.shape[1], device=relation.device), distinct + self.num_relations
        kind = (every == distinct[:, None]).long() + 2 * (every == turned[:, None] % len(every)).long()
        return (
            self.pair.index_select(0, distinct)
            + self.shared_pair.index_select(0, kind.flatten()).view(*kind.shape, -1),
            self.by_time.index_select(0, distinct) + self.shared_time,
            self.by_count.index_select(0, distinct) + self.shared_count,
            place,
        )


def scattered(facts: Tensor) -> Tensor:
    """A number for each fact that looks drawn by chance and depends on the fact alone.   [n, 4] -> [n]."""
    number = torch.zeros(len(facts), dtype=torch.int64, device=facts.device)
    for column in facts.unbind(1):
        # Products wrap around, which is what scatters them.
        number = (number + column + 1) * 0x5851F42D4C957F2D
        number = number ^ (number >> 29)
    return number


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
