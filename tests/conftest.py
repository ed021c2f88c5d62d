"""Shared set-up: one thread, repeatable hypothesis, benchmark data if it is there."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

import forked
import tempograph.experiments.fit_stages
import tempograph.experiments.scheduler
import tempograph.progress
import tempograph.report.html
import tempograph.training.classifier_fit
import tempograph.training.head_fit
import tempograph.training.occurrence_fit
from tempograph import TemporalGraph
from tempograph.cli import main
from tempograph.data.folder import read_folder
from tempograph.experiments.status import RunStatus
from tempograph.experiments.worker import train_and_test
from tempograph.training.log_odds_fit import fit_log_odds

# Derandomised: a failure is about the change at hand, not about luck.
settings.register_profile(
    "tempograph",
    derandomize=True,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tempograph")
torch.set_num_threads(1)
# A parent that ignores ended children passes that on: exit codes of processes would be lost.
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
# Consoles read their width when they are made. Workers and the programs that tests start share the
# cores: each takes one thread, and threads that wait do not keep a core busy.
os.environ |= {
    "COLUMNS": "200",
    "TERM": "dumb",
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
}
if not torch.cuda.is_available() and importlib.util.find_spec("triton"):
    # Triton's interpreter runs kernels on CPU tensors if this is set when Triton is imported.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        importlib.import_module("triton")


@pytest.fixture
def triton_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run Triton kernels in the interpreter on a machine without a GPU."""
    if not torch.cuda.is_available():
        monkeypatch.setenv("TRITON_INTERPRET", "1")


def benchmark(name: str) -> TemporalGraph:
    """A published dataset, or a skip that says how to have it."""
    root = os.environ.get("TEMPOGRAPH_DATA")
    if root is None or not (Path(root) / name).is_dir():
        pytest.skip(f"needs {name} under $TEMPOGRAPH_DATA")
    return read_folder(Path(root) / name)


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Call:
    """Run a command in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("TEMPOGRAPH_DATA", raising=False)
    # What a command prints does not depend on how busy the machine is.
    monkeypatch.setattr(tempograph.progress, "_LINE_SECONDS", math.inf)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tempograph", *arguments])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            # Whoever leaves with words leaves with 1.
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def as_json(result: tuple[int, str, str]) -> dict[str, Any]:
    code, out, err = result
    assert code == 0 and err == "" and out.count("\n") == 1
    value: dict[str, Any] = json.loads(out)
    return value


@pytest.fixture(scope="session", autouse=True)
def forked_runs() -> Iterator[None]:
    """Processes in which runs are trained are forked; they need not import torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempograph.experiments.scheduler, "subprocess", forked)
        yield


@pytest.fixture(scope="module")
def short_fits() -> Iterator[None]:
    """Heads and classifiers are fitted in few steps, for tests that do not ask how good they are.

    A test must not share runs with tests that do.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempograph.training.head_fit, "_EPOCHS", 1)
        patch.setattr(tempograph.training.occurrence_fit, "_OPTIMIZER_STEPS", 50)
        patch.setattr(
            tempograph.training.classifier_fit, "fit_log_odds", partial(fit_log_odds, steps=60)
        )
        yield


@pytest.fixture
def no_drawings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages have empty pictures, for tests of fits; tests/report draws them."""
    monkeypatch.setattr(tempograph.report.html, "svg", lambda figure, name: "<svg></svg>")


@pytest.fixture
def no_trust_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits end before the trust report, which takes most of the time of a small one."""
    monkeypatch.setattr(
        tempograph.experiments.fit_stages._Finishing, "write_report", lambda _: True
    )


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that are trained, one after another in this process."""
    names: list[str] = []

    def run_here(
        runs: Iterable[RunStatus], _: object, jobs: int, on_change: Callable[[RunStatus], None]
    ) -> None:
        for run in runs:
            names.append(run.name)
            run.start()
            on_change(run)
            train_and_test(run.spec, run.report)
            run.end()
            on_change(run)

    monkeypatch.setattr(tempograph.experiments.scheduler, "run_processes", run_here)
    return names
