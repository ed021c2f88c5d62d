"""The sum over facts behind copying as one Triton kernel each way; `voting.summed` is its twin in torch."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from tempograph.layers.voting import Ballot

_BLOCK = 128


class VoteSums(torch.autograd.Function):
    """Forward adds each fact's weight to its candidate's sum; backward adds its slope to the tables' gradients."""

    @staticmethod
    def forward(ctx: Any, ballot: Ballot, pair: Tensor, by_time: Tensor, by_count: Tensor, place: Tensor) -> Tensor:
        """Shapes as in `voting.vote_sums`."""
        lengths = ballot.slots.lengths
        begin = lengths.cumsum(0) - lengths
        sums = torch.zeros(int(lengths.sum()), device=pair.device)
        tables = [table.contiguous() for table in (pair, by_time, by_count)]
        ctx.ballot, ctx.begin = ballot, begin
        ctx.save_for_backward(*tables, place)
        _launch(ballot, begin, place, tables, sums, None)
        return sums

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[None, Tensor, Tensor, Tensor, None]:
        """The slopes of the sums -> of the tables."""
        *tables, place = ctx.saved_tensors
        gradients = [torch.zeros_like(table) for table in tables]
        _launch(ctx.ballot, ctx.begin, place, tables, slopes[0].contiguous(), gradients)
        return None, gradients[0], gradients[1], gradients[2], None


def _launch(
    ballot: Ballot, begin: Tensor, place: Tensor, tables: list[Tensor], sums: Tensor, gradients: list[Tensor] | None
) -> None:
    pair, by_time, by_count = tables
    view = ballot.view
    if not len(place) or not len(view.time):
        return
    longest = int(ballot.facts.lengths.max())
    grid = (len(place), max(1, triton.cdiv(longest, _BLOCK)))
    nothing = sums
    into = gradients if gradients is not None else [nothing, nothing, nothing]
    _votes[grid](
        ballot.facts.start,
        ballot.facts.stop,
        ballot.pivot,
        begin,
        ballot.time,
        ballot.removed,
        place,
        view.relation,
        view.time,
        view.slot,
        view.fact,
        ballot.kept if ballot.kept is not None else view.fact,
        ballot.gap_class,
        ballot.time_bin,
        ballot.count_bin,
        pair,
        by_time,
        by_count,
        sums,
        *into,
        len(ballot.time_bin) // 2,
        len(ballot.count_bin) // 2,
        pair.shape[1],
        by_time.shape[1],
        by_count.shape[1],
        CLASSES=ballot.classes,
        DROPPED=ballot.kept is not None,
        BACKWARD=gradients is not None,
        BLOCK=_BLOCK,
    )


@triton.jit  # type: ignore[untyped-decorator]
def _votes(  # type: ignore[no-untyped-def]
    start,
    stop,
    pivot,
    begin,
    asked_time,
    removed,
    place,
    fact_relation,
    fact_time,
    fact_slot,
    fact_number,
    kept,
    gap_class,
    time_bin,
    count_bin,
    pair,
    by_time,
    by_count,
    sums,
    pair_slope,
    time_slope,
    count_slope,
    steps,
    most,
    relations,
    time_bins,
    count_bins,
    CLASSES: tl.constexpr,  # noqa: N803
    DROPPED: tl.constexpr,  # noqa: N803
    BACKWARD: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
) -> None:
    """One block of the facts of one question; `sums` holds the sums' slopes on the way back."""
    question = tl.program_id(0)
    fact = tl.load(start + question) + tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = fact < tl.load(stop + question)
    one = tl.load(removed + 2 * question)
    other = tl.load(removed + 2 * question + 1)
    votes = there & (fact != one) & (fact != other)
    if DROPPED:
        number = tl.load(fact_number + fact, mask=votes, other=0)
        votes = votes & (tl.load(kept + number, mask=votes, other=0) != 0)
    row = tl.load(place + question)
    gap = tl.load(fact_time + fact, mask=votes, other=0) - tl.load(asked_time + question)
    gap = tl.where(votes, gap, 0)
    count = fact - tl.load(pivot + question) - (one < fact).to(tl.int64) - (other < fact).to(tl.int64)
    count = tl.minimum(tl.maximum(count, -most), most)
    kind = tl.load(gap_class + tl.abs(gap), mask=votes, other=0)
    relation = tl.load(fact_relation + fact, mask=votes, other=0)
    in_pair = (row * relations + relation) * CLASSES + kind
    in_time = row * time_bins + tl.load(time_bin + gap + steps, mask=votes, other=0)
    in_count = row * count_bins + tl.load(count_bin + count + most, mask=votes, other=0)
    exponent = tl.load(pair + in_pair, mask=votes, other=0.0)
    exponent += tl.load(by_time + in_time, mask=votes, other=0.0)
    exponent += tl.load(by_count + in_count, mask=votes, other=0.0)
    weight = tl.exp(exponent)
    into = sums + tl.load(begin + question) + tl.load(fact_slot + fact, mask=votes, other=0)
    if BACKWARD:
        slope = tl.load(into, mask=votes, other=0.0) * weight
        tl.atomic_add(pair_slope + in_pair, slope, mask=votes)
        tl.atomic_add(time_slope + in_time, slope, mask=votes)
        tl.atomic_add(count_slope + in_count, slope, mask=votes)
    else:
        tl.atomic_add(into, weight, mask=votes)
