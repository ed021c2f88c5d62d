"""Stored runs behind the service, in this process and in one of its own."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from starlette.testclient import TestClient

from tempograph import Predictor
from tempograph.server.admission import Gate
from tempograph.server.app import create_app
from tempograph.server.service import Limits, Service

# A Predictor keeps what it fits in the run folder, and stored runs stay as they are.
_COPY = tempfile.mkdtemp()
atexit.register(shutil.rmtree, _COPY)
STORED = Path(shutil.copytree(Path(__file__).parent / "stored" / "format-1", Path(_COPY) / "runs"))
RUNS = ("temp-gru", "ted", "pointer", "ensemble")


@contextmanager
def client_of(
    predictors: dict[str, Predictor],
    limits: Limits | None = None,
    token: str | None = None,
    told: list[Any] | None = None,
) -> Iterator[TestClient]:
    """A client of a service in this process."""
    limits = limits or Limits()
    service = Service(predictors, limits)
    for run in service.runs.values():
        run.warm()
    app = Gate(
        create_app(service),
        limits,
        service.metrics,
        token,
        [].append if told is None else told.append,
    )
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


class Served:
    """`tempograph serve` in a process of its own, once it is ready."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        command = [
            sys.executable,
            "-m",
            "tempograph",
            "serve",
            "--device",
            "cpu",
            "--port",
            "0",
            *arguments,
        ]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=os.environ | environment
        )
        self._lines: list[str] = []
        self._begun = threading.Event()
        # A log that nobody reads would stop the service once the pipe is full.
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._begun.wait(60) and self._lines and self._lines[0].startswith("{"), "".join(
            self._lines
        )
        self.ready: dict[str, Any] = json.loads(self._lines[0])
        self.port = int(self.ready["url"].rpartition(":")[2])
        # A connection for each request: one that is kept may be ended as idle just as the next request goes out.
        fresh = httpx2.Limits(max_keepalive_connections=0)
        self.http = httpx2.Client(
            base_url=f"http://localhost:{self.port}", timeout=30, limits=fresh
        )

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self._lines.append(line)
                self._begun.set()
        self._begun.set()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.process.kill()
        self.process.wait(30)
        self._reader.join(30)

    def end(self, signal: int) -> tuple[int, list[dict[str, Any]]]:
        """Send a signal; the exit code, and the lines of the log."""
        self.process.send_signal(signal)
        code = self.process.wait(30)
        self._reader.join(30)
        return code, [json.loads(line) for line in self._lines]
