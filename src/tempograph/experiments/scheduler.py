"""Runs in processes of their own, several at once: one that fails, or is killed for memory, takes no other with it."""

from __future__ import annotations

import _thread
import dataclasses
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tempograph.device import resolve_device
from tempograph.errors import TempographError
from tempograph.training.run_folder import RUN_MARKER, read_results
from tempograph.training.runs import Run
from tempograph.training.trainer import evaluate, resume, train
from tempograph.typing import MetricsCallback, Protocol, Split

_PROGRAM: Final = (
    "import sys; sys.path[:] = {path!r}; from tempograph.experiments.scheduler import main; main()"
)
_PATIENCE: Final = 30
"""Seconds that a process has to end by itself."""


@dataclass(frozen=True)
class Job:
    """A run to bring to its end: what `train` takes, and the run folder."""

    folder: Path
    dataset: str
    model: str
    seed: int
    protocol: Protocol
    preset: str | None
    overrides: tuple[str, ...]
    device: str
    max_seconds: float | None


Event = Literal["started", "report", "ended", "failed"]
Hear = Callable[[Job, Event, dict[str, Any]], None]
"""Told of each event: with `report` comes a line of metrics.jsonl, with `failed` the reason."""


def run_jobs(jobs: Mapping[Job, Collection[Job]], at_once: int, hear: Hear) -> None:
    """Bring every job to its end, none before those that it names; whatever ends this ends what it started."""
    waiting, running = list(jobs), dict[Job, subprocess.Popen[str]]()
    said: queue.SimpleQueue[tuple[Job, dict[str, Any] | None]] = queue.SimpleQueue()
    reasons: dict[Job, str] = {}

    def start() -> None:
        for job in list(waiting):
            if len(running) >= at_once:
                break
            if any(other in running or other in waiting for other in jobs[job]):
                continue
            waiting.remove(job)
            running[job] = process = _start(job, at_once)
            threading.Thread(target=_listen, args=(job, process, said), daemon=True).start()
            hear(job, "started", {})

    try:
        start()
        while running:
            job, message = said.get()
            if message is None:
                with running.pop(job) as process:
                    code = process.wait()
                if code == 0:
                    _log(job).unlink(missing_ok=True)
                    hear(job, "ended", {})
                else:
                    hear(
                        job,
                        "failed",
                        {"reason": reasons.get(job) or f"{_reason(code)}; see {_log(job)}"},
                    )
                start()
            elif "failed" in message:
                reasons[job] = message["failed"]
            else:
                hear(job, "report", message)
    finally:
        _stop(running)


def _start(job: Job, at_once: int) -> subprocess.Popen[str]:
    environment = dict(os.environ)
    if at_once > 1:
        # Processes that each take every core mostly wait for one another.
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // at_once)))
    with _log(job).open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            # Ctrl-C in a terminal reaches a whole session; it is for the parent to hear and to hand on.
            start_new_session=True,
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(dataclasses.asdict(job), default=str) + "\n")
    process.stdin.flush()
    return process


def _listen(job: Job, process: subprocess.Popen[str], said: queue.SimpleQueue[Any]) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            # Whatever Python itself says as it starts is none of our messages.
            if line.startswith("{"):
                said.put((job, json.loads(line)))
    said.put((job, None))


def _stop(running: Mapping[Job, subprocess.Popen[str]]) -> None:
    """A process whose standard input ends closes its files and ends too; the time it has for that is limited."""
    for process in running.values():
        assert process.stdin is not None
        process.stdin.close()
    for job, process in running.items():
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _log(job).unlink(missing_ok=True)


def _reason(code: int) -> str:
    if code == -signal.SIGKILL:
        return "killed from outside, as the system does when memory runs out"
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


def _log(job: Job) -> Path:
    """Where a process writes what goes wrong; kept only when something does."""
    return job.folder.with_name(f"{job.folder.name}.log")


def main() -> None:
    """In the process of a job: read it from standard input, write what is to be told to standard output."""
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=channel, flush=True)

    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    values = json.loads(sys.stdin.readline())
    job = Job(
        **values | {"folder": Path(values["folder"]), "overrides": tuple(values["overrides"])}
    )
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(job, tell)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        traceback.print_exc()
        first = next(iter(str(error).splitlines()), "")
        expected = isinstance(error, TempographError)
        tell({"failed": first if expected else f"{type(error).__name__}: {first}; see {_log(job)}"})
        sys.exit(1)


def _end_with_parent() -> None:
    # Not sys.stdin: a buffer that a thread waits on cannot be closed when the process ends.
    os.read(sys.stdin.fileno(), 1)
    _thread.interrupt_main()


def work(job: Job, report: MetricsCallback) -> Run:
    """Train, or go on training; when that has come to its end rank valid, if need be, and test, once."""
    run = _trained(job, report)
    splits: tuple[Split, ...] = ("valid", "test")
    for split in splits:
        if (
            run.results.finished
            and run.results.evaluation(split) is None
            and len(run.graph.facts(split))
        ):
            evaluate(run, split)
    return run


def _trained(job: Job, report: MetricsCallback) -> Run:
    begun = (job.folder / RUN_MARKER).is_file()
    if begun and read_results(job.folder).finished:
        return Run.load(job.folder, resolve_device(job.device))
    if begun:
        return resume(job.folder, device=job.device, max_seconds=job.max_seconds, report=report)
    return train(
        job.dataset,
        job.model,
        out=job.folder,
        protocol=job.protocol,
        preset=job.preset,
        seed=job.seed,
        overrides=job.overrides,
        device=job.device,
        max_seconds=job.max_seconds,
        report=report,
        finished_runs=job.folder.parent,
    )
