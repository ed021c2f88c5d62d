"""The sum over facts behind copying, forward and backward: one pass on a GPU, bounded parts elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from tempograph.ranges import Ranges

if TYPE_CHECKING:
    from tempograph.layers.copying import View


class Ballot(NamedTuple):
    """The facts that questions look at: ranges of a view, and what places each fact in the tables of weights."""

    facts: Ranges
    pivot: Tensor
    """The first fact of the key at or after the question's time, [questions]."""
    slots: Ranges
    time: Tensor
    removed: Tensor
    """Positions of facts that neither vote nor count, rising, [questions, 2]."""
    kept: Tensor | None
    view: View
    gap_class: Tensor
    time_bin: Tensor
    count_bin: Tensor
    classes: int


def vote_sums(ballot: Ballot, pair: Tensor, by_time: Tensor, by_count: Tensor, place: Tensor) -> Tensor:
    """Sum of exp(pair + by_time + by_count) over the facts of each candidate of each question.

    Tables: pair [d, relations, classes], by_time [d, bins], by_count [d, bins]; place [questions] is the row of each
    question in them. Sums are laid out by question, then by the slot of the candidate among those of its key.
    """
    if pair.device.type == "cuda":
        from tempograph.layers.voting_kernel import VoteSums

        sums: Tensor = VoteSums.apply(ballot, pair, by_time, by_count, place)  # type: ignore[no-untyped-call]
        return sums
    return summed(ballot, pair, by_time, by_count, place)


def summed(ballot: Ballot, pair: Tensor, by_time: Tensor, by_count: Tensor, place: Tensor) -> Tensor:
    """`vote_sums` in plain operations, with a tensor of all facts that vote."""
    row, weight, slot = fact_weights(ballot, pair, by_time, by_count, place)
    lengths = ballot.slots.lengths
    begin = lengths.cumsum(0) - lengths
    return weight.new_zeros(int(lengths.sum())).index_add(0, begin[row] + slot, weight)


def fact_weights(
    ballot: Ballot, pair: Tensor, by_time: Tensor, by_count: Tensor, place: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Each fact that votes: the row of its question, its weight, the slot of its candidate, [facts] each."""
    row, position = voters(ballot)
    gap = ballot.view.time[position] - ballot.time[row]
    of_question = place[row]
    relation = ballot.view.relation[position]
    most = len(ballot.count_bin) // 2
    before = (ballot.removed[row] < position[:, None]).sum(1)
    count = (position - before - ballot.pivot[row]).clamp(-most, most)
    pairs = (of_question * pair.shape[1] + relation) * ballot.classes + ballot.gap_class[gap.abs()]
    times = of_question * by_time.shape[1] + ballot.time_bin[gap + len(ballot.time_bin) // 2]
    counts = of_question * by_count.shape[1] + ballot.count_bin[count + most]
    exponent = (
        pair.flatten().index_select(0, pairs)
        + by_time.flatten().index_select(0, times)
        + by_count.flatten().index_select(0, counts)
    )
    return row, torch.exp(exponent), ballot.view.slot[position]


def voters(ballot: Ballot) -> tuple[Tensor, Tensor]:
    """The facts that vote: the row of the question and the position in the view, [facts] each."""
    row, position = ballot.facts.expand()
    votes = (position[:, None] != ballot.removed[row]).all(1)
    if ballot.kept is not None:
        votes &= ballot.kept[ballot.view.fact[position]]
    return row[votes], position[votes]
