"""Questions over HTTP to runs on ICEWS14, in one run beside an earlier version of the service.

All services are started and warm before the first is measured. Then they are asked in turn, round
after round, so that whatever else the machine does meets all of them alike; figures are medians of
the rounds. Clients and services share the cores. The questions are both sides of the test facts in
random order, with ten answers each. Services are those of

- `--baseline CHECKOUT`, a checkout of the version to compare with,
- this checkout, with one worker and with `--workers 2`.

Then clients ask for 100 answers with evidence for each, again and again, and one client beside them
asks light questions: how long does it wait?

PYTHONPATH=src python benchmarks/serve_speed.py runs/temp-gru runs/pointer \\
    --baseline ../tempograph-before --json results/serve-speed.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import torch
from http_load import Latencies, ask, http_request, read_page
from service_process import RunningService, running_service
from speed_tables import serve_speed_table

from tempograph.cli.console import note, out
from tempograph.data.graph import TemporalGraph
from tempograph.device import environment
from tempograph.io import write_json
from tempograph.training.run_folder import read_config, read_graph

_TARGETS: Final = {"temp-gru": 2.0, "pointer": 3.0}
"""How many times as many questions a second as the baseline each model must answer."""
_HEAVY_CLIENTS: Final = 4


def main() -> None:
    """Start services, ask them in turn, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--baseline", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=4, help="of each service in a round")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--heavy", type=float, default=30, help="seconds of heavy questions")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = [result for run in arguments.runs for result in measure(run, arguments)]
    found = {
        "environment": environment(torch.device("cpu")),
        "clients": arguments.clients,
        "targets": _TARGETS,
        "results": results,
    }
    out.print(serve_speed_table(found).markdown())
    if arguments.json is not None:
        write_json(arguments.json, found)


def measure(run: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A result for each service of one run."""
    config = read_config(run)
    graph = read_graph(run, config.dataset)
    services = {"one worker": [], "two workers": ["--workers", "2"]}
    with ExitStack() as stack:
        asked: dict[str, Asked] = {}
        if arguments.baseline is not None:
            started = running_service([run], (), arguments.baseline)
            asked["before"] = Asked(stack.enter_context(started), graph)
        for name, options in services.items():
            asked[name] = Asked(stack.enter_context(running_service([run], options)), graph)
        for name, service in asked.items():
            note(f"{config.name}, {name}: warming up")
            service.warm_up()
        for number in range(arguments.rounds):
            note(f"{config.name}: round {number + 1} of {arguments.rounds}")
            for service in asked.values():
                service.ask(arguments.clients, arguments.seconds)
        for name, service in asked.items():
            note(f"{config.name}, {name}: heavy questions")
            service.ask_heavily(arguments.heavy)
        about = {"model": config.name, "dataset": config.dataset}
        return [about | {"service": name} | each.summary() for name, each in asked.items()]


class Asked:
    """A service, the questions for it, and what was measured."""

    def __init__(self, service: RunningService, graph: TemporalGraph) -> None:
        self.service = service
        api = "/api/v1" if b" 200 " in self._get("/api/v1/info")[:20] else "/api"
        bodies = test_questions(graph)
        self.light = [http_request("POST", f"{api}/complete", body(each, 10, 0)) for each in bodies]
        self.heavy = [
            http_request("POST", f"{api}/complete", body(each, 100, 100)) for each in bodies
        ]
        self.rounds: list[dict[str, float]] = []
        self.under_load, self.heavy_answers = Latencies(), Latencies()

    def _get(self, path: str) -> bytes:
        return asyncio.run(read_page(self.service.port, path))

    def warm_up(self) -> None:
        """Wait until the service uses no processor time, then ask some questions."""
        used = -1.0
        while self.service.cpu_seconds() - used > 0.05:
            used = self.service.cpu_seconds()
            time.sleep(1)
        asyncio.run(ask(self.service.port, self.light, 4, 2, Latencies()))

    def ask(self, clients: int, seconds: float) -> None:
        """Let clients ask light questions."""
        found, cpu, own = Latencies(), self.service.cpu_seconds(), time.process_time()
        busy, start = machine_seconds(), time.perf_counter()
        asyncio.run(ask(self.service.port, self.light, clients, seconds, found))
        taken, count = time.perf_counter() - start, len(found.seconds)
        cpu, own = self.service.cpu_seconds() - cpu, time.process_time() - own
        self.rounds.append(
            {
                "questions": count,
                "failed": found.failed,
                "per_second": count / taken,
                "p50": found.percentile(50),
                "p99": found.percentile(99),
                "cpu_seconds_per_question": cpu / count,
                "cores": cpu / taken,
                "cores_of_clients": own / taken,
                "cores_of_others": max(0.0, (machine_seconds() - busy - cpu - own) / taken),
            }
        )

    def ask_heavily(self, seconds: float) -> None:
        """Let one client ask light questions while others ask heavy ones."""

        async def both() -> None:
            await asyncio.gather(
                ask(self.service.port, self.heavy, _HEAVY_CLIENTS, seconds, self.heavy_answers),
                ask(self.service.port, self.light, 1, seconds, self.under_load),
            )

        asyncio.run(both())

    def summary(self) -> dict[str, Any]:
        """The medians of the rounds, and the wait under heavy load."""
        names = self.rounds[0]
        medians = {name: statistics.median(each[name] for each in self.rounds) for name in names}
        return {
            **medians,
            "failed": sum(each["failed"] for each in self.rounds),
            "memory_bytes": self.service.memory_bytes(),
            "private_bytes": self.service.private_bytes(),
            "heavy_answers": len(self.heavy_answers.seconds),
            "light_under_load": len(self.under_load.seconds),
            "light_p50": self.under_load.percentile(50),
            "light_p99": self.under_load.percentile(99),
            "rounds": self.rounds,
        }


def test_questions(graph: TemporalGraph) -> list[dict[str, str]]:
    """Both questions of every test fact, in random order."""
    questions = [
        {part: name for part, name in graph.describe(fact).items() if part != side}
        for fact in graph.test
        for side in ("object", "subject")
    ]
    random.Random(0).shuffle(questions)
    return questions


def body(question: dict[str, str], top: int, evidence: int) -> bytes:
    """The body of a request."""
    return json.dumps(question | {"top": top, "evidence": evidence}).encode()


def machine_seconds() -> float:
    """Processor time that all processes of the machine have used."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    busy = sum(map(int, fields)) - int(fields[3]) - int(fields[4])
    return busy / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
