"""Run the runs of an experiment as the tasks of a Slurm array, on any number of machines."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tempograph.errors import ConfigError, RunError
from tempograph.experiments.specs import RunSpec
from tempograph.experiments.worker import read_spec, train_and_test, write_spec
from tempograph.io import make_folder, write_text

_FOLDER: Final = "slurm"
"""The folder beside the runs with the scripts, the lists of runs and what the tasks print."""

_JOBS: Final = "jobs.txt"
"""The file with the numbers of the jobs that were submitted last."""


@dataclass(frozen=True)
class SlurmArray:
    """How to submit runs: options of sbatch, such as --partition=gpu --gpus=1."""

    options: str = ""
    max_tasks: int | None = None
    """The largest number of tasks that run at a time."""

    def submit(
        self, specs: Sequence[RunSpec], dependencies: Mapping[RunSpec, set[RunSpec]], folder: Path
    ) -> list[str]:
        """Submit an array for each level of dependencies; returns the numbers of the jobs.

        A run that combines others is in an array that waits for theirs.
        """
        make_folder(folder / _FOLDER)
        _refuse_running(folder / _FOLDER / _JOBS)
        jobs: list[str] = []
        for number, level in enumerate(_levels(specs, dependencies)):
            path = folder / _FOLDER / f"array-{number}"
            write_text(path.with_suffix(".jsonl"), "".join(map(write_spec, level)))
            write_text(path.with_suffix(".sh"), self._script(path, len(level), jobs))
            jobs.append(_sbatch(path.with_suffix(".sh")))
            write_text(folder / _FOLDER / _JOBS, ",".join(jobs) + "\n")
        return jobs

    def _script(self, path: Path, tasks: int, after: Sequence[str]) -> str:
        limit = "" if self.max_tasks is None else f"%{self.max_tasks}"
        # In names of files, a % begins a number of Slurm, and two of them are a sign.
        log = str(path.absolute()).replace("%", "%%")
        options = [f"--array=0-{tasks - 1}{limit}", f"--output={log}-%a.log"]
        options += [f"--dependency=afterany:{after[-1]}"] if after else []
        lines = [f"#SBATCH {_quote(each)}" for each in [*options, *shlex.split(self.options)]]
        runs = str(path.with_suffix(".jsonl").absolute())
        command = [sys.executable, "-m", "tempograph.experiments.slurm", runs]
        body = [f"cd {shlex.quote(str(Path.cwd()))}", shlex.join(command)]
        return "\n".join(["#!/bin/bash", *lines, *body]) + "\n"


def main() -> None:
    """Train and test the run of this task of the array."""
    runs = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    spec = read_spec(runs[int(os.environ["SLURM_ARRAY_TASK_ID"])])
    train_and_test(spec, lambda line: print(json.dumps(line), flush=True))


def _levels(
    specs: Iterable[RunSpec], dependencies: Mapping[RunSpec, set[RunSpec]]
) -> list[list[RunSpec]]:
    """The runs that depend on none of the others, then those that depend on these, and so on."""
    waiting, levels = list(specs), list[list[RunSpec]]()
    while waiting:
        later = {spec for spec in waiting if dependencies[spec] & {*waiting}}
        levels.append([spec for spec in waiting if spec not in later])
        waiting = [spec for spec in waiting if spec in later]
    return levels


def _quote(option: str) -> str:
    """An option for a line #SBATCH, in which quotes and backslashes are those of a shell."""
    if not re.search(r"[\\\s\"'#]", option):
        return option
    return '"' + re.sub(r'([\\"])', r"\\\1", option) + '"'


def _refuse_running(jobs: Path) -> None:
    """Raise if Slurm still runs, or is to run, what was submitted last."""
    if not jobs.is_file():
        return
    numbers = jobs.read_text(encoding="utf-8").strip()
    with suppress(FileNotFoundError):
        # It knows no job that ended some time ago, and says so on standard error.
        listed = ["squeue", "--noheader", f"--jobs={numbers}"]
        found = subprocess.run(listed, capture_output=True, text=True, check=False)
        if found.returncode == 0 and found.stdout.strip():
            raise RunError(
                f"{jobs.parent.parent}: Slurm has not ended job {numbers}; wait for it, or end it "
                f"with: scancel {numbers.replace(',', ' ')}"
            )


def _sbatch(script: Path) -> str:
    """Submit a script; returns the number of the job."""
    try:
        done = subprocess.run(
            ["sbatch", "--parsable", str(script)], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise ConfigError(
            "there is no sbatch here; use --slurm on a machine that submits to Slurm, or leave it "
            "out to train here"
        ) from None
    number = re.match(r"\d+", done.stdout)
    if done.returncode or number is None:
        reason = " ".join((done.stderr or done.stdout).split())
        raise RunError(f"{script}: sbatch refused it: {reason}; change the options of --slurm")
    return number[0]


if __name__ == "__main__":
    main()
