"""Whether a fact that holds for a while is missing, whenever it holds."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.models.heads.fact_classifier import FactClassifier
from tempograph.models.heads.held_features import HELD_FEATURES


class HeldClassifier(FactClassifier):
    """P(fact) = q / (1 - h q), at most `largest`

    q, of `FactClassifier`, is the probability that a triple with the given features is a valid
    fact. For each of these there are h test facts among the proposals, which q counts as no facts:
    P is the probability of a fact if as many are missing as were held out for validation.
    """

    def __init__(self, generator: torch.Generator | None = None) -> None:
        super().__init__(len(HELD_FEATURES), generator)
        self.hidden: Tensor
        self.largest: Tensor
        self.register_buffer("hidden", torch.zeros((), dtype=torch.float64))
        self.register_buffer("largest", torch.ones((), dtype=torch.float64))

    @torch.inference_mode()
    def probability(self, features: Tensor, entity_log_probs: Tensor) -> Tensor:
        valid = super().probability(features, entity_log_probs)
        fact = valid / (1 - self.hidden * valid).clamp(min=1e-9)
        return torch.minimum(fact, self.largest)
