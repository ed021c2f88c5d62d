"""What candidates gain by the facts that vote for them, forward and backward: fused on a GPU, plain elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import Ranges
from tempograph.nn.inplace import add_at

if TYPE_CHECKING:
    from tempograph.data.fact_index import View


class Ballot(NamedTuple):
    """The facts that questions look at, as ranges of a view; it does not depend on any weight."""

    facts: Ranges
    pivot: Tensor
    """The first fact of the key at or after the question's time, [questions]."""
    slots: Ranges
    """The distinct candidates of the key."""
    time: Tensor
    removed: Tensor
    """Positions of facts that neither vote nor count, rising, [2, questions]."""

    def pack(self) -> Tensor:
        """All of it in one tensor of half the size, [8, questions]."""
        return torch.stack([*self.facts, self.pivot, *self.slots, self.time, *self.removed]).int()

    @staticmethod
    def unpack(packed: Tensor) -> Ballot:
        """What was packed, or some columns of it."""
        start, stop, pivot, first, after, time, *_ = packed = packed.long()
        return Ballot(Ranges(start, stop), pivot, Ranges(first, after), time, packed[6:])


class Ruler(NamedTuple):
    """What places a fact of a view in the tables of weights."""

    view: View
    gap_class: Tensor
    """The coarse class of t' - t + steps, [2 steps + 1]."""
    time_bin: Tensor
    """The bin of t' - t + steps, [2 steps + 1]."""
    count_bin: Tensor
    """The bin of n + most, [2 most + 1]."""
    classes: int


class Weights(NamedTuple):
    """The tables, of which each question has a row, and what its candidates make of their sums."""

    pair: Tensor
    """[rows, relations, classes]."""
    by_time: Tensor
    """[rows, bins]."""
    by_count: Tensor
    """[rows, bins]."""
    place: Tensor
    """The row of each question, [questions]."""
    gain: Tensor
    """u, log c and v of each question, [questions, 3]."""
    prior: Tensor | None
    """Of each distinct candidate of each key, [candidates of the view]."""


def add_gains_plainly(
    scores: Tensor, ruler: Ruler, ballot: Ballot, weights: Weights, kept: Tensor | None
) -> Tensor:
    """`add_gains` in plain operations, with a tensor of all facts that vote."""
    view, lengths = ruler.view, ballot.slots.lengths
    begin = lengths.cumsum(0) - lengths
    row, position = ballot.slots.expand()
    voter, weight, slot = fact_weights(ruler, ballot, weights, kept)
    sums = weight.new_zeros(len(row)).index_add(0, begin[voter] + slot, weight)
    which, question = (ballot.removed < len(view.time)).nonzero().unbind(1)
    gone = begin[question] + view.slot[ballot.removed[which, question]]
    count = (
        view.candidate_count[position]
        .to(sums.dtype)
        .index_add(0, gone, -torch.ones_like(gone, dtype=sums.dtype))
    )
    height, steepness, of_count = weights.gain.index_select(0, row).unbind(1)
    gain = height * torch.log1p(torch.exp(steepness) * sums) + of_count * torch.log1p(count)
    if weights.prior is not None:
        gain = gain + weights.prior.index_select(0, position)
    cell = row * scores.shape[1] + view.candidates[position]
    return add_at(scores, cell, gain)


def fact_weights(
    ruler: Ruler, ballot: Ballot, weights: Weights, kept: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Each fact that votes: the row of its question, its weight, the slot of its candidate, [facts] each."""
    view = ruler.view
    row, position = voters(ballot, view, kept)
    gap = view.time[position] - ballot.time[row]
    place, relation = weights.place[row], view.relation[position]
    most = len(ruler.count_bin) // 2
    before = (ballot.removed[:, row] < position).sum(0)
    count = (position - before - ballot.pivot[row]).clamp(-most, most)
    pairs = (place * weights.pair.shape[1] + relation) * ruler.classes + ruler.gap_class[
        gap + len(ruler.gap_class) // 2
    ]
    times = place * weights.by_time.shape[1] + ruler.time_bin[gap + len(ruler.time_bin) // 2]
    counts = place * weights.by_count.shape[1] + ruler.count_bin[count + most]
    exponent = (
        weights.pair.flatten().index_select(0, pairs)
        + weights.by_time.flatten().index_select(0, times)
        + weights.by_count.flatten().index_select(0, counts)
    )
    return row, torch.exp(exponent), view.slot[position]


def voters(ballot: Ballot, view: View, kept: Tensor | None) -> tuple[Tensor, Tensor]:
    """The facts that vote: the row of the question and the position in the view, [facts] each."""
    row, position = ballot.facts.expand()
    votes = (position != ballot.removed[:, row]).all(0)
    if kept is not None:
        votes &= kept[view.fact[position]]
    return row[votes], position[votes]
