"""Vectors of names: sums of the vectors of their tokens, shared by all names with a token."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tempograph.data.sorted_ranges import Ranges
from tempograph.data.timeline import Timeline


class NameVectors(nn.Module):
    """n_e = sum of the vectors of e's tokens / sqrt(number of tokens); 0 for a name without any.

    Names that share tokens begin with similar vectors, so an entity with few facts, or none, has a
    place to start from.
    """

    start: Tensor
    tokens: Tensor

    def __init__(self, timeline: Timeline, width: int, scale: float) -> None:
        super().__init__()
        names = timeline.name_tokens
        for name, ids in (("start", names.start), ("tokens", names.token)):
            self.register_buffer(name, torch.from_numpy(ids), persistent=False)
        self.token = nn.Parameter(torch.randn(names.num_tokens, width) * scale)

    def forward(self, entity: Tensor) -> Tensor:
        """Vectors of the names of entities, [n] -> [n, width]."""
        ranges = Ranges(self.start[entity], self.start[entity + 1])
        return self._sum(self.tokens[ranges.expand()[1]], ranges.lengths)

    def table(self) -> Tensor:
        """Vectors of all names, [entities, width]."""
        return self._sum(self.tokens, self.start.diff())

    def _sum(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Token ids, those of one name after the other, and how many each name has."""
        if not len(self.token):
            return self.token.new_zeros(len(lengths), self.token.shape[1])
        sums = nn.functional.embedding_bag(
            tokens, self.token, lengths.cumsum(0) - lengths, mode="sum"
        )
        return sums * lengths.clamp(min=1).rsqrt()[:, None]
