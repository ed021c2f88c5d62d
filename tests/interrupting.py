"""Interrupt an update at each of its steps on disk: python interrupting.py HOW RUN FACTS WORK.

The run is copied to WORK/N/run, and the update of the copy is interrupted at its Nth step: the
process is killed, or the step fails as on a full disk. One line of JSON says how many were. Every
update runs in a fork, so that the modules are imported once.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import tempograph
import tempograph.training.run_update

WRITING = ("os.rename", "os.mkdir")
STEPS = {"fail": WRITING, "kill": (*WRITING, "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree")}
"""The steps that may be interrupted, beside files that are opened; a full disk removes files."""


def interrupt(how: str, folder: Path, at: int) -> list[str]:
    """Interrupt this process at its step number `at` in a folder; returns the steps so far."""
    steps: list[str] = []

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE
        if (event in STEPS[how] or writes) and str(folder) in str(arguments[0]):
            steps.append(f"{event} {arguments[0]}")
            if len(steps) == at:
                if how == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(errno.ENOSPC, "No space left on device")

    sys.addaudithook(hook)
    return steps


def main(how: str, run: str, facts: str, work: str) -> None:
    """Interrupt updates until one comes to its end."""
    rows = json.loads(Path(facts).read_text())
    for at in range(1, 200):
        folder = Path(work) / str(at)
        shutil.copytree(run, folder / "run")
        child = os.fork()
        if not child:
            steps = interrupt(how, folder, at)
            try:
                tempograph.update(folder / "run", rows)
            except tempograph.StorageError as error:
                (Path(work) / f"{at}.txt").write_text(str(error))
                os._exit(2)
            # Some steps may fail: the lock is tried again, and old folders may stay.
            os._exit(1 if len(steps) >= at else 0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            print(json.dumps({"steps": at - 1}))
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
