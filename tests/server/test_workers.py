"""Several workers share a socket, are replaced, reloaded and stopped; one service for all tests."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Call
from messages import message
from serving import STORED, Served, until
from tempograph import Predictor

pytest_plugins = ("serving_fixtures",)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="several workers need Linux")
QUERY = {"subject": "Corenne", "relation": "visits", "time": "2030-01-05", "top": 12}
MODELS = ("pointer", "temp-gru")
SLOW = """
import time
import tempograph.prediction.completion as completion
explain = completion.explain
completion.explain = lambda model, *rest: (
    time.sleep(30 * (model.name == "ted")), explain(model, *rest)
)[1]
"""
"""Evidence of TED takes longer than any request may."""


def point(link: Path, run: Path) -> None:
    """Let a link point at another run, at once."""
    new = link.with_suffix(".new")
    new.symlink_to(run)
    new.replace(link)


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Path:
    link = tmp_path_factory.mktemp("runs") / "current"
    point(link, STORED / MODELS[0])
    return link


@pytest.fixture(scope="module")
def service(link: Path) -> Iterator[Served]:
    options = ("--workers", "2", "--shutdown", "1", "--max-seconds", "20")
    runs = (f"current={link}", f"ted={STORED / 'ted'}")
    # Matrix products of two threads in each worker, whose parent has used some too.
    with Served(*runs, *options, setup=SLOW, OMP_NUM_THREADS="4") as served:
        yield served


class Load:
    """Clients that ask the same question again and again, each over one connection."""

    def __init__(self, service: Served, clients: int = 6) -> None:
        self.answers: list[httpx2.Response] = []
        self.lost: list[Exception] = []
        self._service = service
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def _ask(self) -> None:
        number = 0
        with httpx2.Client(base_url=self._service.ready["url"], timeout=30) as client:
            while not self._stop.is_set():
                number += 1
                # Every other request has evidence, and so several units of work.
                body = QUERY | {"evidence": number % 2}
                try:
                    self.answers.append(client.post("/api/v1/complete", json=body))
                except httpx2.TransportError as error:
                    self.lost.append(error)

    def wait_for_more(self, answers: int = 20) -> None:
        seen = len(self.answers)
        until(lambda: len(self.answers) > seen + answers)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        self.wait_for_more()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)


def events(service: Served, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in list(service._lines)]
    return [line for line in lines if line["event"] == event]


def total(service: Served, metric: str) -> float:
    """The sum of a metric over its labels."""
    lines = service.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(metric))


def worker_processes(service: Served) -> list[int]:
    pools = children(service.process.pid)
    return [process for pool in pools for process in children(pool)]


def children(process: int) -> list[int]:
    return [
        int(each)
        for file in Path(f"/proc/{process}/task").glob("*/children")
        for each in file.read_text().split()
    ]


def ready(service: Served) -> bool:
    return service.http.get("/health/ready").status_code == 200


def test_all_workers_answer_and_are_counted_together(
    service: Served, predictors: dict[str, Predictor]
) -> None:
    assert service.ready["workers"] == 2 and ready(service)
    wanted = predictors[MODELS[0]].objects(*list(QUERY.values())[:3], top=12, evidence=1)
    scores = {answer.name: answer.score for answer in wanted.answers}
    with Load(service) as load:
        until(lambda: len({line["worker"] for line in events(service, "request")}) == 2)
    for answer in load.answers:
        assert answer.status_code == 200
        found = {each["name"]: each["score"] for each in answer.json()["answers"]}
        assert found == pytest.approx(scores, rel=1e-4, abs=1e-5)
    route = 'tempograph_requests_total{route="/api/v1/complete",status="200"}'
    until(lambda: total(service, route) == len(load.answers))
    until(lambda: total(service, "tempograph_in_flight") == 1)
    assert 'process_resident_memory_bytes{worker="1"}' in service.http.get("/metrics").text


def test_every_kind_of_question_is_answered_after_the_fork(service: Served) -> None:
    fact = {
        "subject": "Corenne",
        "relation": "visits",
        "object": "President of Corenne",
        "time": "2030-01-05",
    }
    asks = [
        ("complete", {name: fact[name] for name in fact if name != "time"} | {"evidence": 2}),
        ("complete", {name: fact[name] for name in fact if name != "relation"} | {"evidence": 2}),
        ("score", {"facts": [fact]}),
        ("evidence", fact),
        ("what-if", QUERY | {"added": [fact | {"time": "2030-01-06"}]}),
        ("missing", {"entity": "Corenne", "top": 3}),
        ("surprising", {"top": 3}),
    ]
    for path, body in asks:
        response = service.http.post(f"/api/v1/{path}", json=body)
        assert response.status_code == 200, response.text
    assert service.http.get("/api/v1/calibration").status_code == 200


def models(answers: list[httpx2.Response]) -> set[str]:
    return {answer.json()["model"] for answer in answers}


@contextmanager
def killed(service: Served, process: int, load: Load) -> Iterator[None]:
    """Kill a process under load; afterwards, all workers must answer again."""
    os.kill(process, signal.SIGKILL)
    yield
    until(lambda: process not in worker_processes(service) and ready(service))
    load.wait_for_more()


def test_a_killed_worker_is_replaced_and_costs_its_requests_in_flight(service: Served) -> None:
    before = worker_processes(service)
    assert len(before) == 2
    with Load(service) as load:
        with killed(service, before[0], load):
            until(lambda: total(service, "tempograph_worker_restarts_total") == 1)
        after = worker_processes(service)
        assert len(after) == 2 and before[1] in after
        # Each client has at most one request at a time.
        assert len(load.lost) <= 6
        lost = len(load.lost)
        # Without the process that starts workers, another one loads the runs and takes over.
        (pool,) = children(service.process.pid)
        with killed(service, pool, load):
            until(lambda: not set(after) & set(worker_processes(service)))
        assert len(load.lost) == lost
    assert {answer.status_code for answer in load.answers} == {200}
    assert len(events(service, "worker died")) == len(events(service, "pool died")) == 1


def test_a_reload_under_load_loses_no_request(service: Served, link: Path) -> None:
    reloads = total(service, "tempograph_reloads_total")
    with Load(service) as load:
        for model in (MODELS[1], MODELS[0]):
            point(link, STORED / model)
            if model == MODELS[0]:
                service.process.send_signal(signal.SIGHUP)
                until(lambda: len(events(service, "reloaded")) == 1)
            else:
                response = service.http.post("/api/v1/admin/reload", json={})
                assert response.json() == {"runs": ["current", "ted"]}
            # New connections have the new run, old ones after their next response.
            assert service.http.post("/api/v1/complete", json=QUERY).json()["model"] == model
            until(lambda model=model: models(load.answers[-20:]) == {model})  # type: ignore[misc]
    assert load.lost == [] and {answer.status_code for answer in load.answers} == {200}
    assert total(service, "tempograph_reloads_total") == reloads + 4
    until(lambda: len(children(service.process.pid)) == 1)


def test_workers_stay_if_their_runs_cannot_be_loaded(service: Served, link: Path) -> None:
    before = worker_processes(service)
    point(link, link.parent / "nothing")
    response = service.http.post("/api/v1/admin/reload", json={"run": "ted"})
    assert response.status_code == 409 and f"{link}: no run here" in response.json()["detail"]
    assert service.http.post("/api/v1/admin/reload", json={"run": "x"}).status_code == 404
    service.process.send_signal(signal.SIGHUP)
    until(lambda: len(events(service, "reload failed")) == 1)
    assert worker_processes(service) == before and ready(service)


def test_shutdown_takes_no_longer_than_its_limit(service: Served) -> None:
    url = f"{service.ready['url']}/api/v1/complete"
    body = QUERY | {"run": "ted", "evidence": 1}
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(httpx2.post, url, json=body, timeout=30) for _ in range(2)]
        until(lambda: total(service, "tempograph_in_flight") == 3)
        processes, start = worker_processes(service), time.monotonic()
        code, log = service.end(signal.SIGTERM)
        assert code == 0 and time.monotonic() - start < 6
        for each in asked:
            assert each.result().status_code == 503
            assert each.result().json()["detail"] == message("problems.stopping")
    assert log[-1]["event"] == "stopped"
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


def test_workers_end_with_the_process_that_started_them(served: Any) -> None:
    service = served(str(STORED / "ted"), "--workers", "2")
    processes = worker_processes(service)
    assert len(processes) == 2
    assert service.end(signal.SIGKILL)[0] == -signal.SIGKILL
    until(lambda: not any(Path(f"/proc/{process}").exists() for process in processes))


def test_several_workers_name_a_folder_that_cannot_be_loaded(call: Call) -> None:
    code, _, err = call("serve", "nothing", "--port", "0", "--workers", "2")
    assert code == 2 and "nothing: no run here" in err
