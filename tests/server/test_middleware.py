"""Token, hosts, headers, limits and hostile requests; the log and the metrics of each request."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from messages import message
from serving import client_of, page_file
from tempograph import Predictor
from tempograph.server.limits import Limits

pytest_plugins = ("serving_fixtures",)
QUERY = {"subject": "Corenne", "relation": "visits", "time": "2030-01-05"}
JSON = {"content-type": "application/json"}
TOKEN = "s3cret-s3cret-s3cret"


def test_everything_about_runs_needs_the_token(predictors: dict[str, Predictor]) -> None:
    with client_of(predictors, token=TOKEN) as client:
        private = "/api/v1/info /api/v1/entities /metrics /openapi.json /docs /nothing /healthy"
        wrong = ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"})
        for path in private.split():
            for headers in wrong:
                response = client.get(path, headers=headers)
                assert response.status_code == 401
                assert response.headers["www-authenticate"].startswith("Bearer")
                assert response.json()["type"] == "urn:tempograph:problem:token"
        with_token = {"authorization": f"bearer {TOKEN}"}
        assert client.get("/api/v1/info", headers=with_token).status_code == 200
        assert client.get("/nothing", headers=with_token).status_code == 404
        for path in ("/", "/health", "/health/live", "/health/ready", page_file("app.js")):
            assert client.get(path).status_code == 200
        # With a token, the service may have any host name.
        assert client.get("/health", headers={"host": "tempograph.example"}).status_code == 200


def test_without_a_token_only_local_host_names_are_answered(client: TestClient) -> None:
    for host in (
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.evil.example",
        "1127.0.0.1",
        "",
    ):
        assert client.get("/api/v1/info", headers={"host": host}).status_code == 421
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:1", "127.0.0.2:8000", "[::1]:8000"):
        assert client.get("/api/v1/info", headers={"host": host}).status_code == 200


def test_every_response_has_security_headers(client: TestClient) -> None:
    for path in ("/", "/api/v1/info", "/nothing", page_file("docs.css"), "/docs"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert len(headers["x-request-id"]) == 16


HOSTILE: dict[str, tuple[bytes, set[int]]] = {
    "nothing": (b"", {400}),
    "no JSON": (b"{", {400}),
    "bad UTF-8": (b'{"subject": "\xff\xfe"}', {400}),
    "UTF-16": ('{"subject": "Corenne"}'.encode("utf-16"), {400}),
    "deep": (b"[" * 60_000, {400}),
    "deep objects": (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, {400}),
    "a long number": (b'{"top": ' + b"9" * 60_000 + b"}", {400, 422}),
    "half a pair": (json.dumps(QUERY | {"subject": "\ud800"}).encode(), {400}),
    "no number": (
        b'{"subject": "Corenne", "relation": "visits", "time": "2030-01-05", "top": NaN}',
        {422},
    ),
    "control": (json.dumps(QUERY | {"subject": "\x00\x1b[31m"}).encode(), {404}),
    "a long name": (json.dumps(QUERY | {"subject": "x" * 60_000}).encode(), {422}),
    "a long member": (b'{"' + b"x" * 60_000 + b'": 1}', {422}),
    "a list": (b"[]", {422}),
    "null": (b"null", {422}),
    "too large": (b" " * (Limits().body + 1), {413}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_bodies_get_a_problem(client: TestClient, case: str) -> None:
    body, statuses = HOSTILE[case]
    for path in ("/api/v1/complete", "/api/v1/score", "/api/v1/evidence"):
        response = client.post(path, content=body, headers=JSON)
        statuses = statuses | ({422} if path != "/api/v1/complete" and 404 in statuses else set())
        assert response.status_code in statuses and "Traceback" not in response.text
        assert response.headers["content-type"] == "application/problem+json"
        assert len(response.content) < 2000


def test_broken_json_and_other_content_types_are_told_apart(client: TestClient) -> None:
    body = json.dumps(QUERY).encode()
    for path in ("/api/v1/complete", "/api/v1/score", "/api/v1/evidence"):
        for headers in ({}, {"content-type": "text/plain"}, {"content-type": "application/x"}):
            response = client.post(path, content=body, headers=headers)
            assert response.status_code == 415
            assert response.json()["detail"] == message("request_bodies.content_type")
            assert response.json()["type"] == "urn:tempograph:problem:no-json"
        broken = client.post(path, content=b'{"subject": ', headers=JSON)
        assert broken.status_code == 400
        assert broken.json()["type"] == "urn:tempograph:problem:broken-json"
        assert broken.json()["detail"].startswith("the body is not JSON: EOF")
    for kind in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/ld+json"):
        response = client.post("/api/v1/complete", content=body, headers={"content-type": kind})
        assert response.status_code == 200


def test_head_returns_the_headers_of_get(client: TestClient) -> None:
    for path in (
        "/",
        "/health",
        "/api/v1/info",
        "/api/v1/entities?q=vel",
        page_file("app.js"),
        "/docs",
    ):
        got, head = client.get(path), client.head(path)
        assert head.status_code == 200 and head.content == b""
        for name in ("content-type", "content-length"):
            assert head.headers[name] == got.headers[name]
    assert client.head("/nothing").status_code == 404
    response = client.head("/api/v1/complete")
    assert response.status_code == 405 and response.headers["allow"] == "POST"


def test_repeated_headers_are_refused(predictors: dict[str, Predictor]) -> None:
    for name, values in {
        "Host": ("localhost", "evil.example"),
        "Authorization": (f"Bearer {TOKEN}", "Bearer wrong"),
        "Content-Type": ("application/json", "text/plain"),
    }.items():
        for pair in (values, values[::-1]):
            with client_of(predictors, token=TOKEN if name == "Authorization" else None) as client:
                response = client.get("/api/v1/info", headers=[(name, each) for each in pair])
            assert response.status_code == 400, name
            assert response.json()["detail"] == message("middleware.repeated", header=name)


def test_a_trailing_slash_is_not_redirected_to_another_scheme(client: TestClient) -> None:
    for path in ("/api/v1/info/", "/docs/", "/health/", "/static"):
        response = client.get(path, follow_redirects=False)
        assert response.status_code == 404 and "location" not in response.headers


def test_a_chunked_body_or_a_false_length_is_refused(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(4000):
            yield b" " * 1000

    assert client.post("/api/v1/complete", content=chunks(), headers=JSON).status_code == 413
    false_length = JSON | {"content-length": "99999999999999999999"}
    assert client.post("/api/v1/complete", content=b"{}", headers=false_length).status_code == 413


@pytest.mark.parametrize(
    "path", ["../app.py", "%2e%2e/app.py", "..%2fapp.py", "/etc/passwd", "", "../../app.py"]
)
def test_static_paths_stay_inside_their_folder(client: TestClient, path: str) -> None:
    for folder in (page_file(""), "/static/"):
        response = client.get(f"{folder}{path}", follow_redirects=False)
        assert response.status_code in (404, 307) and "import" not in response.text


def test_a_slow_request_times_out(
    predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = predictors["ted"].run.model
    scores = model.scores
    monkeypatch.setattr(model, "scores", lambda queries: (time.sleep(0.5), scores(queries))[1])
    with client_of({"ted": predictors["ted"]}, Limits(seconds=0.2)) as client:
        response = client.post("/api/v1/complete", json=QUERY)
        assert response.status_code == 504
        assert response.json()["detail"] == message("middleware.timeout", seconds=0.2)
        assert client.get("/health").status_code == 200


def test_an_internal_error_is_explained_in_the_log_only(
    predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("private matters")

    log: list[Any] = []
    with client_of({"ted": predictors["ted"]}, log=log) as client:
        monkeypatch.setattr("tempograph.server.entity_questions.name_answers", broken)
        response = client.post("/api/v1/complete", json=QUERY)
        assert response.status_code == 500 and "private" not in response.text
        assert response.json()["type"] == "urn:tempograph:problem:failed"
    assert log[-1]["status"] == 500
    assert log[-1]["error"].endswith("RuntimeError: private matters\n")


def test_every_request_is_logged_and_counted(predictors: dict[str, Predictor]) -> None:
    log: list[Any] = []
    with client_of(predictors, log=log) as client:
        client.get("/health")
        client.post("/api/v1/complete", json=QUERY)
        client.post("/api/v1/complete", json=QUERY | {"subject": "x"})
        client.get("/api/v1/secret%0A")
        text = client.get("/metrics").text
    assert [(line["method"], line["path"], line["status"]) for line in log] == [
        ("GET", "/health", 200),
        ("POST", "/api/v1/complete", 200),
        ("POST", "/api/v1/complete", 404),
        ("GET", "/api/v1/secret\n", 404),
        ("GET", "/metrics", 200),
    ]
    assert len({line["id"] for line in log}) == 5
    families = list(text_string_to_metric_families(text))
    assert {(family.name, family.type) for family in families} == {
        ("tempograph_requests", "counter"),
        ("tempograph_request_seconds", "histogram"),
        ("tempograph_batch_questions", "histogram"),
        ("tempograph_in_flight", "gauge"),
        ("tempograph_waiting", "gauge"),
        ("tempograph_kept_bytes", "gauge"),
        ("tempograph_cache_lookups", "gauge"),
        ("tempograph_loaded_timestamp_seconds", "gauge"),
        ("tempograph_reloads", "counter"),
        *((family.name, family.type) for family in families if family.name.startswith("process_")),
    }
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }
    complete, run = ("route", "/api/v1/complete"), ("run", "temp-gru")
    assert values["tempograph_requests_total", complete, ("status", "200")] == 1
    assert values["tempograph_requests_total", complete, ("status", "404")] == 1
    assert values["tempograph_requests_total", ("route", "none"), ("status", "404")] == 1
    assert values["tempograph_request_seconds_count", complete] == 2
    assert values["tempograph_request_seconds_bucket", ("le", "10.0"), complete] == 2
    assert values["tempograph_batch_questions_bucket", ("le", "0.0"), run] == 0
    assert values["tempograph_batch_questions_bucket", ("le", "1.0"), run] == 1
    assert values["tempograph_waiting", ("run", "ted")] == 0
    assert values["tempograph_kept_bytes", run] > 0
    assert values["tempograph_in_flight",] == 1
    assert values["tempograph_cache_lookups", ("outcome", "misses"), run] > 0
    assert time.time() - values["tempograph_loaded_timestamp_seconds", run] < 600
    if Path("/proc/self/stat").exists():
        assert values["process_resident_memory_bytes",] > 0
