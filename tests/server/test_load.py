"""Heavy and hostile requests do not hold up the others."""

from __future__ import annotations

import asyncio
import json
import resource
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import tempograph.prediction.completion
from serving import client_of
from tempograph import Predictor, train
from tempograph.data.name_index import NameIndex
from tempograph.server.app import create_app
from tempograph.server.limits import Limits
from tempograph.server.middleware import AdmissionMiddleware
from tempograph.server.service import Service
from tempograph.training import question_models

pytest_plugins = ("serving_fixtures",)
QUERY = {"subject": "Corenne", "relation": "visits", "time": "2030-01-05"}
HEAVY = QUERY | {"top": 12, "evidence": 100}
JSON = {"content-type": "application/json"}


class SlowEvidence:
    """Evidence that takes time for each answer; `candidates` counts the answers explained."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.candidates = 0
        self.started = threading.Event()
        explain = tempograph.prediction.completion.explain

        def slow_explain(model: Any, timeline: Any, query: Any, candidates: Any, *rest: Any) -> Any:
            self.started.set()
            for _ in candidates:
                time.sleep(seconds)
                self.candidates += 1
            return explain(model, timeline, query, candidates, *rest)

        monkeypatch.setattr(tempograph.prediction.completion, "explain", slow_explain)


def test_very_many_empty_facts_are_refused_at_once(client: TestClient) -> None:
    body = b'{"facts": [' + b", ".join([b"{}"] * 260_000) + b"]}"
    assert len(body) < 2**20
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    response = client.post("/api/v1/score", content=body, headers=JSON)
    assert response.status_code == 422 and len(response.content) < 1000
    assert time.process_time() - start < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 300 * 1024


@pytest.mark.parametrize("path", ["/api/v1/complete", "/api/v1/score"])
def test_very_many_members_are_refused_at_once(client: TestClient, path: str) -> None:
    members = b"{" + b", ".join(b'"%d": 0' % number for number in range(80_000)) + b"}"
    for body in (members, b'{"facts": [' + members + b"]}"):
        start = time.process_time()
        response = client.post(path, content=body, headers=JSON)
        assert response.status_code in (413, 422) and len(response.content) < 1000
        assert time.process_time() - start < 1


def test_a_search_for_many_words_takes_no_longer_than_for_few() -> None:
    names = [f"{' '.join('abcdefgh')} {number}" for number in range(20_000)]
    index = NameIndex(names, np.ones(len(names), np.int64))
    assert index.search("a", 3)

    def seconds(text: str) -> float:
        """The least of some, since memory may be cleaned up meanwhile."""
        taken = []
        for _ in range(5):
            start = time.process_time()
            assert len(index.search(text, 10**9)) == len(names)
            taken.append(time.process_time() - start)
        return min(taken)

    assert seconds("a b " * 250) < 20 * seconds("a b")
    many = " ".join(f"a{number}" for number in range(300))
    assert index.search(many, 3) == []


def blocked_until_health(
    client: TestClient, patch: Callable[[Callable[..., Any]], None], ask: Callable[[], Any]
) -> bool:
    """Whether /health answers while another request is stuck in a function."""
    started, release = threading.Event(), threading.Event()
    waited: list[bool] = []

    def stuck(*_: Any, **__: Any) -> Any:
        started.set()
        waited.append(release.wait(5))
        raise RuntimeError("stuck")

    patch(stuck)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        assert started.wait(5)
        assert client.get("/health").status_code == 200
        release.set()
        asked.result()
    return waited[0]


def test_a_search_does_not_hold_up_other_requests(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert blocked_until_health(
        client,
        lambda stuck: monkeypatch.setattr(NameIndex, "search", stuck),
        lambda: client.get("/api/v1/entities?q=a"),
    )


def test_names_of_a_batch_and_suggestions_do_not_hold_up_other_requests(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = QUERY | {"object": "nobody"}
    for path, body in (("/api/v1/score", {"facts": [fact]}), ("/api/v1/evidence", fact)):
        assert blocked_until_health(
            client,
            lambda stuck: monkeypatch.setattr(NameIndex, "closest", stuck),
            lambda path=path, body=body: client.post(path, json=body),
        )


def test_a_light_question_does_not_wait_for_heavy_evidence(
    predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowEvidence(monkeypatch, 0.15)
    with client_of({"ted": predictors["ted"]}) as client, ThreadPoolExecutor(2) as pool:
        heavy = [pool.submit(client.post, "/api/v1/complete", json=HEAVY) for _ in range(2)]
        assert slow.started.wait(5)
        for _ in range(3):
            assert client.post("/api/v1/complete", json=QUERY).status_code == 200
        assert not any(each.done() for each in heavy)
        assert [each.result().status_code for each in heavy] == [200, 200]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("complete", {"subject": "Ann", "object": "Bob", "time": "a"}),
        ("complete/batch", {"questions": [{"subject": "Ann", "relation": "meets", "object": 1}]}),
        ("evidence", {"subject": 0, "relation": 0, "object": 1, "time": 0, "asked": "time"}),
        ("missing", {}),
        ("calibration", None),
    ],
)
def test_fitting_does_not_hold_up_other_questions(
    small_run: Predictor, monkeypatch: pytest.MonkeyPatch, path: str, body: Any
) -> None:
    fitting, release = threading.Event(), threading.Event()
    fit_heads = question_models.fit_heads

    def slow_fit(*given: Any) -> Any:
        fitting.set()
        assert release.wait(20)
        return fit_heads(*given)

    monkeypatch.setattr(question_models, "fit_heads", slow_fit)
    predictor = Predictor(train(small_run.run.graph, "ted", device="cpu"), "cpu")
    with client_of({"small": predictor}) as client, ThreadPoolExecutor(1) as pool:
        if body is None:
            asked = pool.submit(client.get, f"/api/v1/{path}", params={"asked": "time"})
        else:
            asked = pool.submit(client.post, f"/api/v1/{path}", json=body)
        assert fitting.wait(20)
        question = {"subject": "Ann", "relation": "meets", "time": "a"}
        assert client.post("/api/v1/complete", json=question).status_code == 200
        assert not asked.done()
        release.set()
        assert asked.result().status_code == 200


def test_what_cannot_be_fitted_is_tried_again(
    small_run: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = Predictor(train(small_run.run.graph, "ted", device="cpu"), "cpu")
    question = {"subject": "Ann", "object": "Bob", "time": "a"}
    with client_of({"small": predictor}) as client:
        with monkeypatch.context() as patch:
            patch.setattr(question_models, "fit_heads", lambda *_: 1 / 0)
            assert client.post("/api/v1/complete", json=question).status_code == 500
        assert client.post("/api/v1/complete", json=question).status_code == 200


def test_a_body_in_many_small_parts_is_read_in_linear_time(client: TestClient) -> None:
    start = time.process_time()
    parts = iter([b" "] * 40_000)
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b""}
    headers = [(b"host", b"localhost")]

    async def receive() -> Any:
        part = next(parts, b"")
        return {"type": "http.request", "body": part, "more_body": part != b""}

    async def send(_: Any) -> None: ...

    asyncio.run(client.app(scope | {"headers": headers}, receive, send))
    assert next(parts, None) is None and time.process_time() - start < 5


def test_evidence_in_units_is_that_of_the_predictor(predictors: dict[str, Predictor]) -> None:
    for run in ("temp-gru", "pointer"):
        wanted = predictors[run].objects(*QUERY.values(), top=12, evidence=100)
        with client_of({run: predictors[run]}) as client:
            found = client.post("/api/v1/complete", json=HEAVY).json()
        for own, other in zip(found["answers"], wanted.answers, strict=True):
            assert own["name"] == other.name and own["evidence_count"] == other.evidence_count
            effects = [fact["effect"] for fact in own["evidence"]]
            assert effects == pytest.approx([fact.effect for fact in other.evidence], abs=1e-4)


def test_work_ends_when_the_client_leaves(
    predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowEvidence(monkeypatch, 0.1)
    log: list[Any] = []
    sent: list[Any] = []

    async def main() -> None:
        service = Service({"ted": predictors["ted"]}, Limits())
        routes = create_app(service)
        app = AdmissionMiddleware(routes, Limits(), service.metrics, None, log.append)
        messages = [{"type": "http.request", "body": json.dumps(HEAVY).encode()}]
        left = asyncio.Event()

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/v1/complete",
            "query_string": b"",
            "headers": headers,
            "client": ("192.0.2.1", 1),
        }
        async with routes.router.lifespan_context(routes):
            request = asyncio.ensure_future(app(scope, receive, send))
            await asyncio.to_thread(slow.started.wait, 5)
            left.set()
            await asyncio.wait_for(request, 5)
            await asyncio.sleep(0.5)

    asyncio.run(main())
    assert slow.candidates < HEAVY["top"] / 2
    assert sent == [] and log[-1]["status"] == 499
