"""The Triton kernels of the Gaussian decoder against their twin; on a GPU, or in Triton's interpreter on a CPU."""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from memory import Largest
from tempograph.layers.decoders import Gaussian, along_entities

pytest.importorskip("triton", reason="needs Triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not torch.cuda.is_available() and not INTERPRETED:
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)
DEVICE = "cpu" if INTERPRETED else "cuda"


def example(groups: tuple[int, ...], n: int, count: int, dim: int, smallest: float = 0.05) -> tuple[Tensor, Tensor]:
    """Questions and candidates whose variances are anywhere from the smallest on."""
    torch.manual_seed(n + count + dim)
    question = torch.randn(*groups, n, 3 * dim, device=DEVICE)
    candidates = torch.randn(*groups, count, 2 * dim, device=DEVICE)
    for rows in (question, candidates):
        rows[..., dim:].uniform_(smallest, 1.5)
    return question.requires_grad_(), candidates.requires_grad_()


def kernel(question: Tensor, candidates: Tensor) -> Tensor:
    from tempograph.layers.divergence_kernel import AlongEntities

    return AlongEntities.apply(question, candidates)


def check(question: Tensor, candidates: Tensor) -> None:
    """Sums and slopes of the kernels in single precision, of the twin in double."""
    found, expected = kernel(question, candidates), along_entities(question.double(), candidates.double())
    assert found.dtype == torch.float32 and found.is_contiguous()
    assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    pull = torch.randn_like(found)
    slopes = torch.autograd.grad(found, (question, candidates), pull)
    wanted = torch.autograd.grad(expected, (question, candidates), pull.double())
    for one, other in zip(slopes, wanted, strict=True):
        # Pulls of either sign cancel, so that a sum's error goes with its largest terms.
        assert_close(one, other, rtol=1e-5, atol=1e-5 * float(other.abs().max()) if other.numel() else 0.0)


@pytest.mark.parametrize("groups", [(), (1,), (3,)])
@pytest.mark.parametrize(
    ("n", "count", "dim"),
    [
        (1, 1, 1),
        (1, 5, 4),
        (5, 1, 3),
        (16, 64, 32),
        (17, 65, 33),
        (70, 20, 7),
        (130, 140, 6),
    ],
)
def test_sums_and_slopes_equal_those_of_the_twin(groups: tuple[int, ...], n: int, count: int, dim: int) -> None:
    check(*example(groups, n, count, dim))


def test_small_variances() -> None:
    question, candidates = example((2,), 20, 30, 10)
    with torch.no_grad():
        question[..., 10:] = 0.005
        candidates[..., 10:] = 0.005
    check(question, candidates)


def test_any_number_of_leading_dimensions() -> None:
    check(*example((2, 3), 4, 5, 6))


@pytest.mark.parametrize(("groups", "n", "count"), [((), 0, 5), ((2,), 0, 5), ((2,), 5, 0), ((0,), 5, 5)])
def test_nothing_asked_or_nothing_to_choose_from(groups: tuple[int, ...], n: int, count: int) -> None:
    question, candidates = example(groups, n, count, 4)
    sums = kernel(question, candidates)
    assert sums.shape == (*groups, n, count)
    for rows, slope in zip(
        (question, candidates), torch.autograd.grad(sums.sum(), (question, candidates)), strict=True
    ):
        assert torch.equal(slope, torch.zeros_like(rows))


def test_rows_and_pulls_that_do_not_lie_side_by_side() -> None:
    question, candidates = example((2,), 6, 7, 5)
    check(question.transpose(0, 1)[:2], candidates.transpose(0, 1)[:2])
    sums = kernel(question, candidates)
    wanted = torch.autograd.grad(along_entities(question, candidates).sum(), question)
    assert_close(torch.autograd.grad(sums.sum(), question), wanted, rtol=1e-5, atol=1e-5)


def test_slopes_of_one_side_alone() -> None:
    question, candidates = example((), 9, 8, 5)
    both = torch.autograd.grad(kernel(question, candidates).sum(), (question, candidates))
    alone = torch.autograd.grad(kernel(question, candidates.detach()).sum(), question)
    assert torch.equal(alone[0], both[0])
    alone = torch.autograd.grad(kernel(question.detach(), candidates).sum(), candidates)
    assert torch.equal(alone[0], both[1])


def test_the_same_bits_each_time() -> None:
    question, candidates = example((2,), 70, 66, 9)
    pull = torch.randn(2, 70, 66, device=DEVICE)

    def bits() -> list[Tensor]:
        sums = kernel(question, candidates)
        return [sums, *torch.autograd.grad(sums, (question, candidates), pull)]

    for one, other in zip(bits(), bits(), strict=True):
        assert torch.equal(one, other)


def test_no_tensor_is_as_large_as_all_differences() -> None:
    question, candidates = example((), 70, 80, 40)
    with Largest() as largest:
        kernel(question, candidates).sum().backward()
    assert largest.most <= 4 * 128 * 3 * 64, "whole tiles of the questions"


@pytest.mark.skipif(DEVICE == "cpu", reason="the decoder takes the kernels on a GPU only")
@pytest.mark.parametrize("count", [1, 90])
def test_the_decoder_scores_by_the_kernels(count: int) -> None:
    question, candidates = example((3,), 40, count, 20)
    found, expected = Gaussian().compare(question, candidates), Gaussian()._divergence(question, candidates)
    assert_close(found, expected, rtol=1e-5, atol=1e-3)
    pull = torch.randn_like(found)
    wanted = torch.autograd.grad(expected, (question, candidates), pull)
    for one, other in zip(torch.autograd.grad(found, (question, candidates), pull), wanted, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-5 * float(other.abs().max()))


@pytest.mark.skipif(DEVICE == "cpu", reason="too large for the interpreter")
def test_many_questions_of_many_numbers() -> None:
    check(*example((2,), 700, 900, 200, smallest=0.005))
