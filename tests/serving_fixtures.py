"""Fixtures: predictors of stored runs, and services over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from starlette.testclient import TestClient

from serving import RUNS, STORED, Served, client_of
from tempograph import Predictor, TemporalGraph, train


@pytest.fixture(scope="session")
def predictors() -> dict[str, Predictor]:
    return {name: Predictor(STORED / name, "cpu") for name in RUNS}


@pytest.fixture(scope="session")
def client(predictors: dict[str, Predictor]) -> Iterator[TestClient]:
    with client_of(predictors) as client:
        yield client


@pytest.fixture(scope="session")
def small_run() -> Predictor:
    """A run with other names than the stored ones."""
    facts = np.array([(0, 0, 1, 0), (1, 0, 2, 1), (2, 0, 0, 2)])
    graph = TemporalGraph(
        "small", ("Ann", "Bob", "Cai"), ("meets",), ("a", "b", "c"), facts, facts[:1], facts[:0]
    )
    return Predictor(train(graph, "ted", device="cpu"), "cpu")


@pytest.fixture
def served() -> Iterator[Callable[..., Served]]:
    """Starts services, and ends them after the test."""
    with ExitStack() as stack:

        def start(*arguments: str, **environment: str) -> Served:
            return stack.enter_context(Served(*arguments, **environment))

        yield start
