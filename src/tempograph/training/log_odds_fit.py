"""Fitting of the two stages of a classifier of facts: log odds, and their combination."""

from __future__ import annotations

import copy
import math
from typing import Final

import torch
from torch import Tensor

from tempograph.models.heads.fact_classifier import FactClassifier

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


def fit_log_odds(
    classifier: FactClassifier,
    positive: Tensor,
    other: Tensor,
    rate: float,
    hidden: float,
    aside: Tensor | None = None,
    weight_decay: float = _WEIGHT_DECAY,
    steps: int = _STEPS,
) -> None:
    """Fit z to features of train facts, a share `rate` of all, and of proposals, [n, features].

    Among the proposals there are `hidden` facts for each train fact, so with odds = exp(z) the
    share of train facts is rate odds / (1 + odds (rate + hidden)). The examples `aside`, by default
    every tenth, are not fitted: they tell when more steps do not help.
    """
    scaled = classifier.scale(torch.cat([positive, other]))
    number = torch.arange(len(scaled), device=scaled.device)
    label = number < len(positive)
    if aside is None:
        aside = number % 10 == 0
    fitted, checked = ((scaled[part], label[part]) for part in (~aside, aside))
    networks = [
        weight for name, weight in classifier.named_parameters() if name not in _COMBINATION
    ]
    optimizer = torch.optim.AdamW(networks, _LEARNING_RATE, weight_decay=weight_decay, fused=True)

    def loss(scaled: Tensor, label: Tensor) -> Tensor:
        return _loss(classifier.log_odds(scaled), label, rate, hidden).mean()

    best, lowest = copy.deepcopy(classifier.state_dict()), math.inf
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = _LEARNING_RATE * min(1.0, (1 - (step - 1) / steps) / _COOLDOWN)
        optimizer.zero_grad()
        torch.autograd.backward(loss(*fitted))
        optimizer.step()
        if step % _CHECK_EVERY == 0:
            with torch.no_grad():
                found = float(loss(*checked))
            if found < lowest:
                best, lowest = copy.deepcopy(classifier.state_dict()), found
    classifier.load_state_dict(best)


def cross_fit_combination(
    classifier: FactClassifier,
    log_odds: Tensor,
    log_probs: Tensor,
    label: Tensor,
    half: Tensor,
    share: float,
    hidden: float,
) -> Tensor:
    """Fit the combination to all proposals, and return cross-fitted probabilities of the label.

    The probability of each proposal [n] is that of a combination fitted on the other half; half [n]
    is 0 or 1. The other arguments are those of `fit_combination`.
    """
    probability = torch.empty(len(label), dtype=torch.float64, device=label.device)
    for number in (0, 1):
        own = half == number
        fit_combination(classifier, log_odds[~own], log_probs[~own], label[~own], share, hidden)
        with torch.no_grad():
            odds = classifier.combine(log_odds[own], log_probs[own]).double()
        probability[own] = torch.sigmoid(odds + math.log1p(hidden)) / (1 + hidden)
    fit_combination(classifier, log_odds, log_probs, label, share, hidden)
    return probability


def fit_combination(
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
