"""Messages between the processes of a service."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final, Literal

_MAX_BYTES: Final = 2**16

Kind = Literal[
    "ready", "died", "failed", "drain", "drained", "stop", "reload", "reloaded", "not reloaded"
]


@dataclass(frozen=True)
class Message:
    """Something that one process tells another."""

    kind: Kind
    number: int = 0
    """A process id if it is ready, the worker that has died, or the request for a reload."""
    detail: str = ""
    """Why something failed."""


class Channel:
    """One end of a connection between two processes; messages arrive whole, or not at all."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end

    def fileno(self) -> int:
        """The file descriptor to wait on."""
        return self._end.fileno()

    def send(self, message: Message) -> None:
        """Send a message, unless nobody listens at the other end."""
        detail = message.detail[: _MAX_BYTES // 8]
        data = json.dumps(asdict(message) | {"detail": detail}).encode()
        with suppress(OSError):
            self._end.send(data)

    def receive(self) -> list[Message] | None:
        """The messages that have arrived; None if the other end is closed."""
        messages: list[Message] = []
        while True:
            try:
                data = self._end.recv(_MAX_BYTES)
            except BlockingIOError:
                return messages
            except ConnectionError:
                data = b""
            if not data:
                return messages or None
            messages.append(Message(**json.loads(data)))

    def close(self) -> None:
        """Close this end."""
        self._end.close()


def connected_channels() -> tuple[Channel, Channel]:
    """Two ends of a new connection."""
    # Datagrams would not tell that the other end is closed, and a stream has no messages.
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(first), Channel(second)
