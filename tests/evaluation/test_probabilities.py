"""Probabilities against loops: one distribution that falls with rank and adds up to 1."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from tempograph.evaluation.probabilities import Calibrator, fit_calibrator


def random_scores(seed: int, rows: int, candidates: int) -> torch.Tensor:
    """Scores with ties and with candidates that a model rules out, in one row all of them."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(rows, candidates)).round(1)
    scores[rng.random(scores.shape) < 0.2] = -math.inf
    scores[0] = -math.inf
    return torch.from_numpy(scores)


def slow_probabilities(
    calibrator: Calibrator, scores: list[float], excluded: set[int]
) -> list[float]:
    eligible = [number for number in range(len(scores)) if number not in excluded]
    best = max((scores[number] for number in eligible), default=-math.inf)
    weights = {
        number: math.exp((scores[number] - best) / calibrator.temperature)
        if best > -math.inf
        else 1.0
        for number in eligible
    }
    total = sum(weights.values())
    return [
        (1 - calibrator.uniform) * weights[number] / total + calibrator.uniform / len(eligible)
        if number in weights
        else 0.0
        for number in range(len(scores))
    ]


@settings(max_examples=30)
@given(
    st.integers(0, 2**32 - 1), st.floats(0.2, 5), st.sampled_from([0.0, 0.03, 0.9]), st.booleans()
)
def test_probabilities_equal_a_loop_fall_with_rank_and_add_up_to_one(
    seed: int, temperature: float, uniform: float, exclude: bool
) -> None:
    scores, calibrator = random_scores(seed, 4, 7), Calibrator(temperature, uniform)
    excluded = {(row, row) for row in range(3)} | {(1, 5)} if exclude else set()
    pairs = torch.tensor(sorted(excluded)).T if exclude else None
    found = calibrator.log_probs(scores, None if pairs is None else (pairs[0], pairs[1])).exp()
    for row, line in enumerate(scores.tolist()):
        own = {candidate for each, candidate in excluded if each == row}
        assert found[row].tolist() == pytest.approx(slow_probabilities(calibrator, line, own))
        kept = [candidate for candidate in range(7) if candidate not in own]
        ordered = sorted(kept, key=lambda candidate: -line[candidate])
        shares = found[row, ordered].tolist()
        assert all(one >= other for one, other in pairwise(shares))
        assert sum(shares) == pytest.approx(1)
    answer = torch.tensor([6, 6, 6, 6])
    filtered = scores.clone()
    if pairs is not None:
        filtered[pairs[0], pairs[1]] = -math.inf
    counts = torch.tensor([7 - sum(each == row for each, _ in excluded) for row in range(4)])
    sure = calibrator.confidence(filtered, answer, counts)
    assert_close(sure.log_prob, found[:, 6].log())
    assert_close(sure.best, found.max(1).values)
    better = (filtered > filtered[:, 6:]).sum(1)
    assert sure.among_ten.tolist() == (better < 10).tolist()


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.floats(0.3, 4), st.sampled_from([0.0, 0.1, 0.3]))
def test_the_temperature_and_the_uniform_share_of_the_data_are_recovered(
    seed: int, temperature: float, uniform: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(6000, 8, generator=generator)
    true = Calibrator(temperature, uniform).log_probs(scores).exp()
    answer = torch.multinomial(true, 1, generator=generator)[:, 0]
    eligible = torch.full((6000,), 8)
    found = fit_calibrator(scores, answer, eligible)

    def loss(calibrator: Calibrator) -> float:
        return -float(calibrator.confidence(scores, answer, eligible).log_prob.mean())

    # The share is never quite 0.
    assert loss(found) <= loss(Calibrator(temperature, uniform)) + 1e-4
    for factor in (0.9, 1.1):
        assert loss(found) <= loss(Calibrator(found.temperature * factor, found.uniform)) + 1e-6
    assert found.uniform == pytest.approx(uniform, abs=0.08)


def test_answers_that_a_model_rules_out_have_the_uniform_share() -> None:
    scores = torch.tensor([[3.0, 1.0, -math.inf, 0.0]] * 9)
    answer = torch.tensor([0] * 8 + [2])
    found = fit_calibrator(scores, answer, torch.full((9,), 4))
    assert 0.1 < found.uniform < 0.6
    assert float(found.log_probs(scores)[0, 2].exp()) == pytest.approx(found.uniform / 4)
