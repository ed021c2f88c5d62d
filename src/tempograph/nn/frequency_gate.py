"""The frequency gate: how much of an entity's vector is the snapshot's, how much the past's and the future's."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FrequencyGate(nn.Module):
    """alpha = sigmoid(MLP(log(1 + frequencies))), with its own two-layer MLP for each of four roles.

    The roles: object or subject question, times the entity that is given or the candidates. A question sees the
    frequencies of its entity, its relation, and both together.
    """

    def __init__(self, hidden: int = 3) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(2, 2, 3, hidden))
        self.first_bias = nn.Parameter(torch.zeros(2, 2, hidden))
        self.second = nn.Parameter(torch.empty(2, 2, hidden))
        self.second_bias = nn.Parameter(torch.zeros(2, 2))
        nn.init.uniform_(self.first, -0.5, 0.5)
        nn.init.uniform_(self.second, -0.5, 0.5)

    def forward(self, frequencies: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
        """Frequencies [n, 3], side [n] (0 object question, 1 subject question) -> alpha of the given, of candidates."""
        seen = torch.log1p(frequencies.to(self.first.dtype))
        # Both sides are computed and one is picked: cheaper than gathering a small matrix for every question.
        hidden = torch.tanh(torch.einsum("nf,srfh->nsrh", seen, self.first) + self.first_bias)
        alpha = torch.sigmoid((hidden * self.second).sum(-1) + self.second_bias)
        picked = alpha[torch.arange(len(side), device=side.device), side]
        return picked[:, 0], picked[:, 1]
