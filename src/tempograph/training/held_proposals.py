"""Facts that hold for a while and may be missing, and what is known about each of them."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.frequency import PatternFrequencies
from tempograph.evaluation.fact_scores import entity_log_probs
from tempograph.evaluation.probabilities import Calibrator
from tempograph.models.base import Model
from tempograph.models.heads.fact_candidates import Search
from tempograph.models.heads.held_candidates import HeldCandidates
from tempograph.models.heads.held_features import held_features
from tempograph.typing import Progress


class HeldProposals:
    """Proposes triples that are not among the known facts, and describes each of them."""

    def __init__(self, model: Model, known_facts: Tensor, calibrator: Calibrator) -> None:
        """`known_facts` [n, 6] are those that are not proposed; train facts are among them."""
        self.model, self.calibrator = model, calibrator
        self._known_facts = known_facts

    @cached_property
    def _candidates(self) -> HeldCandidates:
        return HeldCandidates(self.model.timeline, self._known_facts)

    @cached_property
    def _frequencies(self) -> PatternFrequencies:
        return PatternFrequencies(self.model.timeline)

    @cached_property
    def _known(self) -> KnownAnswers:
        return KnownAnswers(self._known_facts, self.model.timeline.sizes)

    @torch.inference_mode()
    def propose(self, limit: int, search: Search, progress: Progress | None = None) -> Tensor:
        """Plausible triples, each with a step to ask about it, at most twice the limit, [n, 4]."""
        log_probs = self.calibrator.log_probs
        return self._candidates.propose(self.model, log_probs, limit, search, progress)

    @torch.inference_mode()
    def describe(
        self, facts: Tensor, budget: int | None = None, progress: Progress | None = None
    ) -> tuple[Tensor, Tensor]:
        """Features [n, features] of proposals [n, 4], and log probabilities of entities [n, 2].

        These are of their objects and of their subjects, without other known answers.
        """
        log_probs = entity_log_probs(
            facts, self.model, self._known, self.calibrator, budget, progress
        )
        rates = self._candidates.rates
        return held_features(facts, self._frequencies, rates, log_probs), log_probs
