"""Runs of several kinds of models on one small world, each trained once in a test session."""

from __future__ import annotations

import pytest

import tempograph
from predicting import GRAPH, SETTINGS
from tempograph import Predictor, Run


@pytest.fixture(scope="session", params=SETTINGS)
def run(request: pytest.FixtureRequest) -> Run:
    return tempograph.train(GRAPH, request.param, device="cpu", overrides=SETTINGS[request.param])


@pytest.fixture
def predictor(run: Run) -> Predictor:
    return Predictor(run)


@pytest.fixture
def ted_predictor() -> Predictor:
    return Predictor(tempograph.train(GRAPH, "ted", overrides=["model.sigma=1"]))
