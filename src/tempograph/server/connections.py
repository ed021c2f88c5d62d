"""Connections that send nothing, or too slowly, are closed: they cannot pile up."""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_HEAD: Final = 2**16
"""Bytes of a request before its body."""


def patient(seconds: float) -> type[asyncio.Protocol]:
    """HTTP over a connection that is cut off unless a whole request head comes within some seconds.

    They count from the beginning, and from the end of each answer; what was not taken of the answer by then is lost.
    """

    class Patient(HttpToolsProtocol):
        _end: asyncio.TimerHandle | None = None
        _head = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._end is not None:
                self._head += len(data)
                if self._head > _MOST_HEAD:
                    self.transport.abort()

        def on_headers_complete(self) -> None:
            self._stop_waiting()
            super().on_headers_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._wait()

        def _wait(self) -> None:
            self._stop_waiting()
            self._head = 0
            self._end = self.loop.call_later(seconds, self.transport.abort)

        def _stop_waiting(self) -> None:
            if self._end is not None:
                self._end.cancel()
                self._end = None

    return Patient
