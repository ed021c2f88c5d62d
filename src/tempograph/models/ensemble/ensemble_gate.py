"""The gate of an ensemble: weights of the parts for each query, a correction for each candidate."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

_UNLIKELY: Final = -20.0
"""Log-probabilities below this are the same to the correction of a candidate."""


class PartOutputs(NamedTuple):
    """What the gate combines."""

    part_log_probs: Tensor
    """Log-probabilities of the candidates by each part, [n, candidates, parts]."""
    query_features: Tensor
    """[n, query features]"""
    candidate_features: Tensor | None
    """[n, candidates, candidate features]; None if the gate does not look at candidates."""


class EnsembleGate(nn.Module):
    """score(o) = sum of w_p l_p(o) + v tanh(W [l(o), candidate features, query features])

    w = sharpness * softmax(MLP(query features)), l_p the log-probabilities of part p. Before it is
    fitted, a gate has equal weights and no correction, the second term.
    """

    def __init__(
        self,
        query_features: int,
        parts: int,
        hidden: int,
        seed: int = 0,
        candidate_hidden: int = 0,
        candidate_features: int = 0,
    ) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(query_features, hidden))
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second = nn.Parameter(torch.zeros(hidden, parts))
        self.second_bias = nn.Parameter(torch.zeros(parts))
        self.log_sharpness = nn.Parameter(torch.zeros(()))
        self.centre: Tensor
        self.spread: Tensor
        self.register_buffer("centre", torch.zeros(query_features))
        self.register_buffer("spread", torch.ones(query_features))
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.first, std=query_features**-0.5, generator=generator)
        self.correction: nn.ParameterDict | None = None
        if candidate_hidden:
            widths = {
                "part_log_probs": parts,
                "candidate_features": candidate_features,
                "query_features": query_features,
            }
            self.correction = nn.ParameterDict(
                {
                    name: torch.randn(width, candidate_hidden, generator=generator) / width**0.5 / 2
                    for name, width in widths.items()
                }
            )
            self.correction["bias"] = torch.zeros(candidate_hidden)
            self.correction["out"] = torch.zeros(candidate_hidden)

    def forward(self, query_features: Tensor) -> Tensor:
        """Weights of the parts, [n, query features] -> [n, parts]."""
        hidden = torch.tanh(self._scale(query_features) @ self.first + self.first_bias)
        weights = torch.softmax(hidden @ self.second + self.second_bias, dim=-1)
        return weights * self.log_sharpness.exp()

    def combine(self, outputs: PartOutputs) -> Tensor:
        """Scores of the candidates, [n, candidates]."""
        log_probs, query_features, candidate_features = outputs
        combined: Tensor = (log_probs @ self(query_features)[:, :, None])[:, :, 0]
        if self.correction is None or candidate_features is None:
            return combined
        weights = self.correction
        # The divisors bring these inputs to the scale of the query features.
        log_probs, features = log_probs.clamp(min=_UNLIKELY) / 5, candidate_features / 3
        hidden = log_probs @ weights["part_log_probs"] + features @ weights["candidate_features"]
        of_query = self._scale(query_features) @ weights["query_features"] + weights["bias"]
        hidden = hidden.add_(of_query[:, None])
        correction: Tensor = torch.tanh(hidden) @ weights["out"]
        return combined + correction

    def _scale(self, query_features: Tensor) -> Tensor:
        return (query_features - self.centre) / self.spread
