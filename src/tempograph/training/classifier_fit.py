"""Fitting of the classifier that tells whether a fact happened."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypedDict

import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph, rows_in
from tempograph.evaluation.reliability import ReliabilityRow, calibration_error, reliability
from tempograph.models.heads.fact_candidates import Proposals, propose_facts
from tempograph.models.heads.fact_classifier import FactClassifier
from tempograph.models.heads.fact_features import FEATURES, fact_features
from tempograph.training.log_odds_fit import cross_fit_combination, fit_log_odds
from tempograph.training.run_heads import Heads
from tempograph.typing import Progress

_PROPOSALS: Final = 20_000
"""Proposals of each kind that it is fitted on."""
_MAX_TRAIN_FACTS: Final = 20_000
"""Train facts that it is fitted on."""

EntityLogProbs = Callable[[Tensor], Tensor]
"""From facts [n, 4] to the log probabilities of their objects and of their subjects, [n, 2]."""


class ClassifierSummary(TypedDict):
    """The JSON object `classifier` in results.json; its reliability is cross-fitted."""

    proposals: int
    """Facts that the train facts propose."""
    found: int
    """How many of them are valid facts."""
    facts: int
    """The number of valid facts."""
    calibration_error: float
    """Of the probability that a proposal is a valid fact."""
    reliability: list[ReliabilityRow]


@torch.inference_mode(False)
@torch.enable_grad()
def fit_classifier(
    heads: Heads,
    graph: TemporalGraph,
    entity_log_probs: EntityLogProbs,
    seed: int,
    progress: Progress | None = None,
) -> tuple[FactClassifier, ClassifierSummary]:
    """A classifier fitted to train facts as if they were held out, and to valid facts.

    Train facts against the proposals that are no known facts give z: there are many, and the heads
    score each of them by the member that was not trained on it. The model of entities has been
    trained on them, so its log probabilities are combined with z on proposals that are valid facts
    or not.
    """
    timeline = heads.relation.timeline
    generator = torch.Generator().manual_seed(seed)
    classifier = FactClassifier(len(FEATURES), generator).to(timeline.device)
    proposals = propose_facts(
        heads.relation, heads.of_times, timeline.facts, _PROPOSALS, progress=progress
    )
    facts = proposals.facts.clone()
    is_valid = torch.from_numpy(rows_in(facts.cpu().numpy(), graph.valid)).to(facts.device)
    summary: ClassifierSummary = {
        "proposals": len(facts),
        "found": int(is_valid.sum()),
        "facts": len(graph.valid),
        "calibration_error": 0.0,
        "reliability": [],
    }
    if not len(facts):
        return classifier, summary
    features = fact_features(facts, heads.relation, heads.of_times).clone()
    positive, rate = _train_features(heads, proposals, generator)
    classifier.set_scale(torch.cat([positive, features]))
    # Test facts are hidden among the proposals, as many for each train fact as there are in all.
    hidden = len(graph.test) / len(timeline.facts)
    fit_log_odds(classifier, positive, features[~is_valid], rate, hidden)
    with torch.no_grad():
        log_odds = classifier(features)
        log_probs = entity_log_probs(facts).clone()
    hidden = len(graph.test) / max(1, len(graph.valid))
    share = math.log(max(1, len(graph.valid)) / len(timeline.facts))
    # Proposals about one pair stay together.
    half = (facts[:, 0] + facts[:, 2]) % 2
    probability = cross_fit_combination(
        classifier, log_odds, log_probs, is_valid, half, share, hidden
    )
    classifier.requires_grad_(False)
    table = reliability(probability, is_valid)
    return classifier, summary | {
        "calibration_error": calibration_error(table),
        "reliability": table,
    }


def _train_features(
    heads: Heads, proposals: Proposals, generator: torch.Generator
) -> tuple[Tensor, float]:
    """Features of train facts that would be proposed if they were held out, and their share."""
    facts = heads.relation.timeline.facts
    chosen = torch.randperm(len(facts), generator=generator)[:_MAX_TRAIN_FACTS].to(facts.device)
    features = fact_features(facts[chosen], heads.relation, heads.of_times, chosen).clone()
    relation, known, time, with_pair, with_reversed, count = (
        features[:, FEATURES.index(name)]
        for name in ("relation", "known relations", "time", "N(so, t)", "N(os, t)", "N(sro)")
    )
    log_prob = torch.log1p(-known.clamp(max=1 - 1e-9)) - torch.nn.functional.softplus(-relation)
    by_relation = (with_pair + with_reversed > 0) & (log_prob >= proposals.lowest_relation)
    by_time = (count > 0) & (count.expm1().log() + time >= proposals.lowest_time)
    return features[by_relation | by_time], len(chosen) / len(facts)
