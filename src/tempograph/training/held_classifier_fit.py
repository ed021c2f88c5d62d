"""Fitting of the classifier that tells whether a fact that holds for a while is missing."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph, rows_in
from tempograph.evaluation.reliability import calibration_error, reliability
from tempograph.models.heads.cross_fitted_head import half_of
from tempograph.models.heads.fact_candidates import Search
from tempograph.models.heads.held_classifier import HeldClassifier
from tempograph.training.classifier_fit import ClassifierSummary
from tempograph.training.held_proposals import HeldProposals
from tempograph.training.log_odds_fit import cross_fit_combination, fit_log_odds
from tempograph.typing import Progress

_PROPOSALS: Final = 10_000
"""Proposals of each kind that it is fitted on."""
_WEIGHT_DECAY: Final = 0.5
_STEPS: Final = 250


@torch.inference_mode(False)
@torch.enable_grad()
def fit_held_classifier(
    source: HeldProposals, graph: TemporalGraph, seed: int, progress: Progress | None = None
) -> tuple[HeldClassifier, ClassifierSummary]:
    """A classifier fitted to which proposals are valid facts, at any time.

    `source` knows the train facts alone. The model of entities was trained on these, so they cannot
    be asked for as if they were held out. The log odds of each half of the proposals are those of a
    classifier fitted to the other half when they are calibrated.
    """
    facts = source.propose(_PROPOSALS, Search(), progress).clone()
    classifier = _classifier(seed, facts.device)
    valid = graph.valid[~rows_in(graph.valid[:, :3], graph.train[:, :3])]
    is_valid = torch.from_numpy(rows_in(facts[:, :3].cpu().numpy(), valid[:, :3]))
    is_valid = is_valid.to(facts.device)
    summary: ClassifierSummary = {
        "proposals": len(facts),
        "found": int(is_valid.sum()),
        "facts": len(valid),
        "calibration_error": 0.0,
        "reliability": [],
    }
    if not len(facts):
        return classifier, summary
    features, log_probs = (column.clone() for column in source.describe(facts, progress=progress))
    # Test facts are hidden among the proposals.
    hidden = len(graph.test) / max(1, len(graph.valid))
    # What is above is within the standard error of how many valid facts were found.
    certain = 1 - 1 / math.sqrt(1 + summary["found"])
    classifier.hidden.fill_(hidden * certain)
    classifier.largest.fill_(certain)
    # Proposals about one pair stay together.
    pair = facts[:, [0, 2]].sort(1).values
    half = half_of(torch.column_stack([pair, torch.zeros_like(pair)]))
    log_odds = torch.empty(len(facts), device=facts.device)
    for number in (0, 1):
        other = _classifier(seed, facts.device)
        _fit(other, features[half != number], is_valid[half != number])
        with torch.no_grad():
            log_odds[half == number] = other(features[half == number])
    _fit(classifier, features, is_valid)
    probability = cross_fit_combination(classifier, log_odds, log_probs, is_valid, half, 0.0, 0.0)
    classifier.requires_grad_(False)
    table = reliability(probability, is_valid)
    return classifier, summary | {
        "calibration_error": calibration_error(table),
        "reliability": table,
    }


def _classifier(seed: int, device: torch.device) -> HeldClassifier:
    return HeldClassifier(torch.Generator().manual_seed(seed)).to(device)


def _fit(classifier: HeldClassifier, features: Tensor, is_valid: Tensor) -> None:
    """Fit the log odds of a classifier; with facts of one kind alone, they stay 0."""
    if not len(features):
        return
    classifier.set_scale(features)
    if is_valid.any() and not is_valid.all():
        positive, other = features[is_valid], features[~is_valid]
        fit_log_odds(classifier, positive, other, 1.0, 0.0, None, _WEIGHT_DECAY, _STEPS)
