"""Decoders: an entity and a relation make a query vector, which is compared with candidates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tempograph.device import memory_budget


class Decoder:
    """Composes an entity and a relation into a query vector and scores candidates for it.

    A query (?, r, o) is the query (o, r inverted, ?). Scoring n queries against c candidates costs
    O(n c dim) time and O(n c) memory.
    """

    needs_norms = False
    """Whether `score_products` needs the squared norms of the candidates."""

    def compose(self, entity: Tensor, relation: Tensor) -> Tensor:
        """The query vectors of entities and relations, [n, dim] each."""
        raise NotImplementedError

    def inverse(self, relation: Tensor) -> Tensor:
        """The vectors of the inverse relations, [n, dim]."""
        raise NotImplementedError

    def shift_candidates(self, query: Tensor, shift: Tensor) -> Tensor:
        """Query vectors [n, dim] for candidates that all have a vector [n, dim] added to them.

        A decoder that scores by products ignores it: each score of a query changes by the same.
        """
        return query

    def score_products(self, query: Tensor, product: Tensor, norm: Tensor | None) -> Tensor:
        """Scores from query . candidate and candidate . candidate, both [..., n, count]."""
        return product

    def score(self, query: Tensor, candidates: Tensor) -> Tensor:
        """Scores of candidates [..., count, width] for queries [..., n, dim]: [..., n, count]."""
        norm = candidates.square().sum(-1)[..., None, :] if self.needs_norms else None
        return self.score_products(query, inner_products(query, candidates), norm)

    def cubed_moduli(self, vector: Tensor) -> Tensor:
        """The cubed modulus of each component, for the N3 penalty."""
        return vector.abs() ** 3


def inner_products(query: Tensor, candidates: Tensor) -> Tensor:
    """Queries [..., n, width] times candidates [..., count, width]: [..., n, count]."""
    # A batch of single-row products is slow, and GPU libraries limit the size of a batch.
    if candidates.shape[-2] == 1:
        return (query * candidates).sum(-1, keepdim=True)
    kind = query.device.type
    if torch.is_autocast_enabled(kind):
        query, candidates = (x.to(torch.get_autocast_dtype(kind)) for x in (query, candidates))
    if not torch.is_grad_enabled():
        return query @ candidates.mT
    product: Tensor = _InnerProducts.apply(query, candidates)
    return product


class _InnerProducts(torch.autograd.Function):
    """Gives the candidates a row-major gradient; that of torch would need a transposed copy."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, candidates: Tensor) -> Tensor:
        ctx.save_for_backward(query, candidates)
        return query @ candidates.mT

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        query, candidates = ctx.saved_tensors
        needs_query, needs_candidates = ctx.needs_input_grad
        return (
            grad @ candidates if needs_query else None,
            grad.mT @ query if needs_candidates else None,
        )


class DistMultDecoder(Decoder):
    """`<s, r, o>`."""

    def compose(self, entity: Tensor, relation: Tensor) -> Tensor:
        return entity * relation

    def inverse(self, relation: Tensor) -> Tensor:
        return relation


class ComplExDecoder(Decoder):
    """`Re <s, r, conj(o)>`; the first half of a vector is real, the second imaginary."""

    def compose(self, entity: Tensor, relation: Tensor) -> Tensor:
        (a, b), (c, d) = entity.chunk(2, -1), relation.chunk(2, -1)
        return torch.cat([a * c - b * d, a * d + b * c], dim=-1)

    def inverse(self, relation: Tensor) -> Tensor:
        real, imaginary = relation.chunk(2, -1)
        return torch.cat([real, -imaginary], dim=-1)

    def cubed_moduli(self, vector: Tensor) -> Tensor:
        """The cubed moduli of the complex components, half as many."""
        real, imaginary = vector.chunk(2, -1)
        return (real.square() + imaginary.square()) ** 1.5


class SimplEDecoder(Decoder):
    """`(<head_s, r, tail_o> + <head_o, r', tail_s>) / 2` of entities (head, tail)."""

    def compose(self, entity: Tensor, relation: Tensor) -> Tensor:
        """(tail_s * r', head_s * r) / 2, to be multiplied with (head_o, tail_o)."""
        (head, tail), (forward, backward) = entity.chunk(2, -1), relation.chunk(2, -1)
        return torch.cat([tail * backward, head * forward], dim=-1) / 2

    def inverse(self, relation: Tensor) -> Tensor:
        forward, backward = relation.chunk(2, -1)
        return torch.cat([backward, forward], dim=-1)


class TranslationDecoder(Decoder):
    """`-||s + r - o||`, Euclidean."""

    needs_norms = True

    def compose(self, entity: Tensor, relation: Tensor) -> Tensor:
        return entity + relation

    def inverse(self, relation: Tensor) -> Tensor:
        return -relation

    def shift_candidates(self, query: Tensor, shift: Tensor) -> Tensor:
        """The distance of s + r to o + shift is that of s + r - shift to o."""
        return query - shift

    def score_products(self, query: Tensor, product: Tensor, norm: Tensor | None) -> Tensor:
        """-sqrt(q . q - 2 q . o + o . o)."""
        assert norm is not None
        squared = query.square().sum(-1, keepdim=True) - 2 * product + norm
        # The square root has no gradient at 0, where a query equals its answer.
        return -squared.clamp(min=1e-6).sqrt()


class L1TranslationDecoder(TranslationDecoder):
    """`-||s + r - o||_1`, the sum of absolute differences."""

    def score(self, query: Tensor, candidates: Tensor) -> Tensor:
        """In chunks on a GPU, where backward of `torch.cdist` stores all differences."""
        if candidates.shape[-2] == 1:
            return -(query - candidates).abs().sum(-1, keepdim=True)
        if query.is_cuda:
            return in_chunks(_l1_scores, query, candidates, candidates.shape[-1])
        return _l1_scores(query, candidates)


def _l1_scores(query: Tensor, candidates: Tensor) -> Tensor:
    return -torch.cdist(query, candidates, p=1)


class GaussianDecoder(Decoder):
    """`-(KL(N_e, N_r) + KL(N_r, N_e)) / 2`, N_e = N(m_o - m_s, v_s + v_o), N_r = N(m_r, v_r).

    Entities and relations are (mean, variance), a query is (m_s + m_r, v_s, v_r). The logarithms of
    the two divergences cancel. With d the difference of the means, four times the score is
    2 dim - sum((v_s + v_o + d^2) / v_r + (v_r + d^2) / (v_s + v_o)).
    """

    def compose(self, entity: Tensor, relation: Tensor) -> Tensor:
        (mean, variance), (shift, width) = entity.chunk(2, -1), relation.chunk(2, -1)
        return torch.cat([mean + shift, variance, width], dim=-1)

    def inverse(self, relation: Tensor) -> Tensor:
        mean, variance = relation.chunk(2, -1)
        return torch.cat([-mean, variance], dim=-1)

    def score(self, query: Tensor, candidates: Tensor) -> Tensor:
        """Uses kernels on a GPU, elsewhere chunks of queries whose differences fit the budget."""
        # The differences from a single candidate are no larger than the queries.
        if query.is_cuda and query.dtype == torch.float32 and candidates.shape[-2] > 1:
            from tempograph.nn.kernels import divergence_kernel

            sums = divergence_kernel.entity_divergence(query, candidates)
            return self._from_sums(query, candidates, sums)
        return in_chunks(self._score, query, candidates, candidates.shape[-1] // 2)

    def _score(self, query: Tensor, candidates: Tensor) -> Tensor:
        return self._from_sums(query, candidates, entity_divergence(query, candidates))

    def _from_sums(self, query: Tensor, candidates: Tensor, entity_sums: Tensor) -> Tensor:
        """Scores from the sums of (v_r + d^2) / (v_s + v_o); the others are matrix products."""
        mean, spread, width = query.chunk(3, -1)
        m, v = candidates.chunk(2, -1)
        precision = width.reciprocal()
        fixed = (spread * precision + mean.square() * precision).sum(-1, keepdim=True)
        relation_sums = fixed + precision @ (v + m.square()).mT - 2 * (mean * precision) @ m.mT
        return (2 * m.shape[-1] - relation_sums - entity_sums) / 4


def in_chunks(
    score: Callable[[Tensor, Tensor], Tensor], query: Tensor, candidates: Tensor, dim: int
) -> Tensor:
    """`score` for chunks of queries whose differences from all candidates fit the budget."""
    per_query = 4 * candidates.shape[-2] * dim * math.prod(query.shape[:-2])
    chunk = max(1, memory_budget("differences", query.device) // max(1, per_query))
    if chunk >= query.shape[-2]:
        return score(query, candidates)
    # Backward recomputes the differences of one chunk instead of storing those of all.
    parts = [
        checkpoint(score, part, candidates, use_reentrant=False)
        for part in torch.split(query, chunk, dim=-2)
    ]
    return torch.cat(parts, dim=-2)


def entity_divergence(query: Tensor, candidates: Tensor) -> Tensor:
    """Sum of (v_r + d^2) / (v_s + v_o), through a tensor of all differences.

    Queries [..., n, 3 dim] and candidates [..., count, 2 dim] as above: [..., n, count].
    """
    mean, spread, width = (part[..., :, None, :] for part in query.chunk(3, -1))
    m, v = (part[..., None, :, :] for part in candidates.chunk(2, -1))
    return ((width + (mean - m).square()) / (spread + v)).sum(-1)


DECODERS: Final[dict[str, Decoder]] = {
    "transe": TranslationDecoder(),
    "distmult": DistMultDecoder(),
    "complex": ComplExDecoder(),
    "simple": SimplEDecoder(),
}
"""Decoders by name; add your own here. They score by products and norms, which gates also need."""
