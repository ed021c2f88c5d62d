"""The Triton kernels of sums over dimensions against their twins; on a GPU, or in Triton's interpreter on a CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from memory import Largest
from tempograph.nn.decoders import GaussianDecoder, L1TranslationDecoder, entity_divergence

pytest.importorskip("triton", reason="needs Triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not torch.cuda.is_available() and not INTERPRETED:
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)
DEVICE = "cpu" if INTERPRETED else "cuda"
from tempograph.nn.kernels import distance_kernel, divergence_kernel  # noqa: E402 - imports Triton


class Sum(NamedTuple):
    """A sum by its kernels and by its twin, and how many numbers a dimension has in questions and in candidates."""

    kernel: Callable[[Tensor, Tensor], Tensor]
    twin: Callable[[Tensor, Tensor], Tensor]
    in_question: int
    in_candidate: int

    def example(
        self, groups: tuple[int, ...], n: int, count: int, dim: int, smallest: float = 0.05
    ) -> tuple[Tensor, Tensor]:
        """Means anywhere, and variances, where there are any, from the smallest on."""
        torch.manual_seed(n + count + dim)
        question = torch.randn(*groups, n, self.in_question * dim, device=DEVICE)
        candidates = torch.randn(*groups, count, self.in_candidate * dim, device=DEVICE)
        for rows in (question, candidates):
            rows[..., dim:].uniform_(smallest, 1.5)
        return question.requires_grad_(), candidates.requires_grad_()

    def check(self, question: Tensor, candidates: Tensor) -> None:
        """Sums and slopes of the kernels in single precision, of the twin in double."""
        found, expected = (
            self.kernel(question, candidates),
            self.twin(question.double(), candidates.double()),
        )
        assert found.dtype == torch.float32 and found.is_contiguous()
        assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
        pull = torch.randn_like(found)
        slopes = torch.autograd.grad(found, (question, candidates), pull)
        wanted = torch.autograd.grad(expected, (question, candidates), pull.double())
        for one, other in zip(slopes, wanted, strict=True):
            # Pulls of either sign cancel, so that a sum's error goes with its largest terms.
            assert_close(
                one,
                other,
                rtol=1e-5,
                atol=1e-5 * float(other.abs().max()) if other.numel() else 0.0,
            )


SUMS = {
    "divergence": Sum(divergence_kernel.entity_divergence, entity_divergence, 3, 2),
    "distance": Sum(distance_kernel.distances, partial(torch.cdist, p=1), 1, 1),
}


@pytest.fixture(params=SUMS)
def terms(request: pytest.FixtureRequest) -> Sum:
    """Each of the sums that have kernels."""
    return SUMS[request.param]


@pytest.mark.parametrize("groups", [(), (1,), (3,)])
@pytest.mark.parametrize(
    ("n", "count", "dim"),
    [(1, 1, 1), (1, 5, 4), (5, 1, 3), (16, 64, 32), (17, 65, 33), (70, 20, 7), (130, 140, 6)],
)
def test_sums_and_slopes_equal_those_of_the_twin(
    terms: Sum, groups: tuple[int, ...], n: int, count: int, dim: int
) -> None:
    terms.check(*terms.example(groups, n, count, dim))


def test_small_variances() -> None:
    terms = SUMS["divergence"]
    question, candidates = terms.example((2,), 20, 30, 10)
    with torch.no_grad():
        question[..., 10:] = 0.005
        candidates[..., 10:] = 0.005
    terms.check(question, candidates)


def test_a_question_that_meets_its_answer_is_pulled_nowhere() -> None:
    question = torch.ones(1, 5, device=DEVICE, requires_grad=True)
    candidates = torch.stack([torch.ones(5), torch.arange(5.0)]).to(DEVICE).requires_grad_()
    sums = distance_kernel.distances(question, candidates)
    assert sums.tolist() == [[0.0, 7.0]]
    of_question, of_candidates = torch.autograd.grad(sums.sum(), (question, candidates))
    assert of_question.tolist() == [[1.0, 0.0, -1.0, -1.0, -1.0]]
    assert of_candidates.tolist() == [[0.0] * 5, [-1.0, 0.0, 1.0, 1.0, 1.0]]


def test_any_number_of_leading_dimensions(terms: Sum) -> None:
    terms.check(*terms.example((2, 3), 4, 5, 6))


@pytest.mark.parametrize(
    ("groups", "n", "count"), [((), 0, 5), ((2,), 0, 5), ((2,), 5, 0), ((0,), 5, 5)]
)
def test_nothing_asked_or_nothing_to_choose_from(
    terms: Sum, groups: tuple[int, ...], n: int, count: int
) -> None:
    question, candidates = terms.example(groups, n, count, 4)
    sums = terms.kernel(question, candidates)
    assert sums.shape == (*groups, n, count)
    for rows, slope in zip(
        (question, candidates), torch.autograd.grad(sums.sum(), (question, candidates)), strict=True
    ):
        assert torch.equal(slope, torch.zeros_like(rows))


def test_rows_and_pulls_that_do_not_lie_side_by_side(terms: Sum) -> None:
    question, candidates = terms.example((2,), 6, 7, 5)
    terms.check(question.transpose(0, 1)[:2], candidates.transpose(0, 1)[:2])
    sums = terms.kernel(question, candidates)
    wanted = torch.autograd.grad(terms.twin(question, candidates).sum(), question)
    assert_close(torch.autograd.grad(sums.sum(), question), wanted, rtol=1e-5, atol=1e-5)


def test_slopes_of_one_side_alone(terms: Sum) -> None:
    question, candidates = terms.example((), 9, 8, 5)
    both = torch.autograd.grad(terms.kernel(question, candidates).sum(), (question, candidates))
    alone = torch.autograd.grad(terms.kernel(question, candidates.detach()).sum(), question)
    assert torch.equal(alone[0], both[0])
    alone = torch.autograd.grad(terms.kernel(question.detach(), candidates).sum(), candidates)
    assert torch.equal(alone[0], both[1])


def test_the_same_bits_each_time(terms: Sum) -> None:
    question, candidates = terms.example((2,), 70, 66, 9)
    pull = torch.randn(2, 70, 66, device=DEVICE)

    def bits() -> list[Tensor]:
        sums = terms.kernel(question, candidates)
        return [sums, *torch.autograd.grad(sums, (question, candidates), pull)]

    for one, other in zip(bits(), bits(), strict=True):
        assert torch.equal(one, other)


def test_no_tensor_is_as_large_as_all_differences(terms: Sum) -> None:
    question, candidates = terms.example((), 70, 80, 40)
    with Largest() as largest:
        terms.kernel(question, candidates).sum().backward()
    assert largest.most <= 4 * 128 * 3 * 64, "whole tiles of the questions"


@pytest.mark.skipif(DEVICE == "cpu", reason="the decoders take the kernels on a GPU only")
@pytest.mark.parametrize("count", [1, 90])
def test_the_decoders_score_by_the_kernels(terms: Sum, count: int) -> None:
    question, candidates = terms.example((3,), 40, count, 20)
    if terms is SUMS["distance"]:
        found, expected = (
            L1TranslationDecoder().score(question, candidates),
            -terms.twin(question, candidates),
        )
    else:
        found, expected = (
            GaussianDecoder().score(question, candidates),
            GaussianDecoder()._divergence(question, candidates),
        )
    assert_close(found, expected, rtol=1e-5, atol=1e-3)
    pull = torch.randn_like(found)
    wanted = torch.autograd.grad(expected, (question, candidates), pull)
    for one, other in zip(
        torch.autograd.grad(found, (question, candidates), pull), wanted, strict=True
    ):
        assert_close(one, other, rtol=1e-4, atol=1e-5 * float(other.abs().max()))


@pytest.mark.skipif(DEVICE == "cpu", reason="too large for the interpreter")
def test_many_questions_of_many_numbers(terms: Sum) -> None:
    terms.check(*terms.example((2,), 700, 900, 200, smallest=0.005))
