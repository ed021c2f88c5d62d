"""ProposedFacts of what may happen at a step, and what is known about each of them before it."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.data.timeline import Timeline
from tempograph.evaluation.fact_scores import unfiltered_log_probs
from tempograph.evaluation.probabilities import Calibrator
from tempograph.models.base import Model
from tempograph.models.heads.fact_candidates import Search
from tempograph.models.heads.occurrence_candidates import OccurrenceCandidates
from tempograph.models.heads.occurrence_classifier import OccurrenceClassifier
from tempograph.models.heads.occurrence_features import OccurrenceFeatures

_MIN_PROPOSALS: Final = 1_000
_PROPOSALS_PER_FACT: Final = 4
"""Repeated facts that are proposed for a step: so many at least, and so many for each fact of a
step."""
CANDIDATES_PER_PROPOSAL: Final = 5
"""Repeated facts that are looked at for each of them that is proposed."""
_NEW_SHARE: Final = 0.5
"""New facts that are proposed for each repeated one: few of them happen."""
_PAIRS_PER_PROPOSAL: Final = 0.5
"""Active pairs of entity and relation that the model is asked about for each new fact."""


class ProposedFacts(NamedTuple):
    """Facts that may happen [n, 4], which of them happened before [n], and features [n, F]."""

    facts: Tensor
    recurring: Tensor
    features: Tensor

    def take(self, index: Tensor | slice) -> ProposedFacts:
        """The proposals at an index."""
        return ProposedFacts(*(column[index] for column in self))


class OccurrenceProposals:
    """Proposes facts for a step from the facts before another, which is not later.

    Nothing from the step `now` on matters, whatever the timeline holds.
    """

    def __init__(self, model: Model, timeline: Timeline, calibrator: Calibrator) -> None:
        self.model, self.timeline, self.calibrator = model, timeline, calibrator
        self.candidates = OccurrenceCandidates(timeline)
        self.features = OccurrenceFeatures(timeline)

    def limit(self, now: int) -> int:
        """How many repeated facts are proposed for a step, unless more are wanted."""
        per_step = int(self.timeline.step_start[now]) // max(1, now)
        return max(_MIN_PROPOSALS, _PROPOSALS_PER_FACT * per_step)

    @torch.inference_mode()
    def recurring(self, step: int, now: int, limit: int, search: Search | None = None) -> Tensor:
        """Facts at a step that happened before `now`, often and recently ones first, [n, 4]."""
        return _at(step, self.candidates.recurring(now, limit, search or Search()))

    @torch.inference_mode()
    def new(self, step: int, now: int, limit: int, search: Search | None = None) -> Tensor:
        """Facts at a step that did not happen before `now`, of active pairs, [n, 4].

        There are at most half of `limit`.
        """
        limit = max(1, round(_NEW_SHARE * limit))
        pairs = max(1, round(_PAIRS_PER_PROPOSAL * limit))
        log_probs = self.calibrator.log_probs
        return _at(
            step, self.candidates.new(self.model, log_probs, now, pairs, limit, search or Search())
        )

    @torch.inference_mode()
    def describe(self, facts: Tensor, now: int, recurring: bool) -> ProposedFacts:
        """Facts [n, 4] of one kind with their features."""
        same = torch.full((len(facts),), recurring, device=facts.device)
        return ProposedFacts(facts, same, self.features(facts, now))

    @torch.inference_mode()
    def propose(
        self,
        classifier: OccurrenceClassifier,
        step: int,
        now: int,
        limit: int | None = None,
        search: Search | None = None,
    ) -> ProposedFacts:
        """The facts of both kinds that are most likely by their features.

        There are at most `limit` that happened before, and half as many that did not.
        """
        limit = self.limit(now) if limit is None else limit
        candidates = self.recurring(step, now, CANDIDATES_PER_PROPOSAL * limit, search)
        again = self.describe(candidates, now, True)
        log_odds = classifier.log_odds(again.features, again.recurring)
        best = again.take(torch.sort(log_odds.topk(min(limit, len(log_odds))).indices).values)
        new = self.describe(self.new(step, now, limit, search), now, False)
        return ProposedFacts(*(torch.cat(columns) for columns in zip(best, new, strict=True)))

    def log_probs(self, facts: Tensor, now: int, budget: int | None = None) -> Tensor:
        """Log probabilities of the objects and subjects of facts [n, 4] if asked at `now`, [n, 2].

        No answer is known then, so none is left out.
        """
        asked = torch.cat([facts[:, :3], torch.full_like(facts[:, 3:], now)], dim=1)
        return unfiltered_log_probs(asked, self.model, self.calibrator, budget)


def _at(step: int, triples: Tensor) -> Tensor:
    return torch.cat([triples, triples.new_full((len(triples), 1), step)], dim=1)
