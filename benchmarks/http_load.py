"""Clients that send requests over connections that stay open, with little work of their own."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass
class Latencies:
    """The seconds of each request, and the number of failed ones."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    def percentile(self, percent: int) -> float:
        """The seconds that so many percent of the requests took at most."""
        if not self.seconds:
            return float("nan")
        return sorted(self.seconds)[min(len(self.seconds) - 1, percent * len(self.seconds) // 100)]


def http_request(method: str, path: str, body: bytes = b"") -> bytes:
    """The bytes of a request with a JSON body."""
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class _Client(asyncio.Protocol):
    """Sends a request as soon as the one before is answered, until `stop`."""

    def __init__(self, next_request: Callable[[], bytes], stop: float, found: Latencies) -> None:
        self._next_request = next_request
        self._stop = stop
        self._found = found
        self._buffer = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._buffer, self._start = b"", time.perf_counter()
        self._transport.write(self._next_request())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._buffer, 0, end)
        if len(self._buffer) < end + 4 + (int(length[1]) if length else 0):
            return
        now = time.perf_counter()
        self._found.seconds.append(now - self._start)
        self._found.failed += not self._buffer.startswith(b"HTTP/1.1 200 ")
        if now < self._stop:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(error)


async def ask(
    port: int, requests: Sequence[bytes], clients: int, seconds: float, found: Latencies
) -> None:
    """Let clients send requests, each from its own place in the list, for some seconds."""
    loop, stop = asyncio.get_running_loop(), time.perf_counter() + seconds
    connected = []
    for _ in range(clients):
        start = random.randrange(len(requests))
        endless = itertools.cycle([*requests[start:], *requests[:start]])
        client_of = partial(_Client, endless.__next__, stop, found)
        _, client = await loop.create_connection(client_of, "127.0.0.1", port)
        connected.append(client.done)
    # A request that is still on its way then is left out.
    await asyncio.wait(connected, timeout=seconds + 60)


async def read_page(port: int, path: str) -> bytes:
    """The response to GET, with its headers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    response = await reader.read()
    writer.close()
    return response
