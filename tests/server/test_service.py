"""Names of runs, limits, and units of work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import Semaphore
from typing import Any

import pytest

import tempograph
from messages import raises
from predicting import GRAPH
from serving import client_of
from tempograph import Predictor
from tempograph.errors import ConfigError
from tempograph.server import served_run, service
from tempograph.server.limits import Limits
from tempograph.server.served_run import ServedRun
from tempograph.server.service import Service, named_runs
from tempograph.training.callbacks import Callbacks
from tempograph.training.final_fit import answer_from_all_facts

pytest_plugins = ("serving_fixtures",)


def test_runs_are_named_after_their_folders_unless_renamed() -> None:
    named = {name: str(path) for name, path in named_runs(["a/one", "two=b/one"]).items()}
    assert named == {"one": "a/one", "two": "b/one"}
    with raises(ConfigError, "service.same_name", run="one", folder="b/one"):
        named_runs(["a/one", "b/one"])
    for argument in ("=a/one", "one=", "/"):
        with raises(ConfigError, "service.no_name", argument=argument):
            named_runs([argument])


def test_a_service_needs_runs_and_positive_limits() -> None:
    with raises(ConfigError, "limits.above_0", limit="top", value=0):
        Limits(top=0)
    with raises(ConfigError, "service.no_runs"):
        Service({}, Limits())


def test_a_run_that_answers_from_all_facts_names_their_splits() -> None:
    run = tempograph.train(GRAPH, "ted", overrides=["model.sigma=1"], device="cpu")
    assert answer_from_all_facts(run, Callbacks(None, None)) is not None
    with client_of({"run": Predictor(run)}) as client:
        (info,) = client.get("/api/v1/info").json()["runs"]
    assert info["facts"] == {
        "train": len(GRAPH.train),
        "valid": len(GRAPH.valid),
        "test": len(GRAPH.test),
    }


@pytest.mark.parametrize(
    ("fixed", "each", "fewest", "most"),
    [(0.0, 1e-4, 10, 25), (0.1, 1e-4, 10, 25), (0.0, 0.2, 2_500, 5_000), (0.0, 0.0, 13, 13)],
)
def test_units_are_short_unless_one_item_takes_long(
    monkeypatch: pytest.MonkeyPatch, fixed: float, each: float, fewest: int, most: int
) -> None:
    """5,000 items, of which a unit takes `fixed` seconds and `each` for an item."""

    class Instant(ServedRun):
        def __init__(self) -> None:
            """Only units are worked on."""

        async def work(self, unit: Callable[[], Any], *_: object) -> Any:
            return unit()

    def timed(work: Callable[[Sequence[int]], int], items: Sequence[int]) -> tuple[int, float]:
        return work(items), max(1e-6, fixed + each * len(items))

    async def sizes() -> list[int]:
        units = Instant().units(range(5_000), len, 10_000, "client")
        return [size async for _, size in units]

    monkeypatch.setattr(served_run, "_timed", timed)
    found = asyncio.run(sizes())
    assert sum(found) == 5_000 and fewest <= len(found) <= most


def test_free_memory_is_returned_after_requests_and_not_while_idle(
    small_run: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = Semaphore(0)
    monkeypatch.setattr(service, "_RELEASE_SECONDS", 0.01)
    monkeypatch.setattr(service, "release_free_memory", released.release)
    # A scan that takes too long ends while it is streamed.
    with client_of({"run": small_run}, Limits(seconds=0.001)) as client:
        assert not released.acquire(timeout=0.1)
        assert client.post("/api/v1/surprising", json={}).status_code == 504
        assert released.acquire(timeout=5)
        assert not released.acquire(timeout=0.1)


def test_what_speeds_up_questions_is_prepared_while_idle(
    small_run: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = ["first", "second", "third"]
    prepared = Semaphore(0)

    def prepare(_: object) -> bool:
        if parts:
            parts.pop()
            prepared.release()
        return bool(parts)

    monkeypatch.setattr(type(small_run.model), "prepare", prepare)
    with client_of({"run": small_run}):
        assert all(prepared.acquire(timeout=5) for _ in range(3))
