"""Python programs in processes of their own that need not import torch again.

A server process imports torch and the package once and is forked for every program. Apart from
that, a program runs as if it had been started by `subprocess`, whose names this module has.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import DEVNULL, PIPE, CompletedProcess, TimeoutExpired
from types import GenericAlias
from typing import IO, Any, Self

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "lightning.fabric",
        "pandas",
        "tempograph.cli",
        "tempograph.experiments.autofit",
        "tempograph.report.run_report",
        "tempograph.server.launch",
    ]
)


class Popen:
    """The part of `subprocess.Popen` that tests use, for `python -c`, `-m` and `python FILE`."""

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | None = None,
        stdout: int | IO[str] | None = None,
        stderr: int | IO[str] | None = None,
        text: bool = True,
        start_new_session: bool = False,
    ) -> None:
        assert command[0] == sys.executable and text
        streams: dict[int, Connection] = {}
        self.stdin: IO[str] | None = None
        if stdin == PIPE:
            streams[0], write = _SERVER.Pipe(duplex=False)
            self.stdin = os.fdopen(os.dup(write.fileno()), "w")
            write.close()
        self.stdout, self.stderr = (
            self._output(number, target, streams) for number, target in ((1, stdout), (2, stderr))
        )
        folder, variables = Path.cwd() / (cwd or ""), dict(os.environ if env is None else env)
        self._process = _SERVER.Process(
            target=_run, args=(command[1:], folder, variables, streams, start_new_session)
        )
        self._process.start()
        for stream in streams.values():
            stream.close()
        self.pid, self.args = self._process.pid, command

    @staticmethod
    def _output(
        number: int, target: int | IO[str] | None, streams: dict[int, Connection]
    ) -> IO[str] | None:
        """Add the child's end of an output to `streams`; return ours if it is a pipe."""
        if target is None:
            return None
        if target == PIPE:
            read, streams[number] = _SERVER.Pipe(duplex=False)
            file = os.fdopen(os.dup(read.fileno()))
            read.close()
            return file
        if isinstance(target, int):
            assert target == DEVNULL
            descriptor = os.open(os.devnull, os.O_WRONLY)
        else:
            descriptor = os.dup(target.fileno())
        streams[number] = Connection(descriptor, readable=False)
        return None

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired(self.args, timeout or 0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both outputs to their ends."""
        if self.stdin is not None:
            self.stdin.close()
        with ThreadPoolExecutor(2) as pool:
            files = (self.stdout, self.stderr)
            read = [pool.submit(file.read if file is not None else str) for file in files]
            out, err = (each.result(timeout) for each in read)
        for file in files:
            if file is not None:
                file.close()
        self.wait(timeout)
        return out, err

    def send_signal(self, number: int) -> None:
        if self._process.exitcode is None:
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                file.close()
        self.wait()


def run(command: Sequence[str], **options: Any) -> CompletedProcess[str]:
    """The part of `subprocess.run` that tests use; both outputs are captured."""
    pipes = {"stdout": PIPE, "stderr": PIPE}
    with Popen(command, **pipes, **options) as process:
        out, err = process.communicate()
    return CompletedProcess(command, process.wait(), out, err)


def _run(
    arguments: Sequence[str],
    folder: Path,
    variables: dict[str, str],
    streams: dict[int, Connection],
    start_new_session: bool,
) -> None:
    """Be the program, in the child."""
    if start_new_session:
        os.setsid()
    for number, stream in streams.items():
        os.dup2(stream.fileno(), number)
        stream.close()
    if 0 in streams:
        sys.stdin = os.fdopen(0)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    # Background shells ignore SIGINT and pass that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind, *rest = arguments
    if kind == "-c":
        source, *rest = rest
        sys.argv, sys.path[0] = ["-c", *rest], ""
        exec(compile(source, "<string>", "exec"), {"__name__": "__main__"})
    elif kind == "-m":
        module, *rest = rest
        sys.argv, sys.path[0] = [module, *rest], ""
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(kind, run_name="__main__")
