"""Close connections that are idle or send their request headers too slowly."""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MAX_HEADER_BYTES: Final = 2**16


def http_protocol(idle_seconds: float) -> type[asyncio.Protocol]:
    """HTTP over a connection that is aborted unless all request headers arrive in time.

    The time counts from the start of the connection and from the end of each response; what the
    client has not read of the response by then is lost.
    """

    class IdleTimeoutProtocol(HttpToolsProtocol):
        _timer: asyncio.TimerHandle | None = None
        _header_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._start_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._timer is not None:
                self._header_bytes += len(data)
                if self._header_bytes > _MAX_HEADER_BYTES:
                    self.transport.abort()

        def on_headers_complete(self) -> None:
            self._stop_timer()
            super().on_headers_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            # A client may have sent its next request already.
            if self.cycle.response_complete:
                self._start_timer()

        def _start_timer(self) -> None:
            self._stop_timer()
            self._header_bytes = 0
            self._timer = self.loop.call_later(idle_seconds, self.transport.abort)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return IdleTimeoutProtocol
