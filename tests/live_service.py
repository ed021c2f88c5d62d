"""A service in a thread of this process, and clients of it that tests can use as a Predictor."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tempograph import AsyncClient, Client, Predictor
from tempograph.server.app import create_app
from tempograph.server.limits import Limits
from tempograph.server.middleware import AdmissionMiddleware
from tempograph.server.service import Service


@contextmanager
def live_service(
    predictors: dict[str, Predictor], limits: Limits | None = None, token: str | None = None
) -> Iterator[str]:
    """The address of a service that answers over a real connection."""
    limits = limits or Limits()
    service = Service(predictors, limits)
    routes = create_app(service, token_required=token is not None)
    app = AdmissionMiddleware(routes, limits, service.metrics, token, lambda event: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)


class AsyncCaller:
    """An AsyncClient whose methods are called like those of a Client."""

    def __init__(self, client: AsyncClient, runner: asyncio.Runner) -> None:
        self._client, self._runner = client, runner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        return lambda *given, **options: self._runner.run(method(*given, **options))


Answerer = Predictor | Client
KINDS = ("predictor", "client", "async client")


@contextmanager
def answerer_of(kind: str, predictor: Predictor, url: str) -> Iterator[Any]:
    """A predictor itself, or a client of a service with the same run."""
    if kind == "predictor":
        yield predictor
    elif kind == "client":
        with Client(url) as client:
            yield client
    else:
        with asyncio.Runner() as runner:
            caller = AsyncCaller(AsyncClient(url), runner)
            yield caller
            caller.close()
