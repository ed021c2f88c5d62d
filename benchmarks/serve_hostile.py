"""Does the service stay up under hostile requests? It is asked nonsense, in bulk, over loopback.

Requests are drawn at random: broken JSON, wrong types, huge numbers, long and odd names, many facts
in a body, deep nesting, wrong methods, paths and headers, lines that are not HTTP, connections that
close early, and heavy questions that are in order. Meanwhile another client asks for /health. The
program counts the answers by status, and exits with 1 if

- an answer has a status of 500 or more, except 503 and 504,
- 99% of the answers of /health took 100 ms or more,
- memory has grown by more than 32 MiB since the first tenth of the requests.

PYTHONPATH=src python benchmarks/serve_hostile.py --run runs/pointer --requests 100000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import torch
from serve_speed import server

from tempograph.cli.console import note, out, table
from tempograph.data.graph import TemporalGraph
from tempograph.device import environment
from tempograph.io import write_json
from tempograph.training.run_folder import read_config, read_graph

TIMEOUT: Final = 60
MAX_GROWTH: Final = 32
"""Mebibytes."""
MAX_HEALTH: Final = 0.1
"""Seconds."""
ALLOWED: Final = (503, 504)
QUESTIONS: Final = ("complete", "complete/batch", "score", "evidence", "missing", "surprising")
LOOKUPS: Final = ("info", "entities", "relations", "timeline", "snapshot", "neighborhood")


def main() -> None:
    """Start a server, send requests, print what came back."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    graph = read_graph(arguments.run, read_config(arguments.run).dataset)
    with server(arguments.run, ["--max-seconds", "10"]) as (port, process):
        attack = Attack(graph, port, process.pid, arguments)
        asyncio.run(attack.run())
        alive = process.poll() is None
    found = attack.summary() | {"alive": alive, "environment": environment(torch.device("cpu"))}
    rows = [[str(status), f"{count:,}"] for status, count in sorted(attack.statuses.items())]
    caption = (
        f"{arguments.requests:,} requests in {found['seconds']:.0f} s; /health: p99 "
        f"{1000 * found['health_p99']:.0f} ms of {found['health_answers']:,} answers; memory grew "
        f"by {found['grown_mib']:.1f} MiB to {found['mib']:.0f} MiB."
    )
    out.print(table("Answers to hostile requests", ["status", "answers"], rows, caption=caption))
    if arguments.json is not None:
        write_json(arguments.json, found)
    sys.exit(not (alive and found["reached"]))


class Attack:
    """Clients that send random requests, and one that watches."""

    def __init__(
        self, graph: TemporalGraph, port: int, process: int, arguments: argparse.Namespace
    ) -> None:
        self.graph, self.port, self.process = graph, port, process
        self.left, self.total, self.clients = (
            arguments.requests,
            arguments.requests,
            arguments.clients,
        )
        self.random = random.Random(arguments.seed)
        self.statuses: Counter[str] = Counter()
        self.health: list[float] = []
        self.memory: list[float] = []
        self.seconds = 0.0

    async def run(self) -> None:
        """Send all requests."""
        start, watching = time.perf_counter(), asyncio.create_task(self._watch())
        await asyncio.gather(*(self._send_all() for _ in range(self.clients)))
        watching.cancel()
        self.seconds = time.perf_counter() - start
        self.memory.append(resident_mib(self.process))

    def summary(self) -> dict[str, Any]:
        """What was counted, and whether the targets are reached."""
        bad = sum(
            count
            for status, count in self.statuses.items()
            if status.isdigit() and int(status) >= 500 and int(status) not in ALLOWED
        )
        p99 = sorted(self.health)[int(0.99 * len(self.health))]
        grown = self.memory[-1] - self.memory[len(self.memory) // 10]
        return {
            "requests": self.total,
            "statuses": dict(self.statuses),
            "seconds": self.seconds,
            "health_answers": len(self.health),
            "health_p99": p99,
            "health_slowest": max(self.health),
            "grown_mib": grown,
            "mib": self.memory[-1],
            "reached": not bad and p99 < MAX_HEALTH and grown <= MAX_GROWTH,
        }

    async def _watch(self) -> None:
        while True:
            start = time.perf_counter()
            status = await self._exchange(http("GET", "/health"))
            self.health.append(time.perf_counter() - start)
            if status != "200":
                self.statuses[f"/health {status}"] += 1
            self.memory.append(resident_mib(self.process))
            done = self.total - self.left
            if len(self.health) % 200 == 0:
                note(f"{done:,} of {self.total:,} requests, {self.memory[-1]:.0f} MiB")
            await asyncio.sleep(0.05)

    async def _send_all(self) -> None:
        while self.left > 0:
            self.left -= 1
            self.statuses[await self._exchange(self._draw())] += 1

    async def _exchange(self, request: bytes) -> str:
        """Send bytes over a connection of their own; the status of the answer, or why none came."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return "refused"
        try:
            with suppress(ConnectionError):
                writer.write(request)
                await writer.drain()
            if request.endswith(CUT):
                return "closed early"
            line = await asyncio.wait_for(reader.readline(), TIMEOUT)
            await asyncio.wait_for(reader.read(), TIMEOUT)
            found = re.match(rb"HTTP/1\.\d (\d+)", line)
            return found[1].decode() if found else "no answer"
        except TimeoutError:
            return "timeout"
        except ConnectionError:
            return "closed"
        finally:
            writer.close()

    def _draw(self) -> bytes:
        kinds: list[Callable[[], bytes]] = [
            self._question,
            self._question,
            self._nonsense,
            self._broken,
            self._lookup,
            self._odd_http,
        ]
        return self.random.choice(kinds)()

    def _fact(self) -> dict[str, Any]:
        s, r, o, t = self.graph.all_facts[self.random.randrange(len(self.graph.all_facts))]
        names = self.graph.entities[s], self.graph.relations[r], self.graph.entities[o]
        return dict(
            zip(("subject", "relation", "object"), names, strict=True), time=self.graph.times[t]
        )

    def _question(self) -> bytes:
        """A question in order, now and then a heavy one."""
        fact = self._fact()
        del fact[self.random.choice(("subject", "object", "relation", "time"))]
        fact |= {"top": self.random.choice((1, 10, 100)), "evidence": self.random.choice((0, 0, 3))}
        return post("complete", json.dumps(fact))

    def _value(self, depth: int = 0) -> Any:
        """Something that no part of a question should be."""
        values: list[Any] = [
            None,
            -1,
            10**30,
            1e308,
            "",
            "\x00",
            "'; drop table facts; --",
            "<script>alert(1)</script>",
            "\u202e" + "x" * self.random.choice((1, 300, 5000)),
            "é" * self.random.randrange(100),
            True,
            [],
            {},
        ]
        if depth < 3 and self.random.random() < 0.3:
            return [self._value(depth + 1) for _ in range(self.random.randrange(4))]
        return self.random.choice(values)

    def _nonsense(self) -> bytes:
        """JSON of the right shape with wrong values, or very many of them."""
        path, fact = self.random.choice(QUESTIONS), self._fact()
        for part in self.random.sample(sorted(fact), 2):
            fact[part] = self._value()
        body: Any = fact | {"top": self._value(), "run": self._value()}
        if path in ("complete/batch", "score"):
            count = self.random.choice((0, 1, 50, 20_000))
            body = {"facts": [fact] * count, "questions": [{}] * count}
        return post(path, json.dumps(body))

    def _broken(self) -> bytes:
        """Bodies that are not JSON, or too deep or too large."""
        depth = self.random.choice((10, 1000, 50_000))
        bodies = (
            "{",
            "[" * depth + "]" * depth,
            '{"subject": ' * 500,
            "\xff\xfe",
            "null",
            "1e999",
            '{"top": NaN}',
            "x" * self.random.choice((10, 10**6, 3 * 10**6)),
        )
        return post(self.random.choice(QUESTIONS), self.random.choice(bodies))

    def _lookup(self) -> bytes:
        """Look-ups with odd parameters."""
        names = ("query", "entity", "time", "limit", "run", "q")
        values = ("%00", "%ff", "-1", "9" * 40, "a%20" * 300, "../../etc/passwd")
        pairs = "&".join(
            f"{self.random.choice(names)}={self.random.choice(values)}"
            for _ in range(self.random.randrange(4))
        )
        return http("GET", f"/api/v1/{self.random.choice(LOOKUPS)}?{pairs}")

    def _odd_http(self) -> bytes:
        """Requests that are hardly HTTP."""
        return self.random.choice(
            (
                http("DELETE", "/api/v1/complete"),
                http("GET", "/" + "a/" * 2000),
                http("GET", "/static/../../pyproject.toml"),
                http("POST", "/api/v1/complete", "content-length: 5\r\ncontent-length: 7\r\n"),
                http("POST", "/api/v1/complete", "content-length: -1\r\n"),
                http("POST", "/api/v1/complete", "transfer-encoding: chunked\r\n") + b"zz\r\n",
                http("GET", "/health", f"x-long: {'a' * 70_000}\r\n"),
                http("GET", "/health", "host: a\r\n"),
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100) + b"\r\n\r\n",
                b"GET\r\n\r\n",
                post("complete", '{"subject": "cut') + CUT,
            )
        )


CUT: Final = b"\x00cut"
"""After these bytes the client leaves without reading the answer."""


def http(method: str, path: str, headers: str = "") -> bytes:
    """A request without a body."""
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    return f"{head}{headers}\r\n".encode()


def post(path: str, body: str) -> bytes:
    """A request with a body of JSON, or not."""
    data = body.encode("utf-8", "surrogatepass")
    headers = f"content-type: application/json\r\ncontent-length: {len(data)}\r\n"
    return http("POST", f"/api/v1/{path}", headers) + data


def resident_mib(process: int) -> float:
    """The memory of a process, 0 if the system does not report it."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    main()
