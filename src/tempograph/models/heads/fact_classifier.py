"""Whether a fact happened: a small classifier of its features."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

_HIDDEN: Final = 32
_KNOTS: Final = (-4.0, -2.0, -1.0, 0.0, 1.0)
"""Log odds at which the slope of g changes."""


class FactClassifier(nn.Module):
    """P(fact) = sigmoid(g(d z + a log p(o | s, r, t) + b log p(s | r, o, t) + c))

    for z = w x + v tanh(W x + e) + f, the log odds that a fact with the features x is a fact rather
    than a mere proposal. g is piecewise linear and rises: it calibrates. P is the probability that
    a fact that is not in the data happened, if as many facts are missing from the data as were held
    out for validation.
    """

    def __init__(self, width: int, generator: torch.Generator | None = None) -> None:
        """`width` is the number of features."""
        super().__init__()
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

    def set_scale(self, features: Tensor) -> None:
        """Scale features like these, [n, features], to mean 0 and standard deviation 1."""
        spread = features.std(0, correction=0).float()
        self.centre.copy_(features.mean(0))
        self.spread.copy_(torch.where(spread > 1e-6, spread, 1))

    def forward(self, features: Tensor) -> Tensor:
        """z of each fact, [n]."""
        return self.log_odds(self.scale(features))

    def scale(self, features: Tensor) -> Tensor:
        """Features [n, features] as the weights take them."""
        scaled: Tensor = (features.float() - self.centre) / self.spread
        return scaled

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
