"""Services over stored runs, in this process or in a separate one."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from forked import Popen
from tempograph import Predictor
from tempograph.server import served_run
from tempograph.server.app import create_app
from tempograph.server.batching import QueryBatcher
from tempograph.server.cross_origin import allow_origins
from tempograph.server.limits import Limits
from tempograph.server.middleware import AdmissionMiddleware
from tempograph.server.page_files import PageFiles
from tempograph.server.service import Service

# A Predictor stores its fitted temperature in the run folder; the stored runs must not change.
_COPY = tempfile.mkdtemp()
atexit.register(shutil.rmtree, _COPY)
STORED = Path(shutil.copytree(Path(__file__).parent / "stored" / "format-1", Path(_COPY) / "runs"))
RUNS = ("temp-gru", "ted", "pointer", "ensemble")


@contextmanager
def client_of(
    predictors: dict[str, Predictor],
    limits: Limits | None = None,
    token: str | None = None,
    log: list[Any] | None = None,
    origins: Sequence[str] = (),
) -> Iterator[TestClient]:
    """A client of a service in this process; `log` collects the events of its log."""
    limits = limits or Limits()
    service = Service(predictors, limits)
    for run in service.runs.values():
        run.warm_up()
    events: list[Any] = [] if log is None else log
    app: ASGIApp = AdmissionMiddleware(
        create_app(service, token_required=token is not None),
        limits,
        service.metrics,
        token,
        events.append,
    )
    app = allow_origins(app, origins)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def page_file(name: str) -> str:
    """The path of a file of the page."""
    return f"/{PageFiles().address}/{name}"


class Served:
    """`tempograph serve` as a separate process, once it is ready; `setup` is run before it."""

    def __init__(self, *arguments: str, setup: str = "", **environment: str) -> None:
        command = [
            sys.executable,
            "-c",
            f"{setup}\nfrom tempograph.cli import main; main()",
            "serve",
            "--device",
            "cpu",
            "--port",
            "0",
            *arguments,
        ]
        self.process = Popen(command, stderr=subprocess.PIPE, env=os.environ | environment)
        self._lines: list[str] = []
        self._started = threading.Event()
        # An unread log would block the service once the pipe is full.
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        started = self._started.wait(60) and self._lines and self._lines[0].startswith("{")
        assert started, "".join(self._lines)
        self.ready: dict[str, Any] = json.loads(self._lines[0])
        self.port = int(self.ready["url"].rpartition(":")[2])
        # One connection per request: the service may close an idle one just as it is used again.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self.http = httpx2.Client(
            base_url=f"http://localhost:{self.port}", timeout=30, limits=limits
        )

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self._lines.append(line)
                self._started.set()
        self._started.set()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.process.kill()
        self.process.wait(30)
        self._reader.join(30)

    def end(self, signal: int) -> tuple[int, list[dict[str, Any]]]:
        """Send a signal; return the exit code and the lines of the log."""
        self.process.send_signal(signal)
        code = self.process.wait(30)
        self._reader.join(30)
        return code, [json.loads(line) for line in self._lines]


def count_units(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A list that grows with each unit of work; units are as small as they can be."""
    units: list[object] = []
    work = QueryBatcher.work

    def counted(batcher: Any, unit: Callable[[], Any], *rest: Any) -> Any:
        units.append(unit)
        return work(batcher, unit, *rest)

    monkeypatch.setattr(QueryBatcher, "work", counted)
    monkeypatch.setattr(served_run, "_UNIT_SECONDS", 0)
    return units


def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
