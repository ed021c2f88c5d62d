"""Connections that send nothing, or too slowly, are closed: they cannot pile up."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


def patient(seconds: float) -> type[asyncio.Protocol]:
    """HTTP over a connection that is cut off unless a whole request head comes within some seconds.

    They count from the beginning, and from the end of each answer; what was not taken of the answer by then is lost.
    """

    class Patient(HttpToolsProtocol):
        _end: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def on_headers_complete(self) -> None:
            self._stop_waiting()
            super().on_headers_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._wait()

        def _wait(self) -> None:
            self._stop_waiting()
            if not self.transport.is_closing() or self._unsent():
                self._end = self.loop.call_later(seconds, self.transport.abort)

        def _unsent(self) -> int:
            transport: Any = self.transport
            return int(transport.get_write_buffer_size())

        def _stop_waiting(self) -> None:
            if self._end is not None:
                self._end.cancel()
                self._end = None

    return Patient
