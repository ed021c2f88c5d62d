"""The HTTP server of one process: the application, its middleware and the limits of connections."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FrameType
from typing import Final

import uvicorn

from tempograph.server.app import create_app
from tempograph.server.connections import http_protocol
from tempograph.server.cross_origin import allow_origins
from tempograph.server.event_log import EventLog, redirect_uvicorn_log
from tempograph.server.middleware import AdmissionMiddleware
from tempograph.server.operation_routes import Operations
from tempograph.server.service import Service
from tempograph.server.service_settings import ServiceSettings

BACKLOG: Final = 2048
"""Connections that may wait to be accepted."""


class HttpServer(uvicorn.Server):
    """The server of a service; `operations` is who reloads it and knows whether it is ready."""

    def __init__(
        self,
        service: Service,
        settings: ServiceSettings,
        log: EventLog,
        on_ready: Callable[[], None],
        operations: Operations | None = None,
        backlog: int = BACKLOG,
    ) -> None:
        limits, proxies = settings.limits, settings.trusted_proxies
        app = create_app(service, on_ready, settings.token is not None, operations)
        self._admission = AdmissionMiddleware(app, limits, service.metrics, settings.token, log)
        redirect_uvicorn_log(log)
        super().__init__(
            uvicorn.Config(
                allow_origins(self._admission, settings.origins),
                log_config=None,
                access_log=False,
                ws="none",
                lifespan="on",
                server_header=False,
                proxy_headers=bool(proxies),
                forwarded_allow_ips=list(proxies),
                http=http_protocol(limits.idle),
                # uvloop, the default where it is installed, calls the system's listen itself. It
                # would let only `backlog` connections wait: for a worker, one.
                loop="asyncio",
                timeout_keep_alive=math.ceil(limits.idle),
                timeout_graceful_shutdown=settings.shutdown_seconds,
                backlog=backlog,
            )
        )

    def stop_accepting(self) -> None:
        """Leave new connections to others, and close each of this server after its next response.

        Idle connections stay open until they have been idle too long, because their clients may be
        sending a request.
        """
        self._admission.closing = True
        for server in self.servers:
            server.close()

    @property
    def has_connections(self) -> bool:
        """Whether a client is connected."""
        return bool(self.server_state.connections)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down at a signal, without raising it again afterwards as uvicorn does."""
        super().handle_exit(sig, frame)
        self._captured_signals.clear()
