"""Train runs in processes of their own: one that fails or is killed does not affect the others."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tempograph.data.graph import TemporalGraph
from tempograph.device import resolve_device
from tempograph.experiments.slurm import SlurmArray
from tempograph.experiments.specs import RunSpec
from tempograph.experiments.status import Notify, RunStatus, Watch
from tempograph.experiments.worker import log_file, measured_splits, write_spec
from tempograph.training.setup import part_configs

_PROGRAM: Final = (
    "import sys; sys.path[:] = {path!r}; from tempograph.experiments.worker import main; main()"
)
_GRACE_SECONDS: Final = 30
"""How long a process that is stopped may take to close its files."""

Messages = queue.SimpleQueue[tuple[RunStatus, dict[str, Any] | None]]
"""What the processes report; None when a process has closed its output."""


def train_missing(
    specs: Sequence[RunSpec],
    graph: TemporalGraph,
    jobs: int,
    notify: Notify | None = None,
    watch: Watch | None = None,
    on_finished: Callable[[RunStatus], None] | None = None,
    slurm: SlurmArray | None = None,
) -> list[RunStatus]:
    """Train the runs that are not finished, rank test once with each, and return all statuses.

    An ensemble waits for those of its parts that are among the runs, and takes them over.
    `on_finished` is called with each run as soon as it is finished. With `slurm`, the runs are
    submitted and not waited for: they are unfinished until a later call finds their results.
    """
    runs = [initial_status(spec, graph) for spec in specs]
    done = sum(run.state == "finished" for run in runs)
    if notify is not None and done:
        notify(f"{done} of {len(runs)} runs are already finished")

    def on_change(run: RunStatus) -> None:
        if run.state == "finished" and on_finished is not None:
            on_finished(run)
        if watch is not None:
            watch(runs, run)

    waiting = [run for run in runs if run.state == "waiting"]
    dependencies = _dependencies(specs, graph)
    if slurm is None:
        run_processes(waiting, dependencies, jobs, on_change)
    elif waiting:
        folder = waiting[0].spec.folder.parent
        numbers = ", ".join(slurm.submit([run.spec for run in waiting], dependencies, folder))
        for run in waiting:
            run.state = "unfinished"
            run.reason = f"submitted to Slurm, job {numbers}; repeat the command when it has ended"
        if notify is not None:
            notify(f"submitted {len(waiting)} runs to Slurm, job {numbers}; see {folder / 'slurm'}")
    return runs


def initial_status(spec: RunSpec, graph: TemporalGraph) -> RunStatus:
    """Return `finished` for a run that is trained and measured in its folder, else `waiting`.

    A run that was stopped after its entities were ranked waits: relations and times are missing.
    """
    results = spec.read_results(graph)
    if (
        results is None
        or not results.finished
        or results.test is None
        or not results.is_measured(measured_splits(graph))
    ):
        return RunStatus(spec)
    return RunStatus(spec, "finished", results, seconds=results.train_seconds)


def _dependencies(specs: Sequence[RunSpec], graph: TemporalGraph) -> dict[RunSpec, set[RunSpec]]:
    """Map each run to the runs that are its parts."""
    configs = {spec: spec.config(graph) for spec in specs}
    dependencies = {}
    for spec, config in configs.items():
        parts = [part.flat() for part in part_configs(config, graph, resolve_device(spec.device))]
        dependencies[spec] = {other for other in specs if configs[other].flat() in parts}
    return dependencies


def run_processes(
    runs: Sequence[RunStatus],
    dependencies: Mapping[RunSpec, set[RunSpec]],
    jobs: int,
    on_change: Callable[[RunStatus], None],
) -> None:
    """Run everything to completion, `jobs` at a time; each run waits for its parts.

    The processes are stopped however this function exits, including on an interrupt.
    """
    waiting, running = {run.spec: run for run in runs}, dict[RunSpec, subprocess.Popen[str]]()
    messages: Messages = queue.SimpleQueue()
    reasons: dict[RunSpec, str] = {}

    def start_waiting() -> None:
        for spec, run in list(waiting.items()):
            if len(running) < jobs and not dependencies[spec] & (waiting.keys() | running.keys()):
                del waiting[spec]
                running[spec] = process = _start_process(spec, jobs)
                arguments = (run, process, messages)
                threading.Thread(target=_read_messages, args=arguments, daemon=True).start()
                run.start()
                on_change(run)

    try:
        start_waiting()
        while running:
            run, message = messages.get()
            if message is None:
                with running.pop(run.spec) as process:
                    code = process.wait()
                log = log_file(run.spec)
                if code == 0:
                    log.unlink(missing_ok=True)
                    run.end()
                else:
                    run.end(reasons.get(run.spec) or f"{_exit_reason(code)}; see {log}")
                on_change(run)
                start_waiting()
            elif "failed" in message:
                reasons[run.spec] = message["failed"]
            else:
                run.report(message)
                on_change(run)
    finally:
        _stop_processes(running)


def _start_process(spec: RunSpec, jobs: int) -> subprocess.Popen[str]:
    environment = dict(os.environ)
    if jobs > 1:
        # Processes that each take every core mostly wait for one another.
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
    with log_file(spec).open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            # Ctrl-C in a terminal reaches a whole session; the parent handles it and passes it on.
            start_new_session=True,
        )
    assert process.stdin is not None
    process.stdin.write(write_spec(spec))
    process.stdin.flush()
    return process


def _read_messages(run: RunStatus, process: subprocess.Popen[str], messages: Messages) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            # Python itself may print something when it starts.
            if line.startswith("{"):
                messages.put((run, json.loads(line)))
    messages.put((run, None))


def _stop_processes(running: Mapping[RunSpec, subprocess.Popen[str]]) -> None:
    """Close the standard input of each process, which ends it; kill those that take too long."""
    for process in running.values():
        assert process.stdin is not None
        process.stdin.close()
    for spec, process in running.items():
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log_file(spec).unlink(missing_ok=True)


def _exit_reason(code: int) -> str:
    if code == -signal.SIGKILL:
        return "killed by the system, probably because memory ran out"
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
