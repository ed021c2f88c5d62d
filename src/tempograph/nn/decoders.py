"""Decoders: a question becomes one vector, and its score with an entity compares that vector with the entity's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tempograph.device import memory_budget


class Decoder:
    """How a relation's vector joins an entity's to ask for another, and how candidates are compared with that.

    A question (?, r, o) is (o, r inverted, ?). `needs_norms` tells that the score takes the candidates' squared length
    besides the product of question and candidate.
    """

    needs_norms = False

    def join(self, entity: Tensor, relation: Tensor) -> Tensor:
        """The question vector of an entity and a relation vector, [n, dim] each."""
        raise NotImplementedError

    def inverse(self, relation: Tensor) -> Tensor:
        """The vector of a relation inverted, [n, dim]."""
        raise NotImplementedError

    def score(self, question: Tensor, product: Tensor, norm: Tensor | None) -> Tensor:
        """Scores from question . candidate and, where needed, candidate . candidate, both [..., n, candidates]."""
        return product

    def compare(self, question: Tensor, candidates: Tensor) -> Tensor:
        """Scores of candidates [..., candidates, width] for questions [..., n, dim] -> [..., n, candidates]."""
        norm = candidates.square().sum(-1)[..., None, :] if self.needs_norms else None
        return self.score(question, products(question, candidates), norm)

    def cubes(self, vector: Tensor) -> Tensor:
        """How large each part of a vector is, cubed, for penalties."""
        return vector.abs() ** 3


def products(question: Tensor, candidates: Tensor) -> Tensor:
    """Inner products of questions [..., n, width] and candidates [..., candidates, width] -> [..., n, candidates]."""
    # A batch of products of single rows is slower, and GPU libraries are at their limits with very many.
    if candidates.shape[-2] == 1:
        return (question * candidates).sum(-1, keepdim=True)
    kind = question.device.type
    if torch.is_autocast_enabled(kind):
        question, candidates = (
            x.to(torch.get_autocast_dtype(kind)) for x in (question, candidates)
        )
    found: Tensor = _Products.apply(question, candidates)  # type: ignore[no-untyped-call]
    return found


class _Products(torch.autograd.Function):
    """Slopes of the candidates, the largest tables of a step, come out row by row; torch would have to turn them."""

    @staticmethod
    def forward(ctx: Any, question: Tensor, candidates: Tensor) -> Tensor:
        ctx.save_for_backward(question, candidates)
        return question @ candidates.mT

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None]:
        question, candidates = ctx.saved_tensors
        to_question, to_candidates = ctx.needs_input_grad
        return (
            slope @ candidates if to_question else None,
            slope.mT @ question if to_candidates else None,
        )


class DistMult(Decoder):
    """<s, r, o>."""

    def join(self, entity: Tensor, relation: Tensor) -> Tensor:
        """s * r."""
        return entity * relation

    def inverse(self, relation: Tensor) -> Tensor:
        """r is its own inverse."""
        return relation


class ComplEx(Decoder):
    """Re <s, r, conj(o)>, the first half of a vector real, the second imaginary."""

    def join(self, entity: Tensor, relation: Tensor) -> Tensor:
        """s r as complex numbers."""
        (a, b), (c, d) = entity.chunk(2, -1), relation.chunk(2, -1)
        return torch.cat([a * c - b * d, a * d + b * c], dim=-1)

    def inverse(self, relation: Tensor) -> Tensor:
        """conj(r)."""
        real, imaginary = relation.chunk(2, -1)
        return torch.cat([real, -imaginary], dim=-1)

    def cubes(self, vector: Tensor) -> Tensor:
        """The cubed moduli of the complex numbers, half as many."""
        real, imaginary = vector.chunk(2, -1)
        return (real.square() + imaginary.square()) ** 1.5


class SimplE(Decoder):
    """(<head_s, r, tail_o> + <head_o, r', tail_s>) / 2, the first half of an entity its head, the second its tail."""

    def join(self, entity: Tensor, relation: Tensor) -> Tensor:
        """(tail_s * r', head_s * r) / 2, to be multiplied with (head_o, tail_o)."""
        (head, tail), (forward, backward) = entity.chunk(2, -1), relation.chunk(2, -1)
        return torch.cat([tail * backward, head * forward], dim=-1) / 2

    def inverse(self, relation: Tensor) -> Tensor:
        """The halves swapped."""
        forward, backward = relation.chunk(2, -1)
        return torch.cat([backward, forward], dim=-1)


class TransE(Decoder):
    """-|s + r - o|, Euclidean."""

    needs_norms = True

    def join(self, entity: Tensor, relation: Tensor) -> Tensor:
        """s + r."""
        return entity + relation

    def inverse(self, relation: Tensor) -> Tensor:
        """-r."""
        return -relation

    def score(self, question: Tensor, product: Tensor, norm: Tensor | None) -> Tensor:
        """-sqrt(q . q - 2 q . o + o . o)."""
        assert norm is not None
        squared = question.square().sum(-1, keepdim=True) - 2 * product + norm
        # The square root has no slope at 0, where a question meets its answer exactly.
        return -squared.clamp(min=1e-6).sqrt()


class TransEL1(TransE):
    """-|s + r - o|, the sum of absolute differences."""

    def compare(self, question: Tensor, candidates: Tensor) -> Tensor:
        """By kernels on a GPU, where backward of the plain way lays out all differences."""
        if candidates.shape[-2] == 1:
            return -(question - candidates).abs().sum(-1, keepdim=True)
        if _by_kernels(question, candidates):
            from tempograph.nn.kernels.distance_kernel import distances

            return -distances(question, candidates)
        return -torch.cdist(question, candidates, p=1)


class Gaussian(Decoder):
    """Minus the mean of the two Kullback-Leibler divergences of N(m_o - m_s, v_s + v_o) and N(m_r, v_r).

    Entities and relations are means and variances side by side; a question is m_s + m_r, v_s and v_r. The logarithms
    of the two divergences cancel: with d the difference of the means, what is left of four times the score is
    2 dim - sum of (v_s + v_o + d^2) / v_r + (v_r + d^2) / (v_s + v_o).
    """

    def join(self, entity: Tensor, relation: Tensor) -> Tensor:
        """(m_s + m_r, v_s, v_r)."""
        (mean, variance), (shift, width) = entity.chunk(2, -1), relation.chunk(2, -1)
        return torch.cat([mean + shift, variance, width], dim=-1)

    def inverse(self, relation: Tensor) -> Tensor:
        """(-m_r, v_r)."""
        mean, variance = relation.chunk(2, -1)
        return torch.cat([-mean, variance], dim=-1)

    def compare(self, question: Tensor, candidates: Tensor) -> Tensor:
        """By kernels on a GPU; else so many questions at once that their differences stay within a budget."""
        if _by_kernels(question, candidates):
            from tempograph.nn.kernels import divergence_kernel

            return self._scores(
                question, candidates, divergence_kernel.along_entities(question, candidates)
            )
        return in_parts(self._divergence, question, candidates, candidates.shape[-1] // 2)

    def _divergence(self, question: Tensor, candidates: Tensor) -> Tensor:
        return self._scores(question, candidates, along_entities(question, candidates))

    def _scores(self, question: Tensor, candidates: Tensor, sums: Tensor) -> Tensor:
        mean, spread, width = question.chunk(3, -1)
        m, v = candidates.chunk(2, -1)
        # All that is divided by the relation's variance is a sum of products.
        share = width.reciprocal()
        fixed = (spread * share + mean.square() * share).sum(-1, keepdim=True)
        along_relation = fixed + share @ (v + m.square()).mT - 2 * (mean * share) @ m.mT
        return (2 * m.shape[-1] - along_relation - sums) / 4


def _by_kernels(question: Tensor, candidates: Tensor) -> bool:
    # The differences with one candidate are no larger than the questions.
    return (
        question.device.type == "cuda"
        and question.dtype == torch.float32
        and candidates.shape[-2] > 1
    )


def in_parts(make: Callable[..., Tensor], question: Tensor, candidates: Tensor, dim: int) -> Tensor:
    """`make` for so many questions at once that differences with all candidates, [dim] each, stay within a budget."""
    per_question = 4 * candidates.shape[-2] * dim * math.prod(question.shape[:-2])
    at_once = max(1, memory_budget("differences", question.device) // max(1, per_question))
    if at_once >= question.shape[-2]:
        return make(question, candidates)
    # Backward makes the differences of one part again instead of keeping those of all.
    parts = [
        checkpoint(make, part, candidates, use_reentrant=False)
        for part in torch.split(question, at_once, dim=-2)
    ]
    return torch.cat(parts, dim=-2)


def along_entities(question: Tensor, candidates: Tensor) -> Tensor:
    """Sum of (v_r + d^2) / (v_s + v_o) with a tensor of all differences.

    Questions [..., n, 3 dim] and candidates [..., candidates, 2 dim] as in `Gaussian` -> [..., n, candidates].
    """
    mean, spread, width = (part[..., :, None, :] for part in question.chunk(3, -1))
    m, v = (part[..., None, :, :] for part in candidates.chunk(2, -1))
    return ((width + (mean - m).square()) / (spread + v)).sum(-1)


DECODERS: Final[dict[str, Decoder]] = {
    "transe": TransE(),
    "distmult": DistMult(),
    "complex": ComplEx(),
    "simple": SimplE(),
}
"""Decoders by name, open to more; they need only products and norms, so that they take ensembles of vectors as well."""
