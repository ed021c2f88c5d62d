"""Asks a service for /health, and beside it a server that does nothing else, until its input ends.

The other server tells how long an answer takes because of the machine. Both are asked from this
process, so the work of other clients delays neither. Prints the seconds of all answers as JSON.

python benchmarks/health_watch.py PORT < /dev/zero
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection
from typing import Final

from http_load import read_page

_PAUSE: Final = 0.05


async def watch(port: int, idle_port: int) -> dict[str, list[float]]:
    """The seconds of each answer of both servers."""
    seconds: dict[str, list[float]] = {"service": [], "idle": []}
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    while not ended.done():
        for name, asked in (("service", port), ("idle", idle_port)):
            start = time.perf_counter()
            try:
                answer = await asyncio.wait_for(read_page(asked, "/health"), 60)
            except (OSError, TimeoutError):
                answer = b""
            seconds[name].append(time.perf_counter() - start if b" 200 " in answer else 60.0)
        await asyncio.sleep(_PAUSE)
    return seconds


def serve_nothing(ready: Connection) -> None:
    """Answer every request with 200, and tell the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


if __name__ == "__main__":
    receiver, sender = multiprocessing.Pipe(duplex=False)
    idle = multiprocessing.Process(target=serve_nothing, args=(sender,), daemon=True)
    idle.start()
    print(json.dumps(asyncio.run(watch(int(sys.argv[1]), receiver.recv()))))
    idle.terminate()
