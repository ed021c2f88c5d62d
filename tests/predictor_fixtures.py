"""Runs of several kinds of models on one small world, each trained once in a test session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tempograph
from live_service import KINDS, Answerer, answerer_of, live_service
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


@pytest.fixture(scope="session")
def service_url(run: Run) -> Iterator[str]:
    """A live service with the run."""
    with live_service({"run": Predictor(run)}) as url:
        yield url


@pytest.fixture(params=KINDS)
def answerer(
    request: pytest.FixtureRequest, predictor: Predictor, service_url: str
) -> Iterator[Answerer]:
    """What answers questions: the predictor, or a client of a service with the same run."""
    with answerer_of(request.param, predictor, service_url) as answerer:
        yield answerer


@pytest.fixture(params=KINDS)
def ted_answerer(request: pytest.FixtureRequest, ted_predictor: Predictor) -> Iterator[Answerer]:
    """The same for `ted_predictor`."""
    with (
        live_service({"ted": ted_predictor}) as url,
        answerer_of(request.param, ted_predictor, url) as answerer,
    ):
        yield answerer
