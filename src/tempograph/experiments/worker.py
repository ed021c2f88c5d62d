"""The process of one run: it reads a spec from standard input and writes reports to its output."""

from __future__ import annotations

import _thread
import dataclasses
import json
import os
import shutil
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from tempograph.data.catalog import load_with_options
from tempograph.data.graph import TemporalGraph
from tempograph.device import resolve_device
from tempograph.errors import TempographError
from tempograph.evaluation.interval_evaluation import has_known_intervals
from tempograph.experiments.run_audit import audit
from tempograph.experiments.specs import RunSpec
from tempograph.io import atomic_file
from tempograph.training.run_evaluation import evaluate
from tempograph.training.run_folder import HEADS, RUN_MARKER, read_config, read_results
from tempograph.training.runs import Run
from tempograph.training.setup import valid_metrics
from tempograph.training.trainer import resume, train
from tempograph.typing import HEAD_ASKED, MetricsCallback, Split


def main() -> None:
    """Train and test the run whose spec is the first line of standard input."""
    # Only messages reach the parent: what others print goes to the log.
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=channel, flush=True)

    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    spec = read_spec(sys.stdin.readline())
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    time_is_up = _interrupt_after(spec.stop_seconds)
    try:
        train_and_test(spec, send)
    except KeyboardInterrupt:
        sys.exit(0 if time_is_up.is_set() else 130)
    except Exception as error:
        traceback.print_exc()
        reason = next(iter(str(error).splitlines()), "")
        if not isinstance(error, TempographError):
            reason = f"{type(error).__name__}: {reason}; see {log_file(spec)}"
        send({"failed": reason})
        sys.exit(1)


def read_spec(line: str) -> RunSpec:
    """The run that a line of JSON describes."""
    values = json.loads(line)
    paths = {"folder": Path(values["folder"]), "overrides": tuple(values["overrides"])}
    return RunSpec(**values | paths)


def write_spec(spec: RunSpec) -> str:
    """The line of JSON that `read_spec` reads."""
    return json.dumps(dataclasses.asdict(spec), default=str) + "\n"


def _stop_with_parent() -> None:
    # Not sys.stdin: a buffer that a thread waits on cannot be closed when the process ends.
    os.read(sys.stdin.fileno(), 1)
    _thread.interrupt_main()


def _interrupt_after(seconds: float | None) -> threading.Event:
    """Interrupt the main thread after some seconds; the event says that this is why."""
    time_is_up = threading.Event()

    def stop() -> None:
        time_is_up.set()
        _thread.interrupt_main()

    if seconds is not None:
        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
    return time_is_up


def log_file(spec: RunSpec) -> Path:
    """Return the file for errors of the process; it is kept only if the run fails."""
    return spec.folder.with_name(f"{spec.folder.name}.log")


def train_and_test(spec: RunSpec, report: MetricsCallback) -> Run:
    """Train or resume a run; once it is finished, rank the splits that are not ranked yet.

    Entities, relations and times are ranked; a forecaster ranks entities under both protocols. The
    figures are audited if the spec says so. With `valid_only`, nothing but the entities of valid is
    ever ranked.
    """
    run = _train(spec, report)
    if spec.valid_only:
        _report_valid(run, report)
        return run
    if not run.results.finished:
        return run
    splits = measured_splits(run.graph)
    for split in splits:
        if run.results.evaluation(split) is None:
            evaluate(run, split, progress=False)
    forecasts = run.timeline.past_only
    for split in splits if forecasts else ():
        if split not in run.results.multi_step:
            evaluate(run, split, protocol="forecast-multi", progress=False)
    if run.graph.has_intervals:
        for split in splits:
            if run.config.protocol != "paper" and split not in run.results.paper:
                evaluate(run, split, protocol="paper", progress=False)
            if split not in run.results.intervals and has_known_intervals(run.graph, split):
                evaluate(run, split, ask="time", progress=False)
    for asked in () if forecasts or run.graph.has_intervals else HEAD_ASKED:
        for split in splits:
            if split not in run.results.questions(asked):
                _copy_heads(run, spec.folder)
                evaluate(run, split, ask=asked, progress=False)
    if spec.audit and run.results.audit is None:
        run.results.audit = audit(spec.folder, device=spec.device, progress=False)
    return run


def measured_splits(graph: TemporalGraph) -> list[Split]:
    """Return the splits that a finished run is measured on: valid and test, if they have facts."""
    splits: tuple[Split, ...] = ("valid", "test")
    return [split for split in splits if len(graph.facts(split))]


def _report_valid(run: Run, report: MetricsCallback) -> None:
    """Report the valid MRR of a run that time stopped before its first validation."""
    if run.results.valid is None and not any("valid/mrr" in line for line in run.history):
        metrics = valid_metrics(run.graph, run.config.protocol, None, run.model)
        report({"epoch": len(run.history), "valid/mrr": metrics["mrr"]})


def _copy_heads(run: Run, folder: Path) -> None:
    """Take over the heads of a run beside this one, if it has the same data and seed.

    They depend on nothing else, so the models of a comparison share them.
    """
    if run.questions.has_heads:
        return
    for other in sorted(folder.parent.glob(f"[!.]*/{HEADS}")):
        config = read_config(other.parent)
        if (config.dataset, config.seed) == (run.config.dataset, run.config.seed):
            with atomic_file(folder / HEADS) as temporary:
                shutil.copy(other, temporary)
            return


def _train(spec: RunSpec, report: MetricsCallback) -> Run:
    exists = (spec.folder / RUN_MARKER).is_file()
    if exists and read_results(spec.folder).finished:
        return Run.load(spec.folder, resolve_device(spec.device))
    if exists:
        return resume(
            spec.folder,
            device=spec.device,
            max_seconds=spec.max_seconds,
            report=report,
            progress=False,
        )
    graph, options = load_with_options(spec.source)
    return train(
        dataclasses.replace(graph, name=spec.dataset),
        spec.model,
        options=options,
        out=spec.folder,
        protocol=spec.protocol,
        preset=spec.preset,
        seed=spec.seed,
        overrides=spec.overrides,
        device=spec.device,
        max_seconds=spec.max_seconds,
        report=report,
        progress=False,
        finished_runs=spec.folder.parent,
    )
