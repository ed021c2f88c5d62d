"""Rows shared out over processes: drawing, holding and ranking them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tempograph.evaluation.ranking import filtered_ranks
from tempograph.evaluation.sharded_ranks import sharded_ranks
from tempograph.nn.loss_functions import masked_logsumexp
from tempograph.nn.row_shards import RowShards, draw_rows


class ThreadShards(RowShards):
    """Processes that are threads, and add up in a list."""

    values: list[Tensor]
    barrier: threading.Barrier

    def total(self, values: Tensor) -> Tensor:
        self.values[self.rank] = values
        self.barrier.wait()
        total = torch.stack(self.values).sum(0)
        self.barrier.wait()
        return total


@given(st.integers(0, 40), st.integers(1, 7))
def test_every_row_has_one_holder(rows: int, size: int) -> None:
    row = torch.arange(rows)
    holders = [RowShards(rank, size).owned(row) for rank in range(size)]
    assert (torch.stack(holders).sum(0) == 1).all()
    counts = [RowShards(rank, size).count(rows) for rank in range(size)]
    assert counts == [int(holder.sum()) for holder in holders]


@pytest.mark.parametrize(("count", "width"), [(1, 3), (40, 5), (61, 7), (200, 16), (3, 40)])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("block", [1, 600])
def test_rows_are_drawn_as_in_one_process(count: int, width: int, size: int, block: int) -> None:
    torch.manual_seed(0)
    whole, after = torch.randn(count, width) * 0.5, torch.randn(3)
    for rank in range(size):
        torch.manual_seed(0)
        own = draw_rows(count, width, 0.5, RowShards(rank, size), block)
        assert torch.equal(own, whole[rank::size]) and torch.equal(torch.randn(3), after)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_ranks_of_shared_out_candidates_are_those_of_all(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    # Few distinct scores, so that there are ties in and between processes.
    scores = torch.randint(4, (30, 11), generator=generator).float()
    scores[:, 3] = -torch.inf
    answer = torch.randint(11, (30,), generator=generator)
    pairs = (torch.rand(30, 11, generator=generator) < 0.2).nonzero()
    known = pairs[:, 0], pairs[:, 1]
    values, barrier = [torch.empty(0)] * size, threading.Barrier(size, timeout=10)

    def rank(number: int) -> list[Tensor]:
        shards = ThreadShards(number, size)
        vars(shards).update(values=values, barrier=barrier)
        return list(sharded_ranks(scores[:, number::size], answer, known, shards))

    with ThreadPoolExecutor(size) as pool:
        for found in pool.map(rank, range(size)):
            assert_close(found, list(filtered_ranks(scores, answer, known)))


def test_a_row_without_candidates_has_no_share_in_the_sum() -> None:
    scores = torch.randn(3, 4, requires_grad=True)
    left_out = torch.tensor([0, 0, 0, 0, 2]), torch.tensor([0, 1, 2, 3, 1])
    mask = torch.zeros(3, 4, dtype=torch.bool)
    mask[left_out] = True
    total = masked_logsumexp(scores * 2, left_out)
    expected = torch.logsumexp((scores * 2).masked_fill(mask, -torch.inf), 1)
    assert_close(total, expected)
    weight = torch.tensor([0.0, 2.0, 3.0])
    (grad,) = torch.autograd.grad(total[1:] @ weight[1:], scores)
    (slow,) = torch.autograd.grad(expected[1:] @ weight[1:], scores)
    assert_close(grad, slow)
    assert (
        masked_logsumexp(torch.empty(2, 0), (mask[0, :0].long(),) * 2).tolist() == [-torch.inf] * 2
    )
