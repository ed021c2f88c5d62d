"""The Triton kernels of the Gaussian decoder against their twin in PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from memory import LargestTensor
from tempograph.nn.decoders import GaussianDecoder, entity_divergence

pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.usefixtures("triton_interpreter")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def kernel(query: Tensor, candidates: Tensor) -> Tensor:
    from tempograph.nn.kernels import divergence_kernel

    return divergence_kernel.entity_divergence(query, candidates)


def example(
    groups: tuple[int, ...], n: int, count: int, dim: int, smallest: float = 0.05
) -> tuple[Tensor, Tensor]:
    """Random means, and variances between `smallest` and 1.5."""
    torch.manual_seed(n + count + dim)
    query = torch.randn(*groups, n, 3 * dim, device=DEVICE)
    candidates = torch.randn(*groups, count, 2 * dim, device=DEVICE)
    for rows in (query, candidates):
        rows[..., dim:].uniform_(smallest, 1.5)
    return query.requires_grad_(), candidates.requires_grad_()


def check(query: Tensor, candidates: Tensor) -> None:
    """The kernel in single precision equals the twin in double precision, gradients included."""
    actual, expected = (
        kernel(query, candidates),
        entity_divergence(query.double(), candidates.double()),
    )
    assert actual.dtype == torch.float32 and actual.is_contiguous()
    assert_close(actual.double(), expected, rtol=1e-5, atol=1e-5)
    upstream = torch.randn_like(actual)
    grads = torch.autograd.grad(actual, (query, candidates), upstream)
    expected_grads = torch.autograd.grad(expected, (query, candidates), upstream.double())
    for grad, wanted in zip(grads, expected_grads, strict=True):
        # Terms of either sign cancel, so the error of a sum goes with its largest terms.
        atol = 1e-5 * float(wanted.abs().max()) if wanted.numel() else 0.0
        assert_close(grad, wanted, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("groups", [(), (1,), (3,)])
@pytest.mark.parametrize(
    ("n", "count", "dim"),
    [(1, 1, 1), (1, 5, 4), (5, 1, 3), (16, 64, 32), (17, 65, 33), (70, 20, 7)]
    + ([(130, 140, 6)] if DEVICE == "cuda" else []),
)
def test_sums_and_gradients_equal_those_of_the_twin(
    groups: tuple[int, ...], n: int, count: int, dim: int
) -> None:
    if DEVICE == "cpu" and groups != (3,) and n * count > 1000:
        pytest.skip("too large for the interpreter")
    check(*example(groups, n, count, dim))


def test_small_variances() -> None:
    query, candidates = example((2,), 20, 30, 10)
    with torch.no_grad():
        query[..., 10:] = 0.005
        candidates[..., 10:] = 0.005
    check(query, candidates)


def test_any_number_of_leading_dimensions() -> None:
    check(*example((2, 3), 4, 5, 6))


@pytest.mark.parametrize(
    ("groups", "n", "count"), [((), 0, 5), ((2,), 0, 5), ((2,), 5, 0), ((0,), 5, 5)]
)
def test_no_queries_or_no_candidates(groups: tuple[int, ...], n: int, count: int) -> None:
    query, candidates = example(groups, n, count, 4)
    sums = kernel(query, candidates)
    assert sums.shape == (*groups, n, count)
    grads = torch.autograd.grad(sums.sum(), (query, candidates))
    for rows, grad in zip((query, candidates), grads, strict=True):
        assert torch.equal(grad, torch.zeros_like(rows))


def test_rows_and_gradients_that_are_not_contiguous() -> None:
    query, candidates = example((2,), 6, 7, 5)
    check(query.transpose(0, 1)[:2], candidates.transpose(0, 1)[:2])
    grad = torch.autograd.grad(kernel(query, candidates).sum(), query)
    expected = torch.autograd.grad(entity_divergence(query, candidates).sum(), query)
    assert_close(grad, expected, rtol=1e-5, atol=1e-5)


def test_gradients_of_one_argument() -> None:
    query, candidates = example((), 9, 8, 5)
    both = torch.autograd.grad(kernel(query, candidates).sum(), (query, candidates))
    (grad,) = torch.autograd.grad(kernel(query, candidates.detach()).sum(), query)
    assert torch.equal(grad, both[0])
    (grad,) = torch.autograd.grad(kernel(query.detach(), candidates).sum(), candidates)
    assert torch.equal(grad, both[1])


def test_results_are_the_same_bits_each_time() -> None:
    query, candidates = example((2,), *((70, 66, 9) if DEVICE == "cuda" else (20, 17, 5)))
    upstream = torch.randn(2, query.shape[1], candidates.shape[1], device=DEVICE)

    def run() -> list[Tensor]:
        sums = kernel(query, candidates)
        return [sums, *torch.autograd.grad(sums, (query, candidates), upstream)]

    for one, other in zip(run(), run(), strict=True):
        assert torch.equal(one, other)


def test_no_tensor_is_as_large_as_all_differences() -> None:
    query, candidates = example((), 70, 80, 40 if DEVICE == "cuda" else 12)
    with LargestTensor() as largest:
        kernel(query, candidates).sum().backward()
    assert largest.bytes <= 4 * 128 * 3 * 64, "whole tiles of the queries"


@pytest.mark.skipif(DEVICE == "cpu", reason="the decoder uses the kernels on a GPU only")
@pytest.mark.parametrize("count", [1, 90])
def test_the_decoder_uses_the_kernels(count: int) -> None:
    query, candidates = example((3,), 40, count, 20)
    actual = GaussianDecoder().score(query, candidates)
    expected = GaussianDecoder()._score(query, candidates)
    assert_close(actual, expected, rtol=1e-5, atol=1e-3)
    upstream = torch.randn_like(actual)
    grads = torch.autograd.grad(actual, (query, candidates), upstream)
    expected_grads = torch.autograd.grad(expected, (query, candidates), upstream)
    for grad, wanted in zip(grads, expected_grads, strict=True):
        assert_close(grad, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))


@pytest.mark.skipif(DEVICE == "cpu", reason="too large for the interpreter")
def test_many_queries_of_many_dimensions() -> None:
    check(*example((2,), 700, 900, 200, smallest=0.005))
