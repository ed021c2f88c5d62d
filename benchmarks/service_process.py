"""A service in processes of its own, of this checkout or of another, for programs that ask it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class RunningService:
    """The port of a service, and the process that started it."""

    port: int
    process: subprocess.Popen[str]

    @property
    def alive(self) -> bool:
        """Whether the service is up."""
        return self.process.poll() is None

    def processes(self) -> list[int]:
        """The ids of all of its processes."""
        found = [self.process.pid]
        for each in found:
            for file in Path(f"/proc/{each}/task").glob("*/children"):
                found += [int(child) for child in file.read_text().split()]
        return found

    def cpu_seconds(self) -> float:
        """Processor time that its processes have used."""
        ticks = 0
        for process in self.processes():
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / _TICKS

    def memory_bytes(self) -> int:
        """Memory of all of its processes; what they share counts once."""
        return sum(self._sizes("Pss"))

    def private_bytes(self) -> list[int]:
        """Memory of each process that it shares with no other, from the first to the last."""
        return self._sizes("Private_Dirty")

    def _sizes(self, kind: str) -> list[int]:
        sizes = []
        for process in self.processes():
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
            found = re.search(rf"{kind}:\s+(\d+) kB", text)
            sizes.append(1024 * int(found[1]) if found else 0)
        return sizes


@contextmanager
def running_service(
    runs: Sequence[Path], options: Sequence[str] = (), checkout: Path | None = None
) -> Iterator[RunningService]:
    """Start a service of a checkout, by default of this one, and stop it in the end."""
    command = [sys.executable, "-m", "tempograph", "serve", *map(str, runs), "--port", "0"]
    environment = dict(os.environ)
    if checkout is not None:
        environment["PYTHONPATH"] = str(checkout / "src")
    with subprocess.Popen(
        [*command, "--device", "cpu", *options], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        if not line.startswith("{"):
            raise SystemExit(line + process.stderr.read())
        # A full pipe would stop the service, so the rest of the log is read and dropped.
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        try:
            yield RunningService(int(json.loads(line)["url"].rpartition(":")[2]), process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            drain.wait(60)
