"""Fitting of the classifier that tells whether a fact happened."""

from __future__ import annotations

import copy
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
from tempograph.training.run_heads import Heads
from tempograph.typing import Progress

_PROPOSALS: Final = 20_000
"""Proposals of each kind that it is fitted on."""
_MAX_TRAIN_FACTS: Final = 20_000
"""Train facts that it is fitted on."""
_STEPS: Final = 600
_LEARNING_RATE: Final = 0.02
_WEIGHT_DECAY: Final = 0.1
_COOLDOWN: Final = 0.5
"""The share of all steps, the last ones, in which the learning rate falls to 0."""
_CHECK_EVERY: Final = 20
"""Steps between two looks at the facts that are kept aside."""
_COMBINATION: Final = ("combination", "log_slopes")
"""Parameters that are fitted to valid facts."""
_PENALTY: Final = 1e-4
"""On the squares of how far the combination is from z alone."""

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
    classifier = FactClassifier(generator).to(timeline.device)
    proposals = propose_facts(
        heads.relation, heads.time, timeline.facts, _PROPOSALS, progress=progress
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
    features = fact_features(facts, heads.relation, heads.time).clone()
    positive, rate = _train_features(heads, proposals, generator)
    classifier.set_scale(torch.cat([positive, features]))
    # Test facts are hidden among the proposals, as many for each train fact as there are in all.
    hidden = len(graph.test) / len(timeline.facts)
    _fit_log_odds(classifier, positive, features[~is_valid], rate, hidden)
    with torch.no_grad():
        log_odds = classifier(features)
        log_probs = entity_log_probs(facts).clone()
    hidden = len(graph.test) / max(1, len(graph.valid))
    share = math.log(max(1, len(graph.valid)) / len(timeline.facts))
    # Proposals about one pair stay together.
    half = (facts[:, 0] + facts[:, 2]) % 2
    probability = torch.empty(len(facts), dtype=torch.float64, device=facts.device)
    for number in (0, 1):
        own = half == number
        _fit_combination(classifier, log_odds[~own], log_probs[~own], is_valid[~own], share, hidden)
        with torch.no_grad():
            odds = classifier.combine(log_odds[own], log_probs[own]).double()
        probability[own] = torch.sigmoid(odds + math.log1p(hidden)) / (1 + hidden)
    _fit_combination(classifier, log_odds, log_probs, is_valid, share, hidden)
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
    features = fact_features(facts[chosen], heads.relation, heads.time, chosen).clone()
    relation, known, time, with_pair, with_reversed, count = (
        features[:, FEATURES.index(name)]
        for name in ("relation", "known relations", "time", "N(so, t)", "N(os, t)", "N(sro)")
    )
    log_prob = torch.log1p(-known.clamp(max=1 - 1e-9)) - torch.nn.functional.softplus(-relation)
    by_relation = (with_pair + with_reversed > 0) & (log_prob >= proposals.lowest_relation)
    by_time = (count > 0) & (count.expm1().log() + time >= proposals.lowest_time)
    return features[by_relation | by_time], len(chosen) / len(facts)


def _fit_log_odds(
    classifier: FactClassifier, positive: Tensor, other: Tensor, rate: float, hidden: float
) -> None:
    """Fit z to features of train facts, a share `rate` of all, and of proposals, [n, features].

    Among the proposals there are `hidden` facts for each train fact, so with odds = exp(z) the
    share of train facts is rate odds / (1 + odds (rate + hidden)). Every tenth example is kept
    aside, to stop when more steps do not help there.
    """
    features = torch.cat([positive, other])
    label = torch.arange(len(features), device=features.device) < len(positive)
    aside = torch.arange(len(features), device=features.device) % 10 == 0
    networks = [
        weight for name, weight in classifier.named_parameters() if name not in _COMBINATION
    ]
    optimizer = torch.optim.AdamW(networks, _LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
    best, lowest = copy.deepcopy(classifier.state_dict()), math.inf
    for step in range(1, _STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = _LEARNING_RATE * min(1.0, (1 - (step - 1) / _STEPS) / _COOLDOWN)
        losses = _loss(classifier(features), label, rate, hidden)
        optimizer.zero_grad()
        torch.autograd.backward(losses[~aside].mean())
        optimizer.step()
        if step % _CHECK_EVERY == 0:
            with torch.no_grad():
                found = float(_loss(classifier(features[aside]), label[aside], rate, hidden).mean())
            if found < lowest:
                best, lowest = copy.deepcopy(classifier.state_dict()), found
    classifier.load_state_dict(best)


def _fit_combination(
    classifier: FactClassifier,
    log_odds: Tensor,
    log_probs: Tensor,
    label: Tensor,
    share: float,
    hidden: float,
) -> None:
    """Fit how z [n] is combined with the log probabilities of entities [n, 2].

    label [n]: which proposals are valid facts; `hidden` test facts are expected for each of them.
    share: the logarithm of valid facts per train fact, with which z alone would be right.
    """
    start = torch.tensor([1.0, 0.0, 0.0, share], device=log_odds.device)
    combination, log_slopes = classifier.combination, classifier.log_slopes
    combination.data.copy_(start)
    log_slopes.data.zero_()
    optimizer = torch.optim.LBFGS(
        [combination, log_slopes], max_iter=100, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = _loss(classifier.combine(log_odds, log_probs), label, 1.0, hidden).mean()
        change = torch.cat([combination - start, log_slopes])
        value = value + _PENALTY * change.square().sum()
        torch.autograd.backward(value)
        return value

    if len(label):
        optimizer.step(loss)


def _loss(log_odds: Tensor, label: Tensor, rate: float, hidden: float) -> Tensor:
    """-log P(label) for log odds of being a fact, [n].

    A share `rate` of all facts has the label; `hidden` facts for each fact have not.
    """
    nothing = torch.zeros_like(log_odds)
    total = torch.logaddexp(nothing, log_odds + math.log(rate + hidden))
    rest = nothing
    if hidden > 0:
        rest = torch.logaddexp(nothing, log_odds + math.log(hidden))
    return total - torch.where(label, log_odds + math.log(rate), rest)
