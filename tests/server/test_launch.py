"""The service as a process: start, shutdown, slow and hostile clients, tokens, log."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Call
from messages import message
from serving import STORED, Served, until
from tempograph.server.event_log import event_log

pytest_plugins = ("serving_fixtures",)
TED = str(STORED / "ted")
QUERY = {"subject": "Corenne", "relation": "visits", "time": "2030-01-05", "top": 12}
Start = Callable[..., Served]


def names(answer: httpx2.Response) -> list[str]:
    assert answer.status_code == 200
    return [each["name"] for each in answer.json()["answers"]]


def test_open_requests_are_finished_at_shutdown(served: Start) -> None:
    service = served(TED, "--gather", "1000")
    with ThreadPoolExecutor(8) as pool:
        asked = [
            pool.submit(httpx2.post, f"{service.ready['url']}/api/v1/complete", json=QUERY)
            for _ in range(8)
        ]
        until(lambda: "tempograph_in_flight 9" in service.http.get("/metrics").text)
        code, log = service.end(signal.SIGTERM)
        answers = [names(each.result()) for each in asked]
    assert code == 0 and answers == [answers[0]] * 8
    assert [line["status"] for line in log if line.get("path") == "/api/v1/complete"] == [200] * 8
    assert log[-1]["event"] == "stopped"
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{service.ready['url']}/health")


def test_requests_that_outlast_the_shutdown_are_dropped(served: Start) -> None:
    service = served(TED, "--gather", "20000", "--shutdown", "1", "--max-seconds", "60")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(
            httpx2.post, f"{service.ready['url']}/api/v1/complete", json=QUERY, timeout=30
        )
        until(lambda: "tempograph_in_flight 2" in service.http.get("/metrics").text)
        start = time.monotonic()
        code, _ = service.end(signal.SIGINT)
        assert code == 0 and time.monotonic() - start < 10
        assert_stopping(asked.result())


def test_shutdown_does_not_wait_for_work_that_takes_longer(served: Start) -> None:
    slow = """
import time
import tempograph.prediction.completion as completion
completion.explain = lambda *_: time.sleep(25)
"""
    service = served(TED, "--shutdown", "1", "--max-seconds", "60", setup=slow)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(
            httpx2.post,
            f"{service.ready['url']}/api/v1/complete",
            json=QUERY | {"evidence": 1},
            timeout=30,
        )
        until(lambda: "tempograph_in_flight 2" in service.http.get("/metrics").text)
        start = time.monotonic()
        code, log = service.end(signal.SIGTERM)
        assert code == 0 and time.monotonic() - start < 10
        assert_stopping(asked.result())
    assert log[-1]["event"] == "stopped"


def test_shutdown_does_not_wait_for_a_run_that_is_loaded_again(served: Start) -> None:
    slow = """
import time
from tempograph.server.service import Service
Service._load_again = lambda *_: time.sleep(25)
"""
    service = served(TED, "--shutdown", "1", setup=slow)
    with ThreadPoolExecutor(1) as pool:
        url = f"{service.ready['url']}/api/v1/admin/reload"
        asked = pool.submit(httpx2.post, url, json={}, timeout=30)
        until(lambda: "tempograph_in_flight 2" in service.http.get("/metrics").text)
        start = time.monotonic()
        code, log = service.end(signal.SIGTERM)
        assert code == 0 and time.monotonic() - start < 10
        assert_stopping(asked.result())
    assert log[-1]["event"] == "stopped"


def test_the_service_does_without_uvloop_where_it_is_installed(served: Start) -> None:
    """It would listen with the backlog of one connection that a worker takes at a time."""
    installed = """
import sys, types
uvloop = types.ModuleType("uvloop")
uvloop.new_event_loop = uvloop.Loop = lambda *_: 1 / 0
sys.modules["uvloop"] = uvloop
"""
    service = served(TED, setup=installed)
    assert service.http.get("/health").status_code == 200
    assert service.end(signal.SIGTERM)[0] == 0


def test_a_hangup_during_the_start_reloads_afterwards(served: Start) -> None:
    early = """
import os, signal
from tempograph.server.service_settings import ServiceSettings
load = ServiceSettings.load
ServiceSettings.load = lambda self: (os.kill(os.getpid(), signal.SIGHUP), load(self))[1]
"""
    service = served(TED, setup=early)
    until(lambda: 'tempograph_reloads_total{run="ted"} 1.0' in service.http.get("/metrics").text)
    code, log = service.end(signal.SIGTERM)
    assert code == 0 and [line for line in log if line["event"] == "reloaded"]


def test_an_unexpected_error_of_a_reload_is_logged(served: Start) -> None:
    broken = """
from tempograph.server.service import Service
Service._load_again = lambda *_: 1 / 0
"""
    service = served(TED, setup=broken)
    service.process.send_signal(signal.SIGHUP)
    until(lambda: any("ZeroDivisionError" in line for line in service._lines))
    assert names(service.http.post("/api/v1/complete", json=QUERY))


def test_a_request_sent_before_the_last_response_has_its_time(served: Start) -> None:
    slow = """
import time
import tempograph.prediction.completion as completion
explain = completion.explain
completion.explain = lambda *given: (time.sleep(1.5), explain(*given))[1]
"""
    service = served(TED, "--idle", "0.5", setup=slow)
    body = json.dumps(QUERY | {"top": 1, "evidence": 1}).encode()
    head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
    both = (
        b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\nPOST /api/v1/complete HTTP/1.1\r\n"
        + f"host: localhost\r\nconnection: close\r\n{head}\r\n".encode()
        + body
    )
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(both)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.count(b"HTTP/1.1 200 ") == 2


def assert_stopping(response: httpx2.Response) -> None:
    assert response.status_code == 503 and response.headers["retry-after"] == "5"
    assert response.json()["detail"] == message("problems.stopping")


def test_a_request_ends_when_its_client_closes_the_connection(served: Start) -> None:
    slow = """
import time
import tempograph.prediction.completion as completion
explain = completion.explain
completion.explain = lambda *given: (time.sleep(0.5), explain(*given))[1]
"""
    service = served(TED, setup=slow)
    body = json.dumps(QUERY | {"evidence": 1}).encode()
    head = f"host: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(f"POST /api/v1/complete HTTP/1.1\r\n{head}\r\n\r\n".encode() + body)
        until(lambda: "tempograph_in_flight 2" in service.http.get("/metrics").text)
    until(lambda: "tempograph_in_flight 1" in service.http.get("/metrics").text, seconds=3)
    assert names(service.http.post("/api/v1/complete", json=QUERY))
    _, log = service.end(signal.SIGTERM)
    statuses = [line["status"] for line in log if line.get("path") == "/api/v1/complete"]
    assert statuses == [499, 200]


def test_a_service_killed_under_load_can_be_restarted(served: Start) -> None:
    service = served(TED)
    wanted = names(service.http.post("/api/v1/complete", json=QUERY))
    answers: list[Any] = []

    def ask() -> None:
        with httpx2.Client(base_url=service.ready["url"], timeout=10) as client:
            while not stop.is_set():
                try:
                    answers.append(client.post("/api/v1/complete", json=QUERY))
                except httpx2.TransportError as error:
                    answers.append(error)
                    return

    stop = threading.Event()
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(answers) > 20)
    assert service.end(signal.SIGKILL)[0] == -signal.SIGKILL
    for thread in threads:
        thread.join(20)
    stop.set()
    assert sum(isinstance(answer, Exception) for answer in answers) == 4
    assert all(names(answer) == wanted for answer in answers if not isinstance(answer, Exception))
    again = served(TED, "--port", str(service.port))
    assert again.port == service.port
    assert names(again.http.post("/api/v1/complete", json=QUERY)) == wanted


def test_slow_and_silent_clients_are_disconnected(served: Start) -> None:
    service = served(TED, "--idle", "1", "--max-seconds", "1")
    openings = {
        "silent": b"",
        "half a head": b"GET /health HTTP/1.1\r\nhost: loc",
        "half a body": b"POST /api/v1/complete HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: 50\r\n\r\n{",
        "no HTTP": b"\x16\x03\x01\x00\xa5\x01\x00\x00",
        "an endless head": b"GET / HTTP/1.1\r\nx: " + b"x" * 200_000,
        "no path": b"GET \xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "an upgrade": b"GET /api/v1/info HTTP/1.0\r\nhost: localhost\r\n"
        b"upgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    }
    connections = {}
    for case, opening in openings.items():
        connections[case] = socket.create_connection(("127.0.0.1", service.port))
        connections[case].sendall(opening)
    assert service.http.get("/health").status_code == 200
    got = {}
    for case, connection in connections.items():
        with connection:
            connection.settimeout(10)
            try:
                got[case] = connection.recv(10_000)
            except ConnectionError:
                got[case] = b""
    assert got["silent"] == got["half a head"] == got["an endless head"] == b""
    assert got["half a body"].startswith(b"HTTP/1.1 504 ") and got["no HTTP"].startswith(
        b"HTTP/1.1 400 "
    )
    assert got["no path"].startswith(b"HTTP/1.1 400 ") and got["an upgrade"].startswith(
        b"HTTP/1.1 200 "
    )
    assert service.http.get("/health").status_code == 200


def test_a_thousand_open_connections_do_not_block_others(served: Start) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip(f"a process may open {hard} files here, and a thousand connections need more")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    service = served(TED, "--idle", "2")
    connections = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(1000)]
    assert names(service.http.post("/api/v1/complete", json=QUERY))
    for connection in connections:
        connection.settimeout(10)
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""
        connection.close()
    assert service.http.get("/health").status_code == 200


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="memory of another process is read from /proc"
)
def test_hostile_requests_do_not_leak_memory(served: Start) -> None:
    """Large bodies, unknown names and missing paths must not accumulate."""
    service = served(TED)

    def hostile(number: int) -> None:
        bodies = (b"[" * 100_000, b'{"subject": "' + b"x" * 200_000 + b'"}', b"\xff" * 50_000)
        kind = {"content-type": "application/json"}
        answers = [
            service.http.post(path, content=body, headers=kind)
            for body in bodies
            for path in ("/api/v1/complete", "/api/v1/score")
        ]
        unseen = f"{number} " * 2000
        answers.append(service.http.post("/api/v1/complete", json=QUERY | {"subject": unseen}))
        answers.append(service.http.get("/api/v1/entities", params={"q": f"{number}" * 30}))
        answers.append(service.http.get(f"/nothing/{number}"))
        assert max(answer.status_code for answer in answers) < 500

    def mebibytes() -> float:
        return (
            int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
            * resource.getpagesize()
            / 2**20
        )

    for number in range(100):
        hostile(number)
    before = mebibytes()
    for number in range(100, 400):
        hostile(number)
    assert mebibytes() < before + 16


def test_another_host_needs_a_token(served: Start, tmp_path: Path) -> None:
    made = served(TED, "--host", "0.0.0.0")
    token = made.ready["token"]
    assert len(token) >= 32
    assert (
        made.http.get("/api/v1/info").status_code == 401
        and made.http.get("/health").status_code == 200
    )
    assert (
        made.http.get("/api/v1/info", headers={"authorization": f"Bearer {token}"}).status_code
        == 200
    )
    _, log = made.end(signal.SIGTERM)
    assert token not in json.dumps(log[1:])
    (tmp_path / "token").write_text("a-token-from-a-file\n")
    from_file = served(
        TED, "--token-file", str(tmp_path / "token"), TEMPOGRAPH_TOKEN="a-token-from-elsewhere"
    )
    assert "token" not in from_file.ready
    assert (
        from_file.http.get(
            "/api/v1/info", headers={"authorization": "Bearer a-token-from-a-file"}
        ).status_code
        == 200
    )
    from_variable = served(TED, "--host", "0.0.0.0", TEMPOGRAPH_TOKEN="a-token-from-a-variable")
    assert (
        from_variable.http.get("/api/v1/info").status_code == 401
        and "token" not in from_variable.ready
    )


def test_user_errors_at_start_exit_with_2(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert_mistake(call("serve", TED, "--port", port), f"cannot listen on 127.0.0.1:{port}")
    (tmp_path / "empty").touch()
    assert_mistake(
        call("serve", TED, "--allow-origin", "*"), message("cross_origin.no_origin", origin="*")
    )
    assert_mistake(
        call("serve", TED, "--forwarded-allow-ips", "proxy"), "'proxy' is not an address of a proxy"
    )
    assert_mistake(call("serve", "nothing", "--port", "0"), "nothing: no run here")
    assert_mistake(call("serve", TED, TED, "--port", "0"), "two runs are named 'ted'")
    assert_mistake(
        call("serve", TED, "--host", "no.such.host.invalid"),
        "there is no address 'no.such.host.invalid'",
    )
    assert_mistake(call("serve", TED, "--token-file", "missing"), "missing: cannot read the token")
    assert_mistake(call("serve", TED, "--token-file", str(tmp_path / "empty")), "the file is empty")
    monkeypatch.setenv("TEMPOGRAPH_TOKEN", "short")
    assert_mistake(call("serve", TED), "a token has at least 16 ASCII characters")


def assert_mistake(result: tuple[int, str, str], message: str) -> None:
    code, out, err = result
    assert code == 2 and out == "" and message in err


def test_without_the_serve_extra_the_error_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['fastapi'] = None; sys.argv = ['tempograph', 'serve', 'x']"
    done = subprocess.run(
        [sys.executable, "-c", f"{hidden}; from tempograph.cli import main; main()"],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert done.returncode == 2 and "pip install '.[serve]'" in done.stderr


def test_the_log_escapes_control_characters_in_text(capsys: pytest.CaptureFixture[str]) -> None:
    event = {"event": "request", "method": "GET", "path": "/\x1b[31m\n", "status": 404, "ms": 1.5}
    event_log("text")(event | {"run": None})
    line = capsys.readouterr().err
    assert line.endswith(r"request GET /\x1b[31m\n 404 ms=1.5" + "\n") and line.count("\n") == 1
    for format in ("json", "auto"):
        event_log(format)({"event": "request", "path": "/\x1b\n"})  # type: ignore[arg-type]
        assert json.loads(capsys.readouterr().err)["path"] == "/\x1b\n"


def test_requests_are_logged_with_their_run_and_sizes(served: Start) -> None:
    service = served(TED, "--log-format", "json")
    answer = service.http.post("/api/v1/complete", json=QUERY)
    plain = {"accept-encoding": "identity"}
    found = service.http.get("/api/v1/entities", headers=plain)
    service.http.get("/health")
    _, log = service.end(signal.SIGTERM)
    complete, entities, health = (line for line in log if line["event"] == "request")
    assert complete["run"] == entities["run"] == "ted" and health["run"] is None
    assert complete["received"] == len(json.dumps(QUERY, separators=(",", ":")))
    assert entities["received"] == 0 and entities["sent"] == len(found.content)
    assert complete["id"] == answer.headers["x-request-id"]


def test_forwarded_addresses_are_believed_from_trusted_proxies_only(served: Start) -> None:
    forwarded = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}
    for options, client in (
        (("--forwarded-allow-ips", "10.0.0.1"), "127.0.0.1"),
        (("--forwarded-allow-ips", "10.0.0.1, 127.0.0.0/8"), "203.0.113.9"),
    ):
        service = served(TED, *options)
        service.http.get("/health", headers=forwarded)
        _, log = service.end(signal.SIGTERM)
        assert [line["client"] for line in log if line["event"] == "request"] == [client]
