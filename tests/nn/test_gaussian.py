"""The Gaussian decoder against the divergences of torch, its chunks and its memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.testing import assert_close

from memory import LargestTensor
from tempograph.device import MEMORY_BUDGETS, Budget
from tempograph.nn.decoders import GaussianDecoder

EXACT = {"rtol": 1e-9, "atol": 1e-9}
DIM = 3


def gaussians(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Means and variances side by side, [..., 2 dim]."""
    variances = torch.empty(*shape, DIM, dtype=dtype).uniform_(0.05, 1.5)
    return torch.cat([torch.randn(*shape, DIM, dtype=dtype), variances], dim=-1)


def divergences(subject: Tensor, relation: Tensor, object_: Tensor) -> Tensor:
    """Both of N(m_o - m_s, v_s + v_o) and N(m_r, v_r), summed over the numbers and halved."""
    (m_s, v_s), (m_r, v_r), (m_o, v_o) = (
        rows.chunk(2, -1) for rows in (subject, relation, object_)
    )
    pair, shift = Normal(m_o - m_s, (v_s + v_o).sqrt()), Normal(m_r, v_r.sqrt())
    return (kl_divergence(pair, shift) + kl_divergence(shift, pair)).sum(-1) / 2


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_minus_the_mean_of_both_divergences(seed: int) -> None:
    torch.manual_seed(seed)
    subject, relation, candidates = gaussians(7), gaussians(7), gaussians(5)
    scores = GaussianDecoder().score(GaussianDecoder().compose(subject, relation), candidates)
    assert_close(scores, -divergences(subject[:, None], relation[:, None], candidates), **EXACT)
    assert (scores < 0).all()
    # Groups of queries, each with candidates of its own.
    subject, relation, candidates = gaussians(2, 3), gaussians(2, 3), gaussians(2, 4)
    scores = GaussianDecoder().score(GaussianDecoder().compose(subject, relation), candidates)
    assert_close(
        scores,
        -divergences(subject[:, :, None], relation[:, :, None], candidates[:, None]),
        **EXACT,
    )


def test_a_relation_that_is_the_difference_scores_0() -> None:
    rows = [[1.0, 5.0, 0.1, 0.2]], [[3.0, 4.0, 0.3, 0.1]], [[2.0, -1.0, 0.4, 0.3]]
    subject, object_, relation = (torch.tensor(row, dtype=torch.float64) for row in rows)
    assert GaussianDecoder().score(
        GaussianDecoder().compose(subject, relation), object_
    ).item() == pytest.approx(0, abs=1e-12)
    inverted = GaussianDecoder().inverse(relation)
    assert inverted.tolist() == [pytest.approx([-2.0, 1.0, 0.4, 0.3])]
    assert GaussianDecoder().score(
        GaussianDecoder().compose(object_, inverted), subject
    ).item() == pytest.approx(0, abs=1e-12)


def test_a_subject_query_is_an_object_query_of_the_inverse_relation() -> None:
    torch.manual_seed(0)
    subject, relation, object_ = gaussians(6), gaussians(6), gaussians(6)
    there = (
        GaussianDecoder().score(GaussianDecoder().compose(subject, relation), object_).diagonal()
    )
    back = (
        GaussianDecoder()
        .score(GaussianDecoder().compose(object_, GaussianDecoder().inverse(relation)), subject)
        .diagonal()
    )
    assert_close(there, back, **EXACT)
    assert torch.equal(GaussianDecoder().inverse(GaussianDecoder().inverse(relation)), relation)


@pytest.mark.parametrize("groups", [(), (3,)])
@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_differences_stay_within_their_budget_and_change_nothing(
    groups: tuple[int, ...], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    # With so many candidates nothing is larger than the differences of one query.
    queries, candidates = 20, 90
    query = (
        GaussianDecoder()
        .compose(gaussians(*groups, queries), gaussians(*groups, queries))
        .float()
        .requires_grad_()
    )
    table = gaussians(*groups, candidates).float().requires_grad_()
    pull = torch.randn(*groups, queries, candidates)

    def measured() -> tuple[Tensor, tuple[Tensor, ...], int]:
        with LargestTensor() as largest:
            scores = GaussianDecoder().score(query, table)
            grads = torch.autograd.grad((scores * pull).sum(), (query, table))
        return scores, grads, largest.bytes

    expected, grads, whole = measured()
    one = 4 * candidates * DIM * max(1, *groups, 1)
    assert whole == queries * one
    # A little more than so many need, but not enough for one more.
    monkeypatch.setitem(MEMORY_BUDGETS, "differences", Budget(chunk * one + one // 2, 0))
    scores, again, peak = measured()
    assert peak <= max(chunk * one, expected.nbytes), "neither forward nor backward"
    assert_close(scores, expected, rtol=1e-5, atol=1e-5)
    for one_slope, other in zip(grads, again, strict=True):
        assert_close(one_slope, other, rtol=1e-4, atol=1e-4)


def test_backward_saves_no_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    query, table = (
        GaussianDecoder().compose(gaussians(20), gaussians(20)).requires_grad_(),
        gaussians(90).requires_grad_(),
    )

    def saved_bytes() -> int:
        sizes: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            GaussianDecoder().score(query, table)
        return sum(sizes.values())

    differences = query.element_size() * 20 * 90 * DIM
    assert saved_bytes() > 2 * differences
    monkeypatch.setitem(MEMORY_BUDGETS, "differences", Budget(4 * 90 * DIM * 5, 0))
    assert saved_bytes() < differences / 5


def test_chunks_are_exact_in_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    query = GaussianDecoder().compose(gaussians(7), gaussians(7)).requires_grad_()
    table = gaussians(5).requires_grad_()
    scores = GaussianDecoder().score(query, table)
    grads = torch.autograd.grad(scores.sum(), (query, table))
    for budget in (0, 4 * 5 * DIM, 4 * 5 * DIM * 3):
        monkeypatch.setitem(MEMORY_BUDGETS, "differences", Budget(budget, 0))
        parts = GaussianDecoder().score(query, table)
        assert_close(parts, scores, **EXACT)
        for one, other in zip(grads, torch.autograd.grad(parts.sum(), (query, table)), strict=True):
            assert_close(one, other, **EXACT)
        with torch.no_grad():
            assert_close(GaussianDecoder().score(query, table), scores, **EXACT)


def test_single_precision_is_near_double_where_variances_are_small() -> None:
    torch.manual_seed(0)
    subject, relation, candidates = (gaussians(50) for _ in range(3))
    for rows in (subject, relation, candidates):
        rows[:, DIM:] = 0.005
    # Half of the candidates are nearly right.
    candidates[:25, :DIM] = (subject + relation)[:25, :DIM] + 0.01 * torch.randn(25, DIM)
    expected = GaussianDecoder().score(GaussianDecoder().compose(subject, relation), candidates)
    actual = GaussianDecoder().score(
        GaussianDecoder().compose(subject.float(), relation.float()), candidates.float()
    )
    assert_close(actual.double(), expected, rtol=1e-5, atol=2e-3)
