"""Copying: train facts that share a key with a question vote for candidates, each with a learned weight."""

from __future__ import annotations

import math
from typing import Final, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from tempograph.layers.voting import Ballot, Ruler, Weights, add_gains, fact_weights, voters
from tempograph.ranges import Ranges, equal_range
from tempograph.timeline import Queries, Timeline, both_directions
from tempograph.weights import sharing_weights

Key = Literal["entity", "relation", "both", "time", "any"]
"""What a fact must share with a question to vote: its entity, its relation, both, its time, or nothing."""

_GAPS: Final = (1, 2, 4, 9, 23, 61, 161)
"""Gaps in steps, before or after, at which the weights of pairs of relations change; none is the same step."""
_MOST_RELATIONS: Final = 1024
"""In both directions, of which every pair has weights of its own: 16 million with the gaps."""
_RANK: Final = 16
"""Of the tables of pairs of more relations than that."""


class View:
    """Train facts in both directions, ordered by (key, time): those of a key nearest to a time are one range.

    A fact (x, r', o, t') votes for o. The distinct candidates of a key are numbered, so that sums over facts need room
    for these alone, not for all entities. A key that no fact has stands last, with nothing. The candidates of an
    earlier view have room as well, also where no fact is left that votes for them.
    """

    def __init__(self, timeline: Timeline, key: Key, earlier: View | None = None) -> None:
        self.key: Key = key
        self.steps, self.relations, entities = timeline.num_steps, 2 * timeline.num_relations, timeline.num_entities
        directed = both_directions(timeline.facts, timeline.num_relations)
        value = self._value(*directed[:, [0, 1, 3]].unbind(1)).contiguous()
        self.values: Tensor = torch.unique(value if earlier is None else torch.cat([value, earlier.values]))
        of_fact = torch.searchsorted(self.values, value)
        # Facts of one key and time stand in no order of theirs: when not all may vote, chance decides, always alike.
        order = torch.argsort(scattered(directed))
        order = order[torch.argsort((of_fact * self.steps + directed[:, 3])[order], stable=True)]
        directed, of_fact = directed[order], of_fact[order]
        keys = torch.arange(len(self.values) + 2, device=directed.device)

        self.relation, self.time = directed[:, 1].contiguous(), directed[:, 3].contiguous()
        self.fact = order % len(timeline.facts)
        """Which train fact each is, whichever its direction, [2 facts]."""
        self._place = torch.argsort(order)
        self.joint = of_fact * self.steps + self.time
        self.start = torch.searchsorted(of_fact, keys)
        """The facts of key k are at start[k]:start[k + 1], [keys + 2]."""
        voted = of_fact * entities + directed[:, 2]
        distinct = torch.unique(voted if earlier is None else torch.cat([voted, self._pairs_of(earlier, entities)]))
        place = torch.searchsorted(distinct, voted)
        self.candidate_start = torch.searchsorted(distinct, keys * entities)
        """The distinct candidates of key k are candidates[candidate_start[k]:candidate_start[k + 1]], [keys + 2]."""
        self.candidates, self.candidate_count = distinct % entities, torch.bincount(place, minlength=len(distinct))
        self.most_candidates = int(self.candidate_start.diff().max())
        self.slot = place - self.candidate_start[of_fact]
        """The number of each fact's candidate among those of its key, [2 facts]."""

    def keys_of(self, queries: Queries) -> Tensor:
        """The numbers of the questions' keys, [n]."""
        place = equal_range(self.values, self._value(*queries))
        return torch.where(place.lengths > 0, place.start, len(self.values))

    def _pairs_of(self, other: View, entities: int) -> Tensor:
        """The distinct pairs (key, candidate) of a view all of whose keys are known here, as numbers, [pairs]."""
        key = torch.repeat_interleave(torch.searchsorted(self.values, other.values), other.candidate_start.diff()[:-1])
        pairs: Tensor = key * entities + other.candidates
        return pairs

    def place_of(self, earlier: View, entities: int) -> Tensor:
        """Where the candidates of the earlier view stand among those of this one, [pairs]."""
        return torch.searchsorted(self._pairs_of(self, entities), self._pairs_of(earlier, entities))

    def _value(self, entity: Tensor, relation: Tensor, time: Tensor) -> Tensor:
        if self.key == "both":
            return entity * self.relations + relation
        return {"entity": entity, "relation": relation, "time": time, "any": torch.zeros_like(time)}[self.key]

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
        return Ranges(torch.minimum(_past_removed(low, removed), after), after)

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


class Copying(nn.Module):
    """gain(o) = u_r log(1 + c_r S(o)) + v_r log(1 + N(o)), N(o) the facts of the key with o, S(o) their weights' sum.

    The weight of a fact (x, r', o, t') is exp(A[r, r'] + C[r, r', gap] + B[r, t' - t] + M[r, n]): gap is a coarse class
    of t' - t, B and M are tables over signed logarithmic bins, and n counts the facts of the key between t and t', so
    that weights follow the pace of the key as well as the calendar. Each table is the sum of one that all relations
    share, by r' = r, r' = r inverted or neither, and one of their own. N counts all facts, S the nearest. With a prior
    each distinct candidate of each key gains a number of its own as well.
    """

    def __init__(self, view: View, most: int, start: float, *, prior: bool = False) -> None:
        super().__init__()
        self.most = most
        directed = view.relations
        self.ruler = _ruler(view, most)
        time_bins, count_bins = (int(bins.max()) + 1 for bins in (self.ruler.time_bin, self.ruler.count_bin))
        self.pair = PairTable(directed, self.ruler.classes)
        self.shared_time = nn.Parameter(-0.15 * (torch.arange(time_bins) - time_bins // 2).abs().float())
        self.shared_count = nn.Parameter(torch.zeros(count_bins))
        self.shared_gain = nn.Parameter(torch.tensor([start, 0.0, 0.1 * start]))
        self.by_time = nn.Parameter(torch.zeros(directed, time_bins))
        self.by_count = nn.Parameter(torch.zeros(directed, count_bins))
        self.gain = nn.Parameter(torch.zeros(directed, 3))
        self.prior = nn.Parameter(torch.zeros(len(view.candidates))) if prior else None

    @property
    def view(self) -> View:
        """The facts that may vote."""
        return self.ruler.view

    def over(self, timeline: Timeline) -> Copying:
        """The same weights for other facts; a number learned for a candidate stays its own, and others have 0.

        Differences of time larger than those known are weighed as the largest known.
        """
        twin, entities = sharing_weights(self), timeline.num_entities
        view = View(timeline, self.view.key, None if self.prior is None else self.view)
        ruler, known = _ruler(view, self.most), self.by_time.shape[1] // 2
        beyond = len(torch.unique(ruler.time_bin)) // 2
        twin.ruler = ruler._replace(time_bin=(ruler.time_bin - beyond).clamp(-known, known) + known)
        if self.prior is not None:
            prior = self.prior.detach().new_zeros(len(view.candidates))
            twin.prior = nn.Parameter(prior.index_copy(0, view.place_of(self.view, entities), self.prior.detach()))
        return twin

    def forward(self, scores: Tensor, relation: Tensor, ballot: Ballot, kept: Tensor | None = None) -> Tensor:
        """Add what candidates gain to the scores [n, entities] of questions for relations [n], and return them.

        Train facts that are not kept do not vote.
        """
        return add_gains(scores, self.ruler, ballot, self.weights(relation), kept)

    def ballot(self, queries: Queries, left_out: Tensor | None = None) -> Ballot:
        """Which facts the questions look at; the train facts left_out [n] neither vote nor count."""
        view = self.view
        removed = view.positions_of(queries, left_out)
        pivot = torch.searchsorted(view.joint, view.keys_of(queries) * view.steps + queries.time)
        return Ballot(
            facts=view.nearest(queries, self.most, removed),
            pivot=pivot - (removed < pivot[:, None]).sum(1),
            slots=view.slots(queries),
            time=queries.time.contiguous(),
            removed=removed.T.contiguous(),
        )

    unpack = staticmethod(Ballot.unpack)

    def weights(self, relation: Tensor) -> Weights:
        """The tables for questions with relations [n]."""
        pair, row, place = self.pair(relation)
        return Weights(
            pair,
            _rows(self.by_time, row) + self.shared_time,
            _rows(self.by_count, row) + self.shared_count,
            place,
            (self.shared_gain + self.gain).index_select(0, relation),
            self.prior,
        )

    def votes_for(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """The train facts that speak for a candidate of one question, and what each adds to its gain, [facts] each.

        What the sum of weights gives is shared by weight, what the count gives in equal parts.
        """
        view, ballot, key = self.view, self.ballot(query), int(self.view.keys_of(query))
        listed = torch.arange(int(view.start[key]), int(view.start[key + 1]), device=view.time.device)
        listed = listed[view.candidates[ballot.slots.start + view.slot[listed]] == candidate]
        weights = self.weights(query.relation)
        _, weight, _ = fact_weights(self.ruler, ballot, weights, None)
        every = torch.zeros(len(view.time), dtype=weight.dtype, device=weight.device)
        mine = every.index_copy(0, voters(ballot, view, None)[1], weight)[listed]
        height, steepness, of_count = weights.gain[0]
        by_weight = height * torch.log1p(torch.exp(steepness) * mine.sum())
        by_count = of_count * math.log1p(len(listed))
        return view.fact[listed], by_weight * mine / mine.sum().clamp(min=1e-30) + by_count / max(1, len(listed))


def _ruler(view: View, most: int) -> Ruler:
    device = view.time.device
    gaps, edges = torch.arange(view.steps + 1, device=device), torch.tensor(_GAPS, device=device)
    distance = torch.bucketize(gaps, edges, right=True)
    return Ruler(
        view,
        gap_class=len(_GAPS) + torch.cat([-distance[1:].flip(0), distance]),
        time_bin=signed_bins(view.steps, per_octave=3).to(device),
        count_bin=signed_bins(most, per_octave=2).to(device),
        classes=2 * len(_GAPS) + 1,
    )


class PairTable(nn.Module):
    """A[r, r'] + C[r, r', gap] for relations in both directions: a part that all share, and one of each pair.

    With more relations than a table has room for, the part of each pair is a product of two narrow tables.
    """

    kinds: Tensor

    def __init__(self, directed: int, classes: int) -> None:
        super().__init__()
        self.directed, self.classes, self.narrow = directed, classes, directed > _MOST_RELATIONS
        # Of any relation, of the same one, of its inverse.
        self.shared = nn.Parameter(torch.tensor([[0.0], [1.0], [0.5]]).repeat(1, classes))
        if self.narrow:
            self.left = nn.Parameter(0.1 * torch.randn(directed, _RANK))
            self.right = nn.Parameter(torch.zeros(_RANK, directed * classes))
        else:
            self.own = nn.Parameter(torch.zeros(directed, directed, classes))
            self.register_buffer("kinds", _kinds(torch.arange(directed), directed), persistent=False)

    @property
    def bytes_per_question(self) -> int:
        """Memory of the row that a question may need for itself; none where all rows are there."""
        return 12 * self.directed * self.classes if self.narrow else 0

    def forward(self, relation: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Relations [n] -> a table [rows, directed, classes], the relation of each row if it is not all, places [n]."""
        if not self.narrow:
            return self._with_shared(self.own, self.kinds), None, relation
        row, place = torch.unique(relation, return_inverse=True)
        own = (self.left.index_select(0, row) @ self.right).view(len(row), self.directed, self.classes)
        return self._with_shared(own, _kinds(row, self.directed).to(own.dtype)), row, place

    def _with_shared(self, own: Tensor, kinds: Tensor) -> Tensor:
        table: Tensor = torch.addmm(own.view(-1, self.classes), kinds, self.shared)
        return table.view_as(own)


def _kinds(row: Tensor, directed: int) -> Tensor:
    """Whether each relation is any other than that of a row [n], the same, or its inverse, [n * directed, 3]."""
    other = torch.arange(directed, device=row.device)
    turned = (row + directed // 2) % directed
    kind = (other == row[:, None]).long() + 2 * (other == turned[:, None])
    return one_hot(kind.flatten(), 3).float()


def _rows(table: Tensor, row: Tensor | None) -> Tensor:
    return table if row is None else table.index_select(0, row)


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
