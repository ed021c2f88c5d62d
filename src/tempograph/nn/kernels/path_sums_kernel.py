"""Sums over paths of two facts as a Triton kernel; `nn.path_sums` has the twin in PyTorch."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from tempograph.nn.path_sums import PathQueries, PathWeights, RecentFacts


def path_sums(
    facts: RecentFacts,
    weights: PathWeights,
    relation: Tensor,
    queries: PathQueries,
    fact_mask: Tensor | None,
) -> Tensor:
    """`path_sums.path_sums_torch` with one kernel each way."""
    out: Tensor = _PathSums.apply(*weights, _Inputs(facts, relation, queries, fact_mask))
    return out


class _Inputs(NamedTuple):
    """What needs no gradient."""

    facts: RecentFacts
    relation: Tensor
    queries: PathQueries
    fact_mask: Tensor | None


class _PathSums(torch.autograd.Function):
    """Backward finds the paths again instead of saving them."""

    @staticmethod
    def forward(ctx: Any, by_relation: Tensor, by_time: Tensor, inputs: _Inputs) -> Tensor:
        weights = by_relation.contiguous(), by_time.contiguous()
        sums = by_time.new_zeros(len(inputs.relation), inputs.facts.index.num_entities)
        ctx.inputs = inputs
        ctx.save_for_backward(*weights)
        _run(inputs, weights, sums, None)
        return sums

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        by_relation, by_time = ctx.saved_tensors
        grads = torch.zeros_like(by_relation), torch.zeros_like(by_time)
        _run(ctx.inputs, (by_relation, by_time), grad_outputs[0].contiguous(), grads)
        return *grads, None


def _run(
    inputs: _Inputs,
    weights: tuple[Tensor, Tensor],
    sums: Tensor,
    grads: tuple[Tensor, Tensor] | None,
) -> None:
    """Add to the sums, or read their gradients from `sums` and add to those of the weights."""
    facts, relation, queries, fact_mask = inputs
    index, (by_relation, by_time) = facts.index, weights
    if not len(relation) or not len(index.time):
        return
    _kernel[(len(relation),)](
        tuple(column.contiguous() for column in (relation, *queries)),
        (index.relation, index.time, index.answer, index.fact_id),
        (facts.next_key, index.key_start, facts.bin_ago),
        index.fact_id if fact_mask is None else fact_mask,
        (by_relation, by_time),
        sums,
        (by_relation, by_time) if grads is None else grads,
        (index.num_entities, len(facts.bin_ago) - 1, by_relation.shape[2], *by_time.shape[1:]),
        MAX_FACTS=facts.max_facts,
        PLACES=triton.next_power_of_2(facts.max_facts + 2),
        HALVINGS=facts.most_rows.bit_length(),
        SHARED=by_relation.shape[1] == 1,
        MASKED=fact_mask is not None,
        BACKWARD=grads is not None,
    )


@triton.jit
def _kernel(
    queries,
    index,
    keys,
    fact_mask,
    weights,
    sums,
    grads,
    sizes,
    MAX_FACTS: tl.constexpr,
    PLACES: tl.constexpr,
    HALVINGS: tl.constexpr,
    SHARED: tl.constexpr,
    MASKED: tl.constexpr,
    BACKWARD: tl.constexpr,
) -> None:
    """All paths of one query; `sums` holds the sums' gradients in backward."""
    query_relation, query_entity, query_time, query_left_out, query_start, query_stop = queries
    fact_relation, fact_time, fact_answer, fact_id = index
    next_key, key_start, bin_ago = keys
    by_relation, by_time = weights
    grad_by_relation, grad_by_time = grads
    entities, longest_ago, fact_relations, relations, bins = sizes
    query = tl.program_id(0).to(tl.int64)
    asked = tl.load(query_relation + query)
    entity = tl.load(query_entity + query)
    now = tl.load(query_time + query)
    left_out = tl.load(query_left_out + query)
    place = tl.arange(0, PLACES)
    of_relation = asked * 0 if SHARED else asked * fact_relations
    of_time = asked * bins

    # The first facts: the last ones of the entity before the time of the query.
    first = tl.load(query_stop + query) - 1 - place
    counts = first >= tl.load(query_start + query)
    fact = tl.load(fact_id + first, mask=counts, other=-2)
    counts = counts & (fact != left_out)
    counts = counts & (tl.cumsum(counts.to(tl.int32), 0) <= MAX_FACTS)
    if MASKED:
        counts = counts & (tl.load(fact_mask + fact, mask=counts, other=0) != 0)
    relation_cell = of_relation + tl.load(fact_relation + first, mask=counts, other=0)
    ago = tl.minimum(now - tl.load(fact_time + first, mask=counts, other=0), longest_ago)
    time_cell = of_time + tl.load(bin_ago + ago, mask=counts, other=0)
    exponent = tl.load(by_relation + relation_cell, mask=counts, other=0.0)
    exponent += tl.load(by_time + time_cell, mask=counts, other=0.0)

    # The second facts: the last ones of the entity that each first fact leads to.
    key = tl.load(next_key + first, mask=counts, other=0)
    start = tl.load(key_start + key)
    low = start
    high = tl.load(key_start + key + 1)
    for _ in range(HALVINGS):
        middle = (low + high) // 2
        inside = counts & (low < high)
        before = tl.load(fact_time + middle, mask=inside, other=0) < now
        low = tl.where(inside & before, middle + 1, low)
        high = tl.where(inside, tl.where(before, high, middle), high)
    second = low[:, None] - 1 - place[None, :]
    on_path = counts[:, None] & (second >= start[:, None])
    fact = tl.load(fact_id + second, mask=on_path, other=-2)
    on_path = on_path & (fact != left_out)
    on_path = on_path & (tl.cumsum(on_path.to(tl.int32), 1) <= MAX_FACTS)
    if MASKED:
        on_path = on_path & (tl.load(fact_mask + fact, mask=on_path, other=0) != 0)
    end = tl.load(fact_answer + second, mask=on_path, other=0)
    on_path = on_path & (end != entity)
    # The tables of the second facts come after those of the first.
    second_relations = fact_relations if SHARED else relations * fact_relations
    next_relation = tl.load(fact_relation + second, mask=on_path, other=0)
    next_relation_cell = second_relations + of_relation + next_relation
    ago = tl.minimum(now - tl.load(fact_time + second, mask=on_path, other=0), longest_ago)
    next_time_cell = relations * bins + of_time + tl.load(bin_ago + ago, mask=on_path, other=0)
    next_exponent = tl.load(by_relation + next_relation_cell, mask=on_path, other=0.0)
    next_exponent += tl.load(by_time + next_time_cell, mask=on_path, other=0.0)
    weight = tl.exp(exponent[:, None] + next_exponent)
    cell = sums + query * entities + end
    if BACKWARD:
        grad = tl.where(on_path, tl.load(cell, mask=on_path, other=0.0) * weight, 0.0)
        total = tl.sum(grad, 1)
        tl.atomic_add(grad_by_relation + relation_cell, total, mask=counts)
        tl.atomic_add(grad_by_time + time_cell, total, mask=counts)
        tl.atomic_add(grad_by_relation + next_relation_cell, grad, mask=on_path)
        tl.atomic_add(grad_by_time + next_time_cell, grad, mask=on_path)
    else:
        tl.atomic_add(cell, weight, mask=on_path)
