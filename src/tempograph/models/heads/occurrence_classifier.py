"""Whether a fact will happen at a step: one classifier for repeated facts, one for new ones."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tempograph.models.heads.fact_classifier import FactClassifier
from tempograph.models.heads.occurrence_features import FEATURES, SHARED_FEATURES


class OccurrenceClassifier(nn.Module):
    """P(fact happens at t | facts before) by `FactClassifier`, with other weights for new facts.

    Among its features are counts of the past; the log probabilities of object and subject are those
    that the model of entities gives at the first step that is not known.
    """

    def __init__(self, generator: torch.Generator | None = None) -> None:
        super().__init__()
        shared = [FEATURES.index(name) for name in SHARED_FEATURES]
        self.recurring = FactClassifier(len(FEATURES), generator, shared)
        self.new = FactClassifier(len(FEATURES), generator, shared)

    def kind(self, recurring: bool) -> FactClassifier:
        """The classifier for facts that happened before, or for those that did not."""
        return self.recurring if recurring else self.new

    @torch.inference_mode()
    def log_odds(self, features: Tensor, recurring: Tensor) -> Tensor:
        """The log odds of facts by their features [n, features] alone, [n].

        recurring [n]: which facts happened before.
        """
        return self._by_kind(recurring, lambda kind, rows: kind(features[rows]))

    @torch.inference_mode()
    def probability(self, features: Tensor, entity_log_probs: Tensor, recurring: Tensor) -> Tensor:
        """The probability that each fact happens, [n].

        features [n, features]; entity_log_probs [n, 2]: of its object and of its subject;
        recurring [n]: whether it happened before.
        """
        return self._by_kind(
            recurring, lambda kind, rows: kind.probability(features[rows], entity_log_probs[rows])
        )

    def _by_kind(
        self, recurring: Tensor, compute: Callable[[FactClassifier, Tensor], Tensor]
    ) -> Tensor:
        values = torch.empty(len(recurring), dtype=torch.float64, device=recurring.device)
        for again in (True, False):
            rows = (recurring == again).nonzero()[:, 0]
            values[rows] = compute(self.kind(again), rows).double()
        return values
