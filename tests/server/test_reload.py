"""Runs are reloaded while they answer; readiness tells whether they can."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from messages import message
from serving import STORED, Served, client_of, until
from tempograph import Predictor
from tempograph.server.batching import QueryBatcher

pytest_plugins = ("serving_fixtures",)
QUERY = {"subject": "Corenne", "relation": "visits", "time": "2030-01-05", "top": 12}
MODELS = ("ted", "pointer")


def point(link: Path, run: Path) -> None:
    """Let a link point at another run, at once."""
    new = link.with_suffix(".new")
    new.symlink_to(run)
    new.replace(link)


def scores_of(predictor: Predictor) -> dict[str, float]:
    found = predictor.objects(*list(QUERY.values())[:3], top=12, evidence=0)
    return {answer.name: answer.score for answer in found.answers}


def test_no_request_is_lost_while_runs_are_reloaded(
    served: Callable[..., Served], predictors: dict[str, Predictor], tmp_path: Path
) -> None:
    link = tmp_path / "current"
    point(link, STORED / MODELS[0])
    service = served(f"current={link}")
    wanted = {name: scores_of(predictors[name]) for name in MODELS}
    answers: list[httpx2.Response] = []
    stop = threading.Event()

    def ask() -> None:
        with httpx2.Client(base_url=service.ready["url"], timeout=30) as client:
            number = 0
            while not stop.is_set():
                number += 1
                # Every other request has evidence, and so several units of work.
                body = QUERY | {"evidence": number % 2}
                answers.append(client.post("/api/v1/complete", json=body))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(answers) > 20)
        for model in (*reversed(MODELS), MODELS[1], MODELS[0]):
            point(link, STORED / model)
            if model == MODELS[0]:
                service.process.send_signal(signal.SIGHUP)
            else:
                response = service.http.post("/api/v1/admin/reload", json={})
                assert response.status_code == 200 and response.json() == {"runs": ["current"]}
            until(lambda model=model: answers[-1].json()["model"] == model)  # type: ignore[misc]
            seen = len(answers)
            until(lambda seen=seen: len(answers) > seen + 20)  # type: ignore[misc]
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    models = [answer.json()["model"] for answer in answers]
    assert set(models) == set(MODELS)
    for model, answer in zip(models, answers, strict=True):
        scores = {each["name"]: each["score"] for each in answer.json()["answers"]}
        assert scores == pytest.approx(wanted[model], rel=1e-4, abs=1e-5)
    metrics = service.http.get("/metrics").text
    assert 'tempograph_reloads_total{run="current"} 4.0' in metrics
    _, log = service.end(signal.SIGTERM)
    assert [line["runs"] for line in log if line["event"] == "reloaded"] == [["current"]] * 2


def test_a_run_that_cannot_be_loaded_stays_as_it_was(
    served: Callable[..., Served], tmp_path: Path
) -> None:
    shutil.copytree(STORED / "ted", tmp_path / "one")
    shutil.copytree(STORED / "ted", tmp_path / "two")
    service = served(str(tmp_path / "one"), str(tmp_path / "two"))
    (tmp_path / "two" / "config.toml").write_text("broken")
    for body in ({}, {"run": "two"}):
        response = service.http.post("/api/v1/admin/reload", json=body)
        assert response.status_code == 409
        assert response.json()["type"] == "urn:tempograph:problem:reload-failed"
        assert "config.toml" in response.json()["detail"]
    assert service.http.post("/api/v1/admin/reload", json={"run": "x"}).status_code == 404
    assert service.http.post("/api/v1/admin/reload", json={"run": "one"}).status_code == 200
    service.process.send_signal(signal.SIGHUP)
    for run in ("one", "two"):
        response = service.http.post("/api/v1/complete", json=QUERY | {"run": run})
        assert response.status_code == 200
    until(lambda: any("reload failed" in line for line in service._lines))


def test_a_reload_needs_the_token_and_a_folder(small_run: Predictor) -> None:
    token = "s3cret-s3cret-s3cret"
    with client_of({"small": small_run}, token=token) as client:
        assert client.post("/api/v1/admin/reload", json={}).status_code == 401
        headers = {"authorization": f"Bearer {token}"}
        response = client.post("/api/v1/admin/reload", json={}, headers=headers)
        assert response.status_code == 409
        assert response.json()["detail"] == message("problems.no_folder", run="small")


def test_a_service_is_alive_and_not_ready_when_a_run_cannot_take_requests(
    small_run: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def state() -> list[Any]:
        paths = ("/health", "/health/live", "/health/ready")
        return [client.get(path).status_code for path in paths]

    with client_of({"small": small_run}) as client:
        assert state() == [200, 200, 200]
        with monkeypatch.context() as patch:
            patch.setattr(QueryBatcher, "waiting", property(lambda _: 256))
            assert state() == [200, 200, 503]
            problem = client.get("/health/ready").json()
            assert problem["detail"] == "the queue of a run is full"
        assert state() == [200, 200, 200]
        monkeypatch.setattr(QueryBatcher, "running", property(lambda _: False))
        assert state() == [200, 200, 503]
