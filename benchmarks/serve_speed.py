"""Queries over HTTP to a TeMP-GRU on ICEWS14, compared with servers without batching.

Without --run the weights are random. The queries are both sides of the test facts in random order.
Client and server share the cores of the machine, and every server is a process of its own: the
first is `tempograph serve` as it is, the others score one request at a time (--batch 1), with and
without a cache of encodings.

PYTHONPATH=src python benchmarks/serve_speed.py --run runs/temp-gru --json serve.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from tempograph.cli.console import err, out, table
from tempograph.data.catalog import load_dataset
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.device import environment, hardware
from tempograph.io import write_json
from tempograph.models.registry import model_kind
from tempograph.training.config import make_config
from tempograph.training.run_results import RunResults
from tempograph.training.runs import Run

SERVERS = {
    "gathered": [],
    "one at a time, encodings kept": ["--batch", "1", "--gather", "0"],
    "one at a time": ["--batch", "1", "--gather", "0", "--cache", "0"],
}
"""Options of each server."""


def main() -> None:
    """Start each server, query it, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, help="a trained run; by default an untrained one")
    parser.add_argument("--dataset", default="icews14")
    parser.add_argument("--preset", default="tuned")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--single", type=int, default=500, help="requests of the single client")
    parser.add_argument(
        "--seconds", type=float, default=20, help="how long all clients send queries"
    )
    parser.add_argument("--evidence", type=int, default=0, help="facts for each answer")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    graph = load_dataset(arguments.dataset)
    bodies = request_bodies(graph, arguments.evidence)
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run or Path(folder) / "run"
        if arguments.run is None:
            save_untrained(graph, arguments.preset, run)
        results = {}
        for way, options in SERVERS.items():
            err.print(f"{way} ...")
            results[way] = measure(run, options, bodies, arguments)
    show(results, arguments)
    if arguments.json is not None:
        found = {
            "environment": environment(torch.device("cpu")),
            "trained": arguments.run is not None,
            "load": os.getloadavg(),
            "results": results,
        }
        write_json(arguments.json, found)


def request_bodies(graph: TemporalGraph, evidence: int) -> list[bytes]:
    """Return both queries of every test fact as request bodies."""
    bodies = []
    for fact in graph.test:
        named = graph.describe(fact)
        for side in ("object", "subject"):
            given = {part: name for part, name in named.items() if part != side}
            bodies.append(json.dumps(given | {"top": 10, "evidence": evidence}).encode())
    random.Random(0).shuffle(bodies)
    return bodies


def save_untrained(graph: TemporalGraph, preset: str, path: Path) -> None:
    """Write a run folder with random weights."""
    torch.manual_seed(0)
    config = make_config("temp-gru", dataset=graph.name, preset=preset)
    timeline = Timeline(graph, config.protocol)
    model = model_kind(config.name).build(config.model, timeline)
    # Without valid facts the service fits no temperature: random weights have none.
    graph = replace(graph, valid=graph.valid[:0])
    results = RunResults(
        graph.name, config.name, config.protocol, config.seed, config.preset, config.settings()
    )
    Run(config, graph, model, timeline, [], results).save(path)


def measure(
    run: Path, options: Sequence[str], bodies: list[bytes], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Measure one server: its first answer, then one client, then many clients."""
    with server(run, options) as (port, process):
        first_query = Latencies()
        start = time.perf_counter()
        asyncio.run(ask(port, iter(bodies[:1]), first_query))
        first = time.perf_counter() - start
        warm = wait_until_warm(port, start)
        keeps = "--cache" not in options
        single = Latencies()
        asyncio.run(ask(port, iter(bodies[: arguments.single if keeps else 20]), single))
        many, stop = Latencies(), time.perf_counter() + arguments.seconds
        start = time.perf_counter()
        asyncio.run(ask_in_parallel(port, bodies, arguments.clients, many, stop))
        taken = time.perf_counter() - start
        return {
            "first_seconds": first,
            "warm_seconds": warm,
            "single": single.summary(),
            "clients": many.summary() | {"per_second": len(many.seconds) / taken},
            "peak_bytes": peak_bytes(process.pid),
        }


@contextmanager
def server(run: Path, options: Sequence[str]) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Start a server; yield its port and its process once it is ready."""
    command = [
        sys.executable,
        "-m",
        "tempograph",
        "serve",
        str(run),
        "--port",
        "0",
        "--max-seconds",
        "600",
        *options,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        if not line.startswith("{"):
            raise SystemExit(line + process.stderr.read())
        # A full pipe would stop the server, so the rest of the log is read and dropped.
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        yield int(json.loads(line)["url"].rpartition(":")[2]), process
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        drain.wait(60)


@dataclass
class Latencies:
    """The seconds of each request, and the number of failed ones."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    def summary(self) -> dict[str, float]:
        """Return the counts, the median and the 99th percentile."""
        cut = statistics.quantiles(self.seconds, n=100, method="inclusive")
        return {
            "requests": len(self.seconds),
            "failed": self.failed,
            "p50": cut[49],
            "p99": cut[98],
        }


async def ask(
    port: int, bodies: Iterator[bytes], latencies: Latencies, stop: float = float("inf")
) -> None:
    """Send queries over one connection, each after the answer to the one before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for body in bodies:
        if time.perf_counter() >= stop:
            break
        start = time.perf_counter()
        head = (
            f"POST /api/v1/complete HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
        )
        writer.write(head.encode() + b"content-type: application/json\r\n\r\n" + body)
        answered = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answered, re.IGNORECASE)
        await reader.readexactly(int(length[1]) if length else 0)
        latencies.seconds.append(time.perf_counter() - start)
        latencies.failed += not answered.startswith(b"HTTP/1.1 200 ")
    writer.close()


async def ask_in_parallel(
    port: int, bodies: list[bytes], clients: int, latencies: Latencies, stop: float
) -> None:
    """Let many clients send queries of their own until it is time to stop."""
    shares = (iter(bodies[number::clients]) for number in range(clients))
    await asyncio.gather(*(ask(port, share, latencies, stop) for share in shares))


def wait_until_warm(port: int, start: float) -> float:
    """Return the seconds until the cache of encodings stops growing."""
    size, since = -1, time.perf_counter()
    while time.perf_counter() - since < 5:
        now = asyncio.run(cached_bytes(port))
        if now != size:
            size, since = now, time.perf_counter()
        time.sleep(0.5)
    return since - start


async def cached_bytes(port: int) -> int:
    """Return the bytes of cached encodings."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    found = re.search(rb"tempograph_kept_bytes{.*} (\S+)", await reader.read())
    writer.close()
    return int(float(found[1])) if found else 0


def peak_bytes(process: int) -> int:
    """Return the peak memory of a process, or 0 if the system does not report it."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return 1024 * int(found[1]) if found else 0


def show(results: dict[str, dict[str, Any]], arguments: argparse.Namespace) -> None:
    """Print a row for each server, and the targets."""
    fast = results["gathered"]["clients"]["per_second"]
    rows = [
        [
            way,
            f"{found['first_seconds']:.2f}",
            f"{found['warm_seconds']:.0f}",
            f"{1000 * found['single']['p50']:.1f}",
            f"{1000 * found['single']['p99']:.1f}",
            f"{found['clients']['per_second']:.1f}",
            f"{fast / found['clients']['per_second']:.1f}",
            f"{1000 * found['clients']['p50']:.0f}",
            f"{1000 * found['clients']['p99']:.0f}",
            f"{found['clients']['failed'] + found['single']['failed']}",
            f"{found['peak_bytes'] / 2**20:,.0f}",
        ]
        for way, found in results.items()
    ]
    columns = [
        "server",
        "first s",
        "warm s",
        "p50 ms",
        "p99 ms",
        "1/s",
        "gathered is",
        "p50 ms",
        "p99 ms",
        "failed",
        "MiB",
    ]
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    caption = (
        f"{hardware(torch.device('cpu'))}, load {load}; one client, then {arguments.clients} for "
        f"{arguments.seconds:g} s; evidence {arguments.evidence}. Targets: p50 40 ms, p99 120 ms, "
        "150 a second, 5 times as fast as one at a time, 2,048 MiB."
    )
    out.print(table(f"{arguments.dataset} through HTTP", columns, rows, caption=caption))


if __name__ == "__main__":
    main()
