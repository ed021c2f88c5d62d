"""Who may ask, how much and how long; what hostile clients get; what is told of requests."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from serving import client_of
from tempograph import Predictor
from tempograph.errors import ConfigError
from tempograph.server.metrics import Histogram
from tempograph.server.service import Limits, Service, named_runs

pytest_plugins = ("serving_fixtures",)
QUESTION = {"subject": "Corenne", "relation": "visits", "time": "2030-01-05"}
JSON = {"content-type": "application/json"}


def test_a_token_guards_all_that_is_of_a_run(predictors: dict[str, Predictor]) -> None:
    with client_of(predictors, token="s3cret-s3cret-s3cret") as client:
        for path in (
            "/api/info",
            "/api/entities",
            "/metrics",
            "/openapi.json",
            "/docs",
            "/nothing",
            "/healthy",
        ):
            for sent in (
                {},
                {"authorization": "Bearer wrong"},
                {"authorization": "Basic s3cret-s3cret-s3cret"},
            ):
                answer = client.get(path, headers=sent)
                assert answer.status_code == 401 and answer.headers["www-authenticate"].startswith(
                    "Bearer"
                )
                assert answer.json()["type"] == "urn:tempograph:problem:token"
        with_token = {"authorization": "bearer s3cret-s3cret-s3cret"}
        assert client.get("/api/info", headers=with_token).status_code == 200
        assert client.get("/nothing", headers=with_token).status_code == 404
        for path in ("/", "/health", "/static/app.js"):
            assert client.get(path).status_code == 200
        # Another name than localhost is fine where a token is needed.
        assert client.get("/health", headers={"host": "tempograph.example"}).status_code == 200


def test_without_a_token_only_this_machine_is_answered(client: TestClient) -> None:
    for host in (
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.evil.example",
        "1127.0.0.1",
        "",
    ):
        assert client.get("/api/info", headers={"host": host}).status_code == 421
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:1", "127.0.0.2:8000", "[::1]:8000"):
        assert client.get("/api/info", headers={"host": host}).status_code == 200


def test_every_answer_has_strict_headers(client: TestClient) -> None:
    for path in ("/", "/api/info", "/nothing", "/static/docs.css", "/docs"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert (
            headers["x-content-type-options"] == "nosniff"
            and headers["referrer-policy"] == "no-referrer"
        )
        assert len(headers["x-request-id"]) == 16


HOSTILE: dict[str, tuple[bytes, set[int]]] = {
    "nothing": (b"", {422}),
    "no JSON": (b"{", {422}),
    "bad UTF-8": (b'{"subject": "\xff\xfe"}', {400, 422}),
    "UTF-16": ('{"subject": "Corenne"}'.encode("utf-16"), {400, 422}),
    "deep": (b"[" * 200_000, {400, 422}),
    "deep objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, {400, 422}),
    "a long number": (b'{"top": ' + b"9" * 100_000 + b"}", {400, 422}),
    "half a pair": (json.dumps(QUESTION | {"subject": "\ud800"}).encode(), {422}),
    "no number": (
        b'{"subject": "Corenne", "relation": "visits", "time": "2030-01-05", "top": NaN}',
        {422},
    ),
    "control": (json.dumps(QUESTION | {"subject": "\x00\x1b[31m"}).encode(), {404}),
    "a long name": (json.dumps(QUESTION | {"subject": "x" * 100_000}).encode(), {422}),
    "a list": (b"[]", {422}),
    "null": (b"null", {422}),
    "too large": (b" " * (2**20 + 1), {413}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_bodies_are_problems(client: TestClient, case: str) -> None:
    body, statuses = HOSTILE[case]
    for path in ("/api/complete", "/api/score", "/api/evidence"):
        answer = client.post(path, content=body, headers=JSON)
        assert answer.status_code in statuses | {422} and "Traceback" not in answer.text
        assert (
            answer.headers["content-type"] == "application/problem+json"
            and len(answer.content) < 2000
        )


def test_a_body_in_chunks_is_measured_too(client: TestClient) -> None:
    sent = []

    def chunks() -> Iterator[bytes]:
        for number in range(4000):
            sent.append(number)
            yield b" " * 1000

    assert client.post("/api/complete", content=chunks(), headers=JSON).status_code == 413
    lying = JSON | {"content-length": "99999999999999999999"}
    assert client.post("/api/complete", content=b"{}", headers=lying).status_code == 413


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/static/",
        "/static",
    ],
)
def test_paths_lead_nowhere_else(client: TestClient, path: str) -> None:
    answer = client.get(path, follow_redirects=False)
    assert answer.status_code in (404, 307) and "import" not in answer.text


def slowed(
    predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    model = predictors["ted"].run.model
    scores = model.scores
    monkeypatch.setattr(model, "scores", lambda queries: (time.sleep(seconds), scores(queries))[1])


def test_a_request_that_takes_too_long(
    predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    slowed(predictors, monkeypatch, 0.5)
    with client_of({"ted": predictors["ted"]}, Limits(seconds=0.2)) as client:
        answer = client.post("/api/complete", json=QUESTION)
        assert (
            answer.status_code == 504
            and answer.json()["detail"] == "the request took more than 0.2 s"
        )
        assert client.get("/health").status_code == 200


def test_a_mistake_of_ours_is_told_to_the_log_alone(
    predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("private matters")

    told: list[Any] = []
    with client_of({"ted": predictors["ted"]}, told=told) as client:
        monkeypatch.setattr(predictors["ted"], "complete", broken)
        answer = client.post("/api/complete", json=QUESTION)
        assert answer.status_code == 500 and "private" not in answer.text
        assert answer.json()["type"] == "urn:tempograph:problem:failed"
    assert told[-1]["status"] == 500 and told[-1]["error"].endswith(
        "RuntimeError: private matters\n"
    )


def test_every_request_is_told_and_counted(predictors: dict[str, Predictor]) -> None:
    told: list[Any] = []
    with client_of(predictors, told=told) as client:
        client.get("/health")
        client.post("/api/complete", json=QUESTION)
        client.post("/api/complete", json=QUESTION | {"subject": "x"})
        client.get("/api/secret%0A")
        text = client.get("/metrics").text
    assert [(line["method"], line["path"], line["status"]) for line in told] == [
        ("GET", "/health", 200),
        ("POST", "/api/complete", 200),
        ("POST", "/api/complete", 404),
        ("GET", "/api/secret\n", 404),
        ("GET", "/metrics", 200),
    ]
    assert len({line["id"] for line in told}) == 5
    for line in (
        'tempograph_requests_total{route="/api/complete",status="200"} 1',
        'tempograph_requests_total{route="/api/complete",status="404"} 1',
        'tempograph_requests_total{route="none",status="404"} 1',
        'tempograph_request_seconds_count{route="/api/complete"} 2',
        'tempograph_batch_questions_bucket{run="temp-gru",le="1"} 1',
        'tempograph_waiting{run="ted"} 0',
        "tempograph_in_flight 1",
    ):
        assert line in text.splitlines()


def test_a_histogram_counts_what_is_at_most_a_bound() -> None:
    histogram = Histogram((1, 2))
    for value in (0.5, 1, 1.5, 7):
        histogram.observe(value)
    assert list(histogram.lines("h", 'a="b"')) == [
        'h_bucket{a="b",le="1"} 2',
        'h_bucket{a="b",le="2"} 3',
        'h_bucket{a="b",le="+Inf"} 4',
        'h_sum{a="b"} 10.000000',
        'h_count{a="b"} 4',
    ]


def test_runs_are_named() -> None:
    assert {name: str(path) for name, path in named_runs(["a/one", "two=b/one"]).items()} == {
        "one": "a/one",
        "two": "b/one",
    }
    with pytest.raises(
        ConfigError, match="two runs are called 'one'; give one another name: NAME=b/one"
    ):
        named_runs(["a/one", "b/one"])
    with pytest.raises(ConfigError, match="the limit 'top' must be above 0"):
        Limits(top=0)
    with pytest.raises(ConfigError, match="at least one run"):
        Service({}, Limits())
