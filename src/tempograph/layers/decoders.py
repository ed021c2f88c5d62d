"""Decoders: a question becomes one vector, and its score with an entity needs only products and norms."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

DecoderName = Literal["transe", "distmult", "complex", "simple"]


class Decoder(nn.Module):
    """Relation vectors, and how they join an entity to ask for another.

    A question (?, r, o) is (o, r inverted, ?): relation r + |R| is r inverted. `needs_norms` tells that the score takes
    the candidates' squared length besides the product of question and candidate.
    """

    needs_norms = False

    def __init__(self, dim: int, num_relations: int, scale: float) -> None:
        super().__init__()
        self.num_relations = num_relations
        self.relation = nn.Parameter(torch.empty(num_relations, dim))
        nn.init.normal_(self.relation, std=scale)

    def ask(self, entity: Tensor, relation: Tensor) -> Tensor:
        """One vector for each question.   entity [n, dim], relation [n] -> [n, dim]."""
        inverted = (relation >= self.num_relations)[:, None]
        vectors = self.relation[relation % self.num_relations]
        return self.join(entity, torch.where(inverted, self.inverse(vectors), vectors))

    def join(self, entity: Tensor, relation: Tensor) -> Tensor:
        """The question vector of an entity and a relation vector, [n, dim] each."""
        raise NotImplementedError

    def inverse(self, relation: Tensor) -> Tensor:
        """The vector of a relation inverted, [n, dim]."""
        raise NotImplementedError

    def score(self, question: Tensor, product: Tensor, norm: Tensor | None) -> Tensor:
        """Scores from question . candidate and, where needed, candidate . candidate, both [n, candidates]."""
        return product


class DistMult(Decoder):
    """<s, r, o>."""

    def join(self, entity: Tensor, relation: Tensor) -> Tensor:
        """S * r."""
        return entity * relation

    def inverse(self, relation: Tensor) -> Tensor:
        """R is its own inverse."""
        return relation


class ComplEx(Decoder):
    """Re <s, r, conj(o)>, the first half of a vector real, the second imaginary."""

    def join(self, entity: Tensor, relation: Tensor) -> Tensor:
        """S r as complex numbers."""
        (a, b), (c, d) = entity.chunk(2, -1), relation.chunk(2, -1)
        return torch.cat([a * c - b * d, a * d + b * c], dim=-1)

    def inverse(self, relation: Tensor) -> Tensor:
        """conj(r)."""
        real, imaginary = relation.chunk(2, -1)
        return torch.cat([real, -imaginary], dim=-1)


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
        """S + r."""
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


DECODERS: dict[DecoderName, type[Decoder]] = {
    "transe": TransE,
    "distmult": DistMult,
    "complex": ComplEx,
    "simple": SimplE,
}
