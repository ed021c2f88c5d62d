"""`add_contributions` as Triton kernels, two each way; `votes.add_contributions_torch` is the twin.

Sums over facts have the layout [queries, slots], with a slot for each distinct candidate of the
query's key and as many slots as the largest key needs: exact sizes would need a GPU sync.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from tempograph.nn.votes import VoteBins, VoteRanges, VoteWeights

_FACT_BLOCK = 128
"""Facts per program."""
_CANDIDATE_BLOCK = 512
"""Candidates per program."""


def add_contributions(
    scores: Tensor,
    bins: VoteBins,
    ranges: VoteRanges,
    weights: VoteWeights,
    fact_mask: Tensor | None,
) -> Tensor:
    """`votes.add_contributions_torch` with fused kernels."""
    tables = [weights.pair, weights.by_time, weights.by_count, weights.coefficients]
    prior = weights.coefficients.new_zeros(0) if weights.prior is None else weights.prior
    inputs = _Inputs(bins, ranges, weights.row.contiguous(), fact_mask)
    out: Tensor = _AddContributions.apply(scores, *tables, prior, inputs)
    return out


class _Inputs(NamedTuple):
    """What needs no gradient."""

    bins: VoteBins
    ranges: VoteRanges
    row: Tensor
    fact_mask: Tensor | None


class _AddContributions(torch.autograd.Function):
    """Forward saves the sums; backward computes their gradient first, then that of the tables."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        pair: Tensor,
        by_time: Tensor,
        by_count: Tensor,
        coefficients: Tensor,
        prior: Tensor,
        inputs: _Inputs,
    ) -> Tensor:
        tables = [table.contiguous() for table in (pair, by_time, by_count)]
        coefficients = coefficients.contiguous()
        slots = inputs.bins.fact_index.max_candidates
        size = len(inputs.row), slots
        sums = torch.zeros(size, device=scores.device)
        by_rows = len(inputs.bins.row_count) > 0
        counts = torch.zeros(size if by_rows else 0, dtype=torch.int32, device=scores.device)
        ctx.inputs = inputs
        ctx.save_for_backward(*tables, coefficients, prior, sums, counts)
        _run_sums(inputs, tables, sums, counts, None)
        ctx.mark_dirty(scores)
        _run_scores(inputs, coefficients, prior, sums, counts, scores, None)
        return scores

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        *tables, coefficients, prior, sums, counts = ctx.saved_tensors
        accumulated = (coefficients, prior, *tables)
        # One allocation of zeros for all gradients: a step makes many calls of this function.
        sizes = [value.numel() for value in accumulated]
        parts = torch.split(coefficients.new_zeros(sum(sizes)), sizes)
        grad_coefficients, grad_prior, *grad_tables = (
            part.view_as(value) for part, value in zip(parts, accumulated, strict=True)
        )
        grad_scores, grad_sums = grad_outputs[0].contiguous(), torch.empty_like(sums)
        grads = (grad_coefficients, grad_prior, grad_sums)
        _run_scores(ctx.inputs, coefficients, prior, sums, counts, grad_scores, grads)
        _run_sums(ctx.inputs, tables, grad_sums, counts, grad_tables)
        return grad_scores, *grad_tables, grad_coefficients, grad_prior, None


def _run_sums(
    inputs: _Inputs, tables: list[Tensor], sums: Tensor, counts: Tensor, grads: list[Tensor] | None
) -> None:
    """Add to the sums, or read their gradients from `sums` and add to the tables' gradients.

    If N counts candidates with voting facts, the first pass also fills `counts`.
    """
    bins, ranges, row, fact_mask = inputs
    index = bins.fact_index
    max_facts = len(bins.count_bin) // 2
    if not len(row) or not max_facts:
        return
    # A range holds at most max_facts voting facts and two removed ones.
    grid = (len(row), triton.cdiv(max_facts + 2, _FACT_BLOCK))
    _sums_kernel[grid](
        (*ranges.facts, ranges.pivot, ranges.time, *ranges.removed.contiguous(), row),
        (index.relation, index.time, index.candidate_slot, index.fact_id),
        (bins.row_count, index.next_row),
        index.fact_id if fact_mask is None else fact_mask,
        (bins.gap_class, bins.time_bin, bins.count_bin),
        tuple(tables),
        (sums, counts),
        tuple(tables if grads is None else grads),
        (len(bins.time_bin) // 2, max_facts, sums.shape[1]),
        tuple(table.shape[1] for table in tables),
        CLASSES=bins.num_classes,
        MASKED=fact_mask is not None,
        BY_ROWS=len(bins.row_count) > 0,
        PAST_ONLY=index.past_only,
        BACKWARD=grads is not None,
        BLOCK=_FACT_BLOCK,
    )


def _run_scores(
    inputs: _Inputs,
    coefficients: Tensor,
    prior: Tensor,
    sums: Tensor,
    counts: Tensor,
    scores: Tensor,
    grads: tuple[Tensor, Tensor, Tensor] | None,
) -> None:
    """Add to the scores, or read their gradients from `scores` and fill `grads`."""
    ranges, index = inputs.ranges, inputs.bins.fact_index
    if not len(inputs.row):
        return
    grid = (len(inputs.row), max(1, triton.cdiv(index.max_candidates, _CANDIDATE_BLOCK)))
    _scores_kernel[grid](
        (*ranges.candidates, *ranges.removed.contiguous(), ranges.facts.stop),
        (index.candidate_slot, index.candidates, index.candidate_count),
        (coefficients, prior, sums, counts),
        scores,
        (coefficients, prior, sums) if grads is None else grads,
        (len(index.time), scores.shape[1], sums.shape[1]),
        PRIOR=len(prior) > 0,
        BY_ROWS=len(inputs.bins.row_count) > 0,
        PAST_ONLY=index.past_only,
        BACKWARD=grads is not None,
        BLOCK=_CANDIDATE_BLOCK,
    )


@triton.jit
def _sums_kernel(
    ranges,
    index,
    counting,
    fact_mask,
    bins,
    tables,
    totals,
    grads,
    sizes,
    columns,
    CLASSES: tl.constexpr,
    MASKED: tl.constexpr,
    BY_ROWS: tl.constexpr,
    PAST_ONLY: tl.constexpr,
    BACKWARD: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """One block of the facts of one query; `sums` holds the sums' gradients in backward."""
    start, stop, pivot, query_time, removed, also_removed, query_row = ranges
    fact_relation, fact_time, fact_slot, fact_id = index
    row_count, next_row = counting
    sums, counts = totals
    gap_class, time_bin, count_bin = bins
    pair, by_time, by_count = tables
    grad_pair, grad_by_time, grad_by_count = grads
    steps, max_facts, slots = sizes
    relations, time_bins, count_bins = columns
    query = tl.program_id(0).to(tl.int64)
    first = tl.load(start + query) + tl.program_id(1) * BLOCK
    end = tl.load(stop + query)
    if first >= end:
        return
    fact = first + tl.arange(0, BLOCK)
    one = tl.load(removed + query)
    other = tl.load(also_removed + query)
    inside = fact < end
    votes = inside & (fact != one) & (fact != other)
    if BY_ROWS and not BACKWARD:
        # `votes.counting_rows`: rows that know the count of a candidate know the same one.
        known = votes
        if PAST_ONLY:
            known = inside & (tl.load(next_row + fact, mask=inside, other=0) >= end)
        slot = tl.load(fact_slot + fact, mask=known, other=0)
        number = tl.load(row_count + fact, mask=known, other=0)
        tl.store(counts + query * slots + slot, number.to(tl.int32), mask=known)
    if MASKED:
        number = tl.load(fact_id + fact, mask=votes, other=0)
        votes = votes & (tl.load(fact_mask + number, mask=votes, other=0) != 0)
    row = tl.load(query_row + query)
    gap = tl.load(fact_time + fact, mask=votes, other=0) - tl.load(query_time + query)
    gap = tl.where(votes, gap, 0)
    count = fact - tl.load(pivot + query) - (one < fact).to(tl.int64) - (other < fact).to(tl.int64)
    count = tl.minimum(tl.maximum(count, -max_facts), max_facts)
    gap_kind = tl.load(gap_class + gap + steps, mask=votes, other=0)
    relation = tl.load(fact_relation + fact, mask=votes, other=0)
    pair_cell = (row * relations + relation) * CLASSES + gap_kind
    time_column = tl.load(time_bin + gap + steps, mask=votes, other=0)
    count_column = tl.load(count_bin + count + max_facts, mask=votes, other=0)
    exponent = tl.load(pair + pair_cell, mask=votes, other=0.0)
    exponent += tl.load(by_time + row * time_bins + time_column, mask=votes, other=0.0)
    exponent += tl.load(by_count + row * count_bins + count_column, mask=votes, other=0.0)
    weight = tl.exp(exponent)
    target = sums + query * slots + tl.load(fact_slot + fact, mask=votes, other=0)
    if BACKWARD:
        grad = tl.load(target, mask=votes, other=0.0) * weight
        tl.atomic_add(grad_pair + pair_cell, grad, mask=votes)
        _add_by_bin(grad_by_time + row * time_bins, time_column, grad, votes)
        _add_by_bin(grad_by_count + row * count_bins, count_column, grad, votes)
    else:
        tl.atomic_add(target, weight, mask=votes)


@triton.jit
def _add_by_bin(grads, bins, grad, votes) -> None:
    """Add one sum per bin: facts are sorted by time, so a block spans few bins, all contended."""
    bin_ = tl.min(tl.where(votes, bins, 1 << 30), 0)
    last = tl.max(tl.where(votes, bins, -1), 0)
    while bin_ <= last:
        tl.atomic_add(grads + bin_, tl.sum(tl.where(votes & (bins == bin_), grad, 0.0), 0))
        bin_ += 1


@triton.jit
def log1p(x):
    """log(1 + x), accurate for small x as well."""
    more = 1.0 + x
    return tl.where(more == 1.0, x, tl.log(more) * (x / tl.where(more == 1.0, 1.0, more - 1.0)))


@triton.jit
def _scores_kernel(
    ranges,
    index,
    inputs,
    scores,
    grads,
    sizes,
    PRIOR: tl.constexpr,
    BY_ROWS: tl.constexpr,
    PAST_ONLY: tl.constexpr,
    BACKWARD: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """One block of a query's distinct candidates; `scores` holds their gradients in backward."""
    first, end, removed, also_removed, facts_stop = ranges
    fact_slot, candidates, candidate_count = index
    coefficients, prior, sums, counts = inputs
    grad_coefficients, grad_prior, grad_sums = grads
    facts, entities, slots = sizes
    query = tl.program_id(0).to(tl.int64)
    start = tl.load(first + query)
    if start + tl.program_id(1) * BLOCK >= tl.load(end + query):
        return
    one = tl.load(removed + query)
    other = tl.load(also_removed + query)
    if PAST_ONLY:
        facts = tl.load(facts_stop + query)
    one_slot = tl.where(one < facts, tl.load(fact_slot + one, mask=one < facts, other=0), -1)
    other_slot = tl.where(
        other < facts, tl.load(fact_slot + other, mask=other < facts, other=0), -1
    )
    u = tl.load(coefficients + 3 * query)
    c = tl.exp(tl.load(coefficients + 3 * query + 1))
    v = tl.load(coefficients + 3 * query + 2)
    slot = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = slot < tl.load(end + query) - start
    total = c * tl.load(sums + query * slots + slot, mask=mask, other=0.0)
    if BY_ROWS:
        count = tl.load(counts + query * slots + slot, mask=mask, other=0)
    else:
        count = tl.load(candidate_count + start + slot, mask=mask, other=0)
    count = count - (slot == one_slot).to(tl.int64) - (slot == other_slot).to(tl.int64)
    count = tl.maximum(count, 0)
    log_sum = log1p(total)
    log_count = tl.log(1.0 + count.to(tl.float32))
    entity = tl.load(candidates + start + slot, mask=mask, other=0)
    cell = scores + query * entities + entity
    value = tl.load(cell, mask=mask, other=0.0)
    if BACKWARD:
        tl.atomic_add(grad_coefficients + 3 * query, tl.sum(value * log_sum, 0))
        tl.atomic_add(
            grad_coefficients + 3 * query + 1, tl.sum(value * u * total / (1.0 + total), 0)
        )
        tl.atomic_add(grad_coefficients + 3 * query + 2, tl.sum(value * log_count, 0))
        tl.store(grad_sums + query * slots + slot, value * u * c / (1.0 + total), mask=mask)
        if PRIOR:
            tl.atomic_add(grad_prior + start + slot, value, mask=mask)
    else:
        value += u * log_sum + v * log_count
        if PRIOR:
            value += tl.load(prior + start + slot, mask=mask, other=0.0)
        tl.store(cell, value, mask=mask)
