"""Does the service stay up under hostile requests? It is asked nonsense, in bulk, over loopback.

First, one question of each kind is asked, because what some of them need is fitted once and kept.
Then requests are drawn at random: broken JSON, wrong types, huge numbers, long and odd names, many
facts in a body, deep nesting, wrong methods, paths and headers, lines that are not HTTP,
connections that close early, and questions that are in order, a few of them as heavy as the limits
allow. Meanwhile another process asks for /health, and beside it a server that does nothing else:
how long that one takes is what the machine is to blame for. The program counts answers by status,
and exits with 1 if

- an answer has a status of 500 or more, except 503 and 504,
- 1% of the answers of /health took 100 ms or more,
- memory has grown by more than 32 MiB since the first tenth of the requests.

PYTHONPATH=src python benchmarks/serve_hostile.py --run runs/pointer --requests 100000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import torch
from hostile_requests import CUT, HostileRequests
from service_process import RunningService, running_service

from tempograph.cli.console import note, out, table
from tempograph.device import environment
from tempograph.io import write_json
from tempograph.training.run_folder import read_config, read_graph

TIMEOUT: Final = 60
PATIENCE: Final = 20
"""Seconds for a response that has begun."""
MAX_GROWTH: Final = 32
"""Mebibytes."""
MAX_HEALTH: Final = 0.1
"""Seconds."""
ALLOWED: Final = (503, 504)


def main() -> None:
    """Start a service, send requests, print what came back."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    requests = HostileRequests(
        read_graph(arguments.run, read_config(arguments.run).dataset), arguments.seed
    )
    with running_service([arguments.run], ["--max-seconds", "10"]) as service:
        note("asking one question of each kind")
        for request in requests.each_kind():
            while asyncio.run(takes_too_long(service.port, request)):
                note("something is still being fitted")
        attack = Attack(service, requests, arguments.requests, arguments.clients)
        watching = [sys.executable, str(Path(__file__).with_name("health_watch.py"))]
        with subprocess.Popen(
            [*watching, str(service.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as watcher:
            asyncio.run(attack.run())
            health = json.loads(watcher.communicate()[0])
        found = attack.summary(health) | {
            "alive": service.alive,
            "environment": environment(torch.device("cpu")),
        }
    rows = [[str(status), f"{count:,}"] for status, count in sorted(attack.statuses.items())]
    took = {name: f"{1000 * value:.0f} ms" for name, value in found["health"].items()}
    caption = (
        f"{arguments.requests:,} requests in {found['seconds']:.0f} s, load of the machine "
        f"{os.getloadavg()[0]:.1f}; {found['health_answers']:,} answers of /health: p50 "
        f"{took['p50']}, p99 {took['p99']}; of an idle server: p50 {took['idle_p50']}, p99 "
        f"{took['idle_p99']}; memory grew by {found['grown_mib']:.1f} MiB to "
        f"{found['mib']:.0f} MiB."
    )
    out.print(table("Answers to hostile requests", ["status", "answers"], rows))
    out.print(caption)
    if arguments.json is not None:
        write_json(arguments.json, found)
    sys.exit(not (found["alive"] and found["reached"]))


async def takes_too_long(port: int, request: bytes) -> bool:
    """Send a question and read the answer to its end; return whether it says 504."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    response = await reader.read()
    writer.close()
    return response.startswith(b"HTTP/1.1 504")


class Attack:
    """Clients that send random requests."""

    def __init__(
        self, service: RunningService, requests: HostileRequests, total: int, clients: int
    ) -> None:
        self.service, self.requests, self.clients = service, requests, clients
        self.left, self.total = total, total
        self.statuses: Counter[str] = Counter()
        self.memory: list[float] = []
        self.seconds = 0.0

    async def run(self) -> None:
        """Send all requests."""
        start = time.perf_counter()
        await asyncio.gather(*(self._send_all() for _ in range(self.clients)))
        self.seconds = time.perf_counter() - start
        self.memory.append(self.service.memory_bytes() / 2**20)

    def summary(self, health: dict[str, list[float]]) -> dict[str, Any]:
        """What was counted, and whether the targets are reached."""
        bad = sum(
            count
            for status, count in self.statuses.items()
            if status.isdigit() and int(status) >= 500 and int(status) not in ALLOWED
        )
        figures = {
            f"{prefix}{name}": sorted(health[server])[int(share * len(health[server]))]
            for server, prefix in (("service", ""), ("idle", "idle_"))
            for name, share in (("p50", 0.5), ("p99", 0.99))
        }
        grown = self.memory[-1] - self.memory[len(self.memory) // 10]
        return {
            "requests": self.total,
            "statuses": dict(self.statuses),
            "seconds": self.seconds,
            "health_answers": len(health["service"]),
            "health": figures | {"slowest": max(health["service"])},
            "grown_mib": grown,
            "mib": self.memory[-1],
            "memory_mib": self.memory,
            "reached": not bad and figures["p99"] < MAX_HEALTH and grown <= MAX_GROWTH,
        }

    async def _send_all(self) -> None:
        while self.left > 0:
            self.left -= 1
            if self.left % max(1, self.total // 100) == 0:
                self.memory.append(self.service.memory_bytes() / 2**20)
                done = self.total - self.left
                note(f"{done:,} of {self.total:,} requests, {self.memory[-1]:.0f} MiB")
            self.statuses[await self._exchange(self.requests.draw())] += 1

    async def _exchange(self, request: bytes) -> str:
        """Send bytes over a connection of their own; the status of the answer, or why none came."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.service.port)
        except OSError:
            return "refused"
        try:
            with suppress(ConnectionError):
                writer.write(request)
                await writer.drain()
            if request.endswith(CUT):
                return "closed early"
            line = await asyncio.wait_for(reader.readline(), TIMEOUT)
            found = re.match(rb"HTTP/1\.\d (\d+)", line)
            # A search may take longer; a client that leaves then is one more thing to survive.
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(), PATIENCE)
            return found[1].decode() if found else "no answer"
        except TimeoutError:
            return "timeout"
        except ConnectionError:
            return "closed"
        finally:
            writer.close()


if __name__ == "__main__":
    main()
