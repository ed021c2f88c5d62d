"""Whether a fact happened: a small classifier of its features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn

_HIDDEN: Final = 32
_KNOTS: Final = (-4.0, -2.0, -1.0, 0.0, 1.0)
"""Log odds at which the slope of g changes."""
_SHARED_LIMIT: Final = 2.0
"""Standard deviations within which shared features are held."""
_LEAST_SHARED_SPREAD: Final = 0.1
"""Shared features are logarithms; if they differ less from step to step, that says nothing."""


class FactClassifier(nn.Module):
    """P(fact) = sigmoid(g(d z + a log p(o | s, r, t) + b log p(s | r, o, t) + c))

    for z = w x + v tanh(W x + e) + f, the log odds that a fact with the features x is a fact rather
    than a mere proposal. g is piecewise linear and rises: it calibrates. P is the probability that
    a fact that is not in the data happened, if as many facts are missing from the data as were held
    out for validation.
    """

    def __init__(
        self, width: int, generator: torch.Generator | None = None, shared: Sequence[int] = ()
    ) -> None:
        """`width` is the number of features.

        `shared` are those that all facts of a step have in common. There are only as many values of
        them as steps, so a classifier learns little about unusual ones.
        """
        super().__init__()
        self.shared = list(shared)
        self.first = nn.Parameter(torch.randn(width, _HIDDEN, generator=generator) / width**0.5)
        self.first_bias = nn.Parameter(torch.zeros(_HIDDEN))
        self.second = nn.Parameter(torch.zeros(_HIDDEN))
        self.linear = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.zeros(()))
        self.combination = nn.Parameter(torch.tensor([1.0, 0.0, 0.0, 0.0]))
        """d, a, b and c."""
        self.log_slopes = nn.Parameter(torch.zeros(len(_KNOTS)))
        """Logarithms of the slopes of g after each knot; before the first it is 1."""
        self.centre: Tensor
        self.spread: Tensor
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("spread", torch.ones(width))
        self.lowest: Tensor
        self.highest: Tensor
        self.register_buffer("lowest", torch.empty(width))
        self.register_buffer("highest", torch.empty(width))
        self._set_limits()
        self.register_load_state_dict_pre_hook(_add_limits)

    def _set_limits(self) -> None:
        """Bound the scaled features that are shared, and no others."""
        for limit, sign in ((self.lowest, -1), (self.highest, 1)):
            limit.fill_(sign * math.inf)
            limit[self.shared] = sign * _SHARED_LIMIT

    def set_scale(self, features: Tensor) -> None:
        """Scale features like these, [n, features], to mean 0 and standard deviation 1.

        Other features are then moved into the range of these, beyond which nothing is learned.
        """
        spread = features.std(0, correction=0).float()
        self.centre.copy_(features.mean(0))
        self.spread.copy_(torch.where(spread > 1e-6, spread, 1))
        self.spread[self.shared] = spread[self.shared].clamp(min=_LEAST_SHARED_SPREAD)
        self._set_limits()
        scaled = self.scale(features)
        self.lowest.copy_(scaled.amin(0))
        self.highest.copy_(scaled.amax(0))

    def forward(self, features: Tensor) -> Tensor:
        """z of each fact, [n]."""
        return self.log_odds(self.scale(features))

    def scale(self, features: Tensor) -> Tensor:
        """Features [n, features] as the weights take them."""
        scaled = (features.float() - self.centre) / self.spread
        return scaled.clamp(self.lowest, self.highest)

    def log_odds(self, scaled: Tensor) -> Tensor:
        """z of each fact, [n], from scaled features [n, features]."""
        hidden = torch.tanh(torch.addmm(self.first_bias, scaled, self.first))
        log_odds: Tensor = hidden @ self.second + scaled @ self.linear + self.bias
        return log_odds

    def combine(self, log_odds: Tensor, entity_log_probs: Tensor) -> Tensor:
        """The log odds of P from z [n] and log probabilities of object and subject [n, 2]."""
        d, a, b, c = self.combination
        objects, subjects = entity_log_probs.float().clamp(min=-20).unbind(1)
        combined: Tensor = d * log_odds + a * objects + b * subjects + c
        return self._calibrate(combined)

    def _calibrate(self, log_odds: Tensor) -> Tensor:
        """g of log odds [n]."""
        result, ends = log_odds.clamp(max=_KNOTS[0]), (*_KNOTS[1:], None)
        for log_slope, start, end in zip(self.log_slopes, _KNOTS, ends, strict=True):
            result = result + log_slope.exp() * (log_odds.clamp(start, end) - start)
        return result

    @torch.inference_mode()
    def probability(self, features: Tensor, entity_log_probs: Tensor) -> Tensor:
        """The probability that each fact happened, [n].

        features [n, features]; entity_log_probs [n, 2]: of its object and of its subject.
        """
        return torch.sigmoid(self.combine(self(features), entity_log_probs).double())


def _add_limits(classifier: FactClassifier, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Earlier versions stored no limits."""
    for name in ("lowest", "highest"):
        state.setdefault(f"{prefix}{name}", getattr(classifier, name))
