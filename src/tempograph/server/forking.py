"""Processes that share the memory of the one that starts them, and signals to wait for."""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Final

_HANDLED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


def fork(main: Callable[[], None]) -> int:
    """Run a function in a child of this process, which ends with it; return the process id.

    Memory is shared until one of the two writes to it. The child has none of the threads of this
    process, and handles signals as a new process does, except for SIGHUP, which it ignores.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # A signal to the child must not reach the pipe of its parent.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return child
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in _HANDLED:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        main()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        # Leave out what the parent has registered for its own exit.
        os._exit(status)


class SignalPipe:
    """Signals that a process can wait for together with messages."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._previous = {number: signal.signal(number, _ignore) for number in numbers}

    def fileno(self) -> int:
        """The file descriptor to wait on."""
        return self._reader.fileno()

    def receive(self) -> set[int]:
        """The signals that have arrived."""
        try:
            return set(self._reader.recv(4096))
        except BlockingIOError:
            return set()

    def close(self) -> None:
        """Handle signals as before."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._reader.close()
        self._writer.close()


def _ignore(*_: Any) -> None:
    """A handler of signals, which arrive in the pipe."""
