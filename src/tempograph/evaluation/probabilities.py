"""From scores to probabilities: one distribution over all candidates of a question."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.models.sparse_scores import SparseScores

_LOG_RANGE: Final = (-6.0, 6.0)
"""The range of the logarithm of the temperature."""
_LARGEST_UNIFORM: Final = 0.9
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
TOP: Final = 10


class Confidence(NamedTuple):
    """How sure each of n questions is of its best candidate, and what became of it, [n] each."""

    best: Tensor
    """The probability of the best candidate."""
    right: Tensor
    """Whether the best candidate is the right one."""
    among_ten: Tensor
    """Whether fewer than ten candidates are better than the right one."""
    log_prob: Tensor
    """The logarithm of the probability of the right candidate."""

    def cpu(self) -> Confidence:
        """The same on the CPU."""
        return Confidence(*(column.cpu() for column in self))


class Calibrator(NamedTuple):
    """p = (1 - uniform) softmax(scores / temperature) + uniform / number of candidates

    The order of candidates is that of their scores, and the probabilities of a question add up to
    1. A candidate that a model rules out has a score of -inf and the uniform share.
    """

    temperature: float = 1.0
    uniform: float = 0.0

    def log_probs(self, scores: Tensor, excluded: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Log probabilities in double precision, [n, candidates].

        excluded: distinct pairs (row, candidate) that are left out: their probability is 0, and
        those of the others add up to 1.
        """
        scaled = scores.to(torch.float64, copy=True).div_(self.temperature)
        eligible = torch.full((len(scores),), scores.shape[1], device=scores.device)
        if excluded is not None:
            scaled[excluded] = -math.inf
            eligible = eligible - torch.bincount(excluded[0], minlength=len(scores))
        total = torch.logsumexp(scaled, 1)
        log_probs = self._mix(
            scaled.sub_(_finite(total)[:, None]), total[:, None], eligible[:, None]
        )
        if excluded is not None:
            log_probs[excluded] = -math.inf
        return log_probs

    def confidence(self, scores: Tensor, answer: Tensor, eligible: Tensor) -> Confidence:
        """How sure each question is of its best candidate.

        scores [n, candidates], excluded candidates at -inf; answer [n]; eligible [n]: how many
        candidates are not excluded.
        """
        own, best = scores.gather(1, answer[:, None]), scores.max(1)
        both = torch.stack([best.indices, answer], dim=1)
        log_probs = self.some_log_probs(scores, both, eligible)
        return Confidence(
            log_probs[:, 0].exp(),
            best.indices == answer,
            (scores > own).sum(1) < TOP,
            log_probs[:, 1],
        )

    def sparse_confidence(
        self, scores: SparseScores, answer: Tensor, known: tuple[Tensor, Tensor]
    ) -> Confidence:
        """`confidence` without the scores of all candidates; known answers do not count.

        known: distinct pairs (query, candidate), the answers themselves allowed.
        """
        row, candidate = known
        others = candidate != answer[row]
        excluded = row[others], candidate[others]
        highest, best = (column[:, 0] for column in scores.top(1, excluded))
        own = scores.at(torch.arange(len(answer), device=answer.device), answer)
        both = torch.stack([highest, own], dim=1)
        log_probs = self.sparse_log_probs(scores, both, excluded)
        greater, _ = scores.counts(answer, known)
        return Confidence(log_probs[:, 0].exp(), best == answer, greater < TOP, log_probs[:, 1])

    def sparse_log_probs(
        self, scores: SparseScores, own: Tensor, excluded: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Log probabilities of candidates with scores own [n, k], [n, k].

        excluded: distinct pairs (row, candidate) that are left out.
        """
        total = scores.log_sums(self.temperature, excluded)[:, None]
        eligible = scores.num_candidates - torch.bincount(excluded[0], minlength=len(own))
        return self._mix(own.double() / self.temperature - _finite(total), total, eligible[:, None])

    def some_log_probs(self, scores: Tensor, candidates: Tensor, eligible: Tensor) -> Tensor:
        """Log probabilities of candidates [n, k] that are not excluded, [n, k].

        scores [n, all candidates], excluded candidates at -inf; eligible [n]: how many are not.
        """
        total = torch.logsumexp(scores / self.temperature, 1).double()
        return self.log_probs_of(scores.gather(1, candidates), total, eligible)

    def log_probs_of(self, own: Tensor, total: Tensor, eligible: Tensor) -> Tensor:
        """Log probabilities of candidates with the scores `own` [n, k], [n, k].

        total [n]: logsumexp of the scores of all candidates, divided by the temperature.
        """
        log_softmax = own.double() / self.temperature - _finite(total)[:, None]
        return self._mix(log_softmax, total[:, None], eligible[:, None])

    def _mix(self, log_softmax: Tensor, total: Tensor, eligible: Tensor) -> Tensor:
        """Mix a softmax with the uniform distribution; a softmax without any score is uniform."""
        uniform = -torch.log(eligible.double())
        log_softmax = torch.where(total > -math.inf, log_softmax, uniform)
        if not self.uniform:
            return log_softmax
        share, rest = math.log(self.uniform), math.log1p(-self.uniform)
        return torch.logaddexp(log_softmax + rest, uniform + share)


def fit_calibrator(scores: Tensor, answer: Tensor, eligible: Tensor) -> Calibrator:
    """The calibrator with the lowest log loss.

    scores [n, candidates], excluded candidates at -inf; answer [n]; eligible [n]: how many
    candidates are not excluded. The best uniform share is found for each temperature, and the
    temperature by a grid and a golden-section search.
    """
    own, floor = scores.gather(1, answer[:, None])[:, 0].double(), 1 / eligible.double()

    def loss(log_temperature: float) -> tuple[float, float]:
        scale = math.exp(-log_temperature)
        total = torch.logsumexp(scores * scale, 1).double()
        softmax = torch.where(total > -math.inf, torch.exp(own * scale - _finite(total)), floor)
        uniform = max(_best_share(softmax, floor), smallest_share(len(answer)))
        return -float(torch.log((1 - uniform) * softmax + uniform * floor).mean()), uniform

    low, high = _LOG_RANGE
    grid = {float(value): loss(float(value))[0] for value in range(int(low), int(high) + 1)}
    middle = min(grid, key=lambda value: grid[value])
    low, high = max(low, middle - 1), min(high, middle + 1)
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    losses = [loss(value)[0] for value in inner]
    while high - low > 1e-3:
        if losses[0] < losses[1]:
            high, inner[1], losses[1] = inner[1], inner[0], losses[0]
            inner[0] = high - _GOLDEN * (high - low)
            losses[0] = loss(inner[0])[0]
        else:
            low, inner[0], losses[0] = inner[0], inner[1], losses[1]
            inner[1] = low + _GOLDEN * (high - low)
            losses[1] = loss(inner[1])[0]
    best = (low + high) / 2
    return Calibrator(math.exp(best), loss(best)[1])


def smallest_share(questions: int) -> float:
    """The uniform share that a number of questions cannot rule out, however right all of them are.

    Without it, an answer that a model rules out would have the probability 0.
    """
    return 1 / (2 * (questions + 1))


def _best_share(softmax: Tensor, floor: Tensor) -> float:
    """The share u of the second in (1 - u) softmax + u floor with the highest mean log, [n] each.

    The mean is concave in u, so that bisection finds where its derivative is 0.
    """
    low, high = 0.0, _LARGEST_UNIFORM
    difference = floor - softmax
    for _ in range(40):
        middle = (low + high) / 2
        rising = float((difference / (softmax + middle * difference).clamp(min=1e-300)).mean()) > 0
        low, high = (middle, high) if rising else (low, middle)
    return low


def _finite(total: Tensor) -> Tensor:
    """A logarithm of a sum that can be subtracted: 0 in place of -inf."""
    return torch.where(total > -math.inf, total, 0)
