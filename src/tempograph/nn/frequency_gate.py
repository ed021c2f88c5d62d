"""The frequency gate: the mix of an entity's structural and temporal vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FrequencyGate(nn.Module):
    """alpha = sigmoid(MLP(log(1 + frequencies))), with a two-layer MLP for each of four roles.

    The roles are (object or subject query) x (the query's entity or the candidates). Frequencies
    are those of the query's entity, of its relation, and of both together. Costs O(n hidden).
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
        """Alpha of the query's entity and of the candidates, [n] each.

        frequencies [n, 3], side [n]: 0 for an object query, 1 for a subject query.
        """
        logs = torch.log1p(frequencies.to(self.first.dtype))
        # Computing both sides is cheaper than gathering a small matrix for every query.
        hidden = torch.tanh(torch.einsum("nf,srfh->nsrh", logs, self.first) + self.first_bias)
        alpha = torch.sigmoid((hidden * self.second).sum(-1) + self.second_bias)
        selected = alpha[torch.arange(len(side), device=side.device), side]
        return selected[:, 0], selected[:, 1]
