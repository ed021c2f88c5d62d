"""Forecasters on one small world split by time, each trained once in a test session."""

from __future__ import annotations

import pytest

from predicting import FORECASTERS, train_forecaster
from tempograph import Predictor, Run


@pytest.fixture(scope="session", params=FORECASTERS)
def forecast_run(request: pytest.FixtureRequest) -> Run:
    return train_forecaster(request.param)


@pytest.fixture(scope="session")
def recurrency_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in a folder."""
    return train_forecaster("recurrency", out=tmp_path_factory.mktemp("runs") / "recurrency")


@pytest.fixture
def forecaster(forecast_run: Run) -> Predictor:
    return Predictor(forecast_run)
