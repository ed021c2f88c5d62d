"""Contributions of voting facts to the scores of candidates, in plain PyTorch.

`kernels.votes_kernel` computes the same with fused kernels on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor

from tempograph.data.held_facts import signed_gap
from tempograph.data.sorted_ranges import Ranges
from tempograph.nn.inplace import add_at

if TYPE_CHECKING:
    from tempograph.data.fact_index import FactIndex
    from tempograph.data.nearest_intervals import NearestFacts, NearestIntervals


_BEYOND_ALL: Final = 2**31 - 1
"""A position that no fact has."""


class VoteRanges(NamedTuple):
    """The facts of an index that may vote on each query, as ranges; independent of any weight."""

    facts: Ranges
    pivot: Tensor
    """Position of the key's first fact at or after the query's time, [queries]."""
    candidates: Ranges
    """Ranges of the key's distinct candidates."""
    time: Tensor
    removed: Tensor
    """Positions of facts that neither vote nor count, ascending, [2, queries] or [0, queries]."""

    def pack(self) -> Tensor:
        """All fields in one int32 tensor, [8, queries]."""
        removed = two_rows(self.removed)
        return torch.stack([*self.facts, self.pivot, *self.candidates, self.time, *removed]).int()

    @staticmethod
    def unpack(packed: Tensor) -> VoteRanges:
        """The inverse of `pack`, also for a selection of columns."""
        start, stop, pivot, first, end, time, *_ = packed = packed.long()
        return VoteRanges(Ranges(start, stop), pivot, Ranges(first, end), time, packed[6:])


class VoteList(NamedTuple):
    """The facts that hold for a while and may vote on each query; independent of any weight."""

    facts: NearestFacts
    candidates: Ranges
    """Ranges of the key's distinct candidates."""
    time: Tensor
    removed: Tensor
    """Positions of facts that do not count, ascending, [2, queries] or [0, queries]."""


VoteLookup = VoteRanges | VoteList


def two_rows(removed: Tensor) -> Tensor:
    """Positions of removed facts [2 or 0, queries] as [2, queries]: none is beyond all facts."""
    return removed if len(removed) else removed.new_full((2, removed.shape[1]), _BEYOND_ALL)


class VoteBins(NamedTuple):
    """Maps each fact of an index to its bins in the weight tables."""

    fact_index: FactIndex
    gap_class: Tensor
    """Coarse class of t' - t + steps, [2 steps + 1]."""
    time_bin: Tensor
    """Bin of t' - t + steps, [2 steps + 1]."""
    count_bin: Tensor
    """Bin of n + max_facts, [2 max_facts + 1]."""
    num_classes: int
    row_count: Tensor
    """For each row, what it knows of the number N of facts that name its candidate: those up to it
    if only the past counts, else all; [2 facts]. Empty if N counts without any voting fact."""
    intervals: NearestIntervals | None = None
    """When the facts of the index hold; None for events."""


PHASES: Final = 6
"""The phases of a fact at a step: see `phase`."""


def phase(start: Tensor, end: Tensor, unknown: Tensor, time: Tensor) -> Tensor:
    """What a gap does not say of facts: where in it a step is, and if it might still hold.

    1 if a fact begins at the step, 2 if it ends there, 3 if it began before and ends later; 4 if
    it ended before, but was only known to begin, 5 if it begins later, but was only known to end;
    else 0.
    """
    result = torch.where((start < time) & (time < end), 3, 0)
    result = torch.where((start < end) & (end == time), 2, result)
    result = torch.where((start < end) & (start == time), 1, result)
    result = torch.where(unknown & (end < time), 4, result)
    return torch.where(unknown & (time < start), 5, result)


class VoteWeights(NamedTuple):
    """The weight tables and the coefficients that turn sums of votes into scores."""

    pair: Tensor
    """[rows, relations, classes]."""
    by_time: Tensor
    """[rows, bins]."""
    by_count: Tensor
    """[rows, bins]."""
    row: Tensor
    """Row of the tables that each query uses, [queries]."""
    coefficients: Tensor
    """u, log c and v of each query, [queries, 3]."""
    prior: Tensor | None
    """One score for each distinct candidate of each key, [candidates of the index]."""
    by_phase: Tensor | None = None
    """[rows, relations, phases] of facts that hold for a while."""


def add_contributions_torch(
    scores: Tensor,
    bins: VoteBins,
    ranges: VoteLookup,
    weights: VoteWeights,
    fact_mask: Tensor | None,
) -> Tensor:
    """`add_contributions` in plain PyTorch; memory grows with the number of votes."""
    index, lengths = bins.fact_index, ranges.candidates.lengths
    offset = lengths.cumsum(0) - lengths
    query, position = ranges.candidates.expand()
    voted_query, weight, slot = fact_weights(bins, ranges, weights, fact_mask)
    sums = weight.new_zeros(len(query)).index_add(0, offset[voted_query] + slot, weight)
    counted, count = counted_removals(ranges, index), index.candidate_count[position]
    if len(bins.row_count):
        row_query, row = counting_rows(ranges, index)
        cell = offset[row_query] + index.candidate_slot[row]
        count = largest_at(cell, bins.row_count[row], len(query))
    which, column = counted.nonzero().unbind(1)
    removed = offset[column] + index.candidate_slot[ranges.removed[which, column]]
    # A candidate without voting facts has a count of 0 already.
    count = count.index_add(0, removed, -torch.ones_like(removed)).clamp(min=0).to(sums.dtype)
    u, log_c, v = weights.coefficients.index_select(0, query).unbind(1)
    contribution = u * torch.log1p(torch.exp(log_c) * sums) + v * torch.log1p(count)
    if weights.prior is not None:
        contribution = contribution + weights.prior.index_select(0, position)
    cell = query * scores.shape[1] + index.candidates[position]
    return add_at(scores, cell, contribution)


def counting_rows(ranges: VoteLookup, index: FactIndex) -> tuple[Tensor, Tensor]:
    """The query and the position of each row that knows a count, if N counts voting candidates.

    If only the past counts, that is the last row of a candidate, even if it is removed.
    """
    if isinstance(ranges, VoteList):
        return ranges.facts.query, ranges.facts.row
    if not index.past_only:
        return voting_facts(ranges, index, None)
    query, row = ranges.facts.expand()
    last = index.next_row[row] >= ranges.facts.stop[query]
    return query[last], row[last]


def counted_removals(ranges: VoteLookup, index: FactIndex) -> Tensor:
    """Which removed facts are among those that N counts, [2 or 0, queries]."""
    if isinstance(ranges, VoteRanges) and index.past_only:
        return ranges.removed < ranges.facts.stop
    return ranges.removed < len(index.time)


def largest_at(cell: Tensor, values: Tensor, cells: int) -> Tensor:
    """The largest of the values [n] at each cell, 0 without any, [cells]."""
    return values.new_zeros(cells).scatter_reduce_(0, cell, values, "amax")


def fact_weights(
    bins: VoteBins, ranges: VoteLookup, weights: VoteWeights, fact_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """For each voting fact: its query, its weight and the slot of its candidate, [votes] each."""
    index = bins.fact_index
    if isinstance(ranges, VoteList):
        query, position, number = listed_facts(ranges, index, fact_mask)
    else:
        query, position = voting_facts(ranges, index, fact_mask)
        number = fact_numbers(ranges, query, position)
    weight = weights_at(bins, ranges.time, weights, query, position, number)
    return query, weight, index.candidate_slot[position]


def fact_numbers(ranges: VoteRanges, query: Tensor, position: Tensor) -> Tensor:
    """The number of each voting fact in its key, counted from the time of the query, [votes]."""
    number = position - ranges.pivot[query]
    if len(ranges.removed):
        number = number - (ranges.removed[:, query] < position).sum(0)
    return number


def weights_at(
    bins: VoteBins,
    time: Tensor,
    weights: VoteWeights,
    query: Tensor,
    position: Tensor,
    number: Tensor,
) -> Tensor:
    """The weights of the facts at positions for queries at times [queries], [votes] each.

    number: that of the fact among those of its key, from the time of the query.
    """
    index, max_facts = bins.fact_index, len(bins.count_bin) // 2
    if bins.intervals is None:
        gap = index.time[position] - time[query]
    else:
        gap = signed_gap(index.time[position], bins.intervals.end[position], time[query])
    row, relation = weights.row[query], index.relation[position]
    pair = row * weights.pair.shape[1] + relation
    pair_cell = pair * bins.num_classes + bins.gap_class[gap + len(bins.gap_class) // 2]
    time_cell = row * weights.by_time.shape[1] + bins.time_bin[gap + len(bins.time_bin) // 2]
    count_cell = (
        row * weights.by_count.shape[1]
        + bins.count_bin[number.clamp(-max_facts, max_facts) + max_facts]
    )
    exponent = (
        weights.pair.flatten().index_select(0, pair_cell)
        + weights.by_time.flatten().index_select(0, time_cell)
        + weights.by_count.flatten().index_select(0, count_cell)
    )
    if weights.by_phase is not None and bins.intervals is not None:
        end, unknown = bins.intervals.end[position], bins.intervals.unknown[position]
        phases = phase(index.time[position], end, unknown, time[query])
        # Phase 0 says nothing more, and has no weight.
        known = (phases > 0).to(exponent.dtype)
        exponent = exponent + known * weights.by_phase.flatten().index_select(
            0, pair * PHASES + phases
        )
    return torch.exp(exponent)


def listed_facts(
    votes: VoteList, index: FactIndex, fact_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The query, position in the index and number of each voting fact, [votes] each."""
    query, position, number = votes.facts
    if fact_mask is None:
        return query, position, number
    chosen = fact_mask[index.fact_id[position]]
    return query[chosen], position[chosen], number[chosen]


def voting_facts(
    ranges: VoteRanges, index: FactIndex, fact_mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The query and the position in the index of each voting fact, [votes] each."""
    query, position = ranges.facts.expand()
    if fact_mask is None and not len(ranges.removed):
        return query, position
    votes = (position != ranges.removed[:, query]).all(0)
    if fact_mask is not None:
        votes &= fact_mask[index.fact_id[position]]
    return query[votes], position[votes]
