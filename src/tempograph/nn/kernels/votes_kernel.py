"""`voting.add_gains` as Triton kernels, two each way; `voting.add_gains_plainly` is their twin in torch.

Sums over facts are laid out by question, then by the slot of the candidate among those of its key, with room for the
most candidates that a key has: to count those there are, the GPU would have to be waited for.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from tempograph.nn.votes import Ballot, Ruler, Weights

_BLOCK = 128
"""Facts that one program takes."""
_CANDIDATES = 512
"""Candidates that one program takes."""


def add_gains(
    scores: Tensor, ruler: Ruler, ballot: Ballot, weights: Weights, kept: Tensor | None
) -> Tensor:
    """Shapes as in `voting.add_gains`."""
    tables = [weights.pair, weights.by_time, weights.by_count, weights.gain]
    prior = weights.gain.new_zeros(0) if weights.prior is None else weights.prior
    found: Tensor = _Gains.apply(scores, *tables, prior, ruler, ballot, weights.place, kept)
    return found


class _Gains(torch.autograd.Function):
    """Forward keeps the sums; backward turns the scores' slopes into those of sums, and these into the tables'."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        pair: Tensor,
        by_time: Tensor,
        by_count: Tensor,
        gain: Tensor,
        prior: Tensor,
        ruler: Ruler,
        ballot: Ballot,
        place: Tensor,
        kept: Tensor | None,
    ) -> Tensor:
        tables = [table.contiguous() for table in (pair, by_time, by_count)]
        sums = torch.zeros(len(place), ruler.view.most_candidates, device=scores.device)
        ctx.asked = ruler, ballot, place.contiguous(), kept
        ctx.save_for_backward(*tables, gain.contiguous(), prior, sums)
        _vote(ctx.asked, tables, sums, None)
        ctx.mark_dirty(scores)
        _gain(ctx.asked, gain.contiguous(), prior, sums, scores, None)
        return scores

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        *tables, gain, prior, sums = ctx.saved_tensors
        added_to = (gain, prior, *tables)
        # One tensor of zeros for all: a step makes many calls, and each takes its time.
        sizes = [value.numel() for value in added_to]
        parts = torch.split(gain.new_zeros(sum(sizes)), sizes)
        of_gain, of_prior, *of_tables = (
            part.view_as(value) for part, value in zip(parts, added_to, strict=True)
        )
        slope, of_sums = slopes[0].contiguous(), torch.empty_like(sums)
        _gain(ctx.asked, gain, prior, sums, slope, (of_gain, of_prior, of_sums))
        _vote(ctx.asked, tables, of_sums, of_tables)
        return slope, *of_tables, of_gain, of_prior, None, None, None, None


_Asked = tuple[Ruler, Ballot, Tensor, Tensor | None]


def _vote(asked: _Asked, tables: list[Tensor], sums: Tensor, slopes: list[Tensor] | None) -> None:
    ruler, ballot, place, kept = asked
    view = ruler.view
    most = len(ruler.count_bin) // 2
    if not len(place) or not most:
        return
    # A range holds at most so many facts that vote, and two that are removed.
    grid = (len(place), triton.cdiv(most + 2, _BLOCK))
    pair, by_time, by_count = tables
    _votes[grid](
        *ballot.facts,
        ballot.pivot,
        ballot.time,
        *ballot.removed.contiguous(),
        place,
        view.relation,
        view.time,
        view.slot,
        view.fact,
        kept if kept is not None else view.fact,
        ruler.gap_class,
        ruler.time_bin,
        ruler.count_bin,
        *tables,
        sums,
        *(slopes if slopes is not None else tables),
        len(ruler.time_bin) // 2,
        most,
        pair.shape[1],
        by_time.shape[1],
        by_count.shape[1],
        sums.shape[1],
        CLASSES=ruler.classes,
        DROPPED=kept is not None,
        BACKWARD=slopes is not None,
        BLOCK=_BLOCK,
    )


def _gain(
    asked: _Asked,
    gain: Tensor,
    prior: Tensor,
    sums: Tensor,
    scores: Tensor,
    slopes: tuple[Tensor, Tensor, Tensor] | None,
) -> None:
    """`scores` are added to, or hold their slopes on the way back."""
    ruler, ballot, place, _ = asked
    view = ruler.view
    if not len(place):
        return
    grid = (len(place), max(1, triton.cdiv(view.most_candidates, _CANDIDATES)))
    _gains[grid](
        *ballot.slots,
        *ballot.removed.contiguous(),
        view.slot,
        view.candidates,
        view.candidate_count,
        gain,
        prior,
        sums,
        scores,
        *(slopes if slopes is not None else (gain, prior, sums)),
        len(view.time),
        scores.shape[1],
        sums.shape[1],
        PRIOR=len(prior) > 0,
        BACKWARD=slopes is not None,
        BLOCK=_CANDIDATES,
    )


@triton.jit
def _votes(
    start,
    stop,
    pivot,
    asked_time,
    removed,
    also_removed,
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
    width,
    CLASSES: tl.constexpr,
    DROPPED: tl.constexpr,
    BACKWARD: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """One block of the facts of one question; `sums` holds the sums' slopes on the way back."""
    question = tl.program_id(0).to(tl.int64)
    first = tl.load(start + question) + tl.program_id(1) * BLOCK
    if first >= tl.load(stop + question):
        return
    fact = first + tl.arange(0, BLOCK)
    there = fact < tl.load(stop + question)
    one = tl.load(removed + question)
    other = tl.load(also_removed + question)
    votes = there & (fact != one) & (fact != other)
    if DROPPED:
        number = tl.load(fact_number + fact, mask=votes, other=0)
        votes = votes & (tl.load(kept + number, mask=votes, other=0) != 0)
    row = tl.load(place + question)
    gap = tl.load(fact_time + fact, mask=votes, other=0) - tl.load(asked_time + question)
    gap = tl.where(votes, gap, 0)
    count = (
        fact - tl.load(pivot + question) - (one < fact).to(tl.int64) - (other < fact).to(tl.int64)
    )
    count = tl.minimum(tl.maximum(count, -most), most)
    kind = tl.load(gap_class + gap + steps, mask=votes, other=0)
    relation = tl.load(fact_relation + fact, mask=votes, other=0)
    in_pair = (row * relations + relation) * CLASSES + kind
    in_time = tl.load(time_bin + gap + steps, mask=votes, other=0)
    in_count = tl.load(count_bin + count + most, mask=votes, other=0)
    exponent = tl.load(pair + in_pair, mask=votes, other=0.0)
    exponent += tl.load(by_time + row * time_bins + in_time, mask=votes, other=0.0)
    exponent += tl.load(by_count + row * count_bins + in_count, mask=votes, other=0.0)
    weight = tl.exp(exponent)
    into = sums + question * width + tl.load(fact_slot + fact, mask=votes, other=0)
    if BACKWARD:
        slope = tl.load(into, mask=votes, other=0.0) * weight
        tl.atomic_add(pair_slope + in_pair, slope, mask=votes)
        _add_by_bin(time_slope + row * time_bins, in_time, slope, votes)
        _add_by_bin(count_slope + row * count_bins, in_count, slope, votes)
    else:
        tl.atomic_add(into, weight, mask=votes)


@triton.jit
def _add_by_bin(slopes, bins, slope, votes) -> None:
    """Facts stand by time, so that a block has few bins, all of which its neighbours have too: one sum for each."""
    here = tl.min(tl.where(votes, bins, 1 << 30), 0)
    last = tl.max(tl.where(votes, bins, -1), 0)
    while here <= last:
        tl.atomic_add(slopes + here, tl.sum(tl.where(votes & (bins == here), slope, 0.0), 0))
        here += 1


@triton.jit
def log1p(x):
    """log(1 + x), exact for small x as well."""
    more = 1.0 + x
    return tl.where(more == 1.0, x, tl.log(more) * (x / tl.where(more == 1.0, 1.0, more - 1.0)))


@triton.jit
def _gains(
    first,
    after,
    removed,
    also_removed,
    fact_slot,
    candidates,
    candidate_count,
    gain,
    prior,
    sums,
    scores,
    gain_slope,
    prior_slope,
    sums_slope,
    facts,
    entities,
    width,
    PRIOR: tl.constexpr,
    BACKWARD: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """One block of the candidates of one question, which are distinct; `scores` holds their slopes on the way back."""
    question = tl.program_id(0).to(tl.int64)
    start = tl.load(first + question)
    if start + tl.program_id(1) * BLOCK >= tl.load(after + question):
        return
    at = question * width
    one = tl.load(removed + question)
    other = tl.load(also_removed + question)
    gone = tl.where(one < facts, tl.load(fact_slot + one, mask=one < facts, other=0), -1)
    also_gone = tl.where(other < facts, tl.load(fact_slot + other, mask=other < facts, other=0), -1)
    height = tl.load(gain + 3 * question)
    scale = tl.exp(tl.load(gain + 3 * question + 1))
    of_count = tl.load(gain + 3 * question + 2)
    slot = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = slot < tl.load(after + question) - start
    total = scale * tl.load(sums + at + slot, mask=there, other=0.0)
    count = tl.load(candidate_count + start + slot, mask=there, other=0)
    count = (count - (slot == gone).to(tl.int64) - (slot == also_gone).to(tl.int64)).to(tl.float32)
    voted = log1p(total)
    counted = tl.log(1.0 + count)
    cell = scores + question * entities + tl.load(candidates + start + slot, mask=there, other=0)
    here = tl.load(cell, mask=there, other=0.0)
    if BACKWARD:
        tl.atomic_add(gain_slope + 3 * question, tl.sum(here * voted, 0))
        tl.atomic_add(
            gain_slope + 3 * question + 1, tl.sum(here * height * total / (1.0 + total), 0)
        )
        tl.atomic_add(gain_slope + 3 * question + 2, tl.sum(here * counted, 0))
        tl.store(sums_slope + at + slot, here * height * scale / (1.0 + total), mask=there)
        if PRIOR:
            tl.atomic_add(prior_slope + start + slot, here, mask=there)
    else:
        here += height * voted + of_count * counted
        if PRIOR:
            here += tl.load(prior + start + slot, mask=there, other=0.0)
        tl.store(cell, here, mask=there)
