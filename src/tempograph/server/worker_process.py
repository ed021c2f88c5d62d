"""One of several processes that answer: it accepts connections until it is told to stop."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Mapping
from typing import Any, Final

from tempograph.server.event_log import EventLog
from tempograph.server.http_server import BACKLOG, HttpServer
from tempograph.server.problems import not_ready, reload_failed
from tempograph.server.process_messages import Channel, Message
from tempograph.server.service import Service
from tempograph.server.service_settings import ServiceSettings
from tempograph.server.worker_board import WorkerBoard

_REFRESH_SECONDS: Final = 1.0
"""How old the gauges of a worker are at most when another one reports them."""
_POLL_SECONDS: Final = 0.1


class SharedListener(socket.socket):
    """A socket from which several processes accept connections."""

    @classmethod
    def take(cls, listener: socket.socket) -> SharedListener:
        """The same socket as one of this class; the other object no longer owns it."""
        return cls(listener.family, listener.type, listener.proto, fileno=listener.detach())

    def listen(self, backlog: int = 0, /) -> None:
        """Listen with the queue of connections that belongs to all workers."""
        super().listen(BACKLOG)


class Worker:
    """Answers in its own process; `channel` leads to the supervisor, which can reload the runs."""

    def __init__(
        self,
        number: int,
        channel: Channel,
        service: Service,
        settings: ServiceSettings,
        board: WorkerBoard,
        log: EventLog,
    ) -> None:
        self._number = number
        self._channel = channel
        self._service = service
        self._board = board
        self._log_all = log
        self._requests = itertools.count()
        self._reloads: dict[int, asyncio.Future[None]] = {}
        self._draining: asyncio.Task[None] | None = None
        # A worker takes one connection at a time, so that the others have their share.
        self._server = HttpServer(service, settings, self._log, self._start, self, backlog=1)

    def run(self, listener: socket.socket) -> None:
        """Answer until the supervisor or a signal ends it."""
        self._server.run(sockets=[listener])

    def _start(self) -> None:
        """Listen to the supervisor, and tell it that this worker answers."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._channel, self._receive)
        self._refresh()
        self._board.set(self._number, os.getpid())
        self._channel.send(Message("ready", os.getpid()))

    def _log(self, event: Mapping[str, Any]) -> None:
        self._log_all({**event, "worker": self._number})

    def _refresh(self) -> None:
        self._service.metrics.refresh()
        asyncio.get_running_loop().call_later(_REFRESH_SECONDS, self._refresh)

    def _receive(self) -> None:
        messages = self._channel.receive()
        if messages is None:
            # Without a supervisor, nobody would end or replace this worker.
            asyncio.get_running_loop().remove_reader(self._channel)
            messages = [Message("stop")]
        for message in messages:
            if message.kind == "stop":
                self._server.should_exit = True
            elif message.kind == "drain":
                self._draining = self._draining or asyncio.create_task(self._drain())
            elif message.number in self._reloads:
                waiting = self._reloads.pop(message.number)
                if message.kind == "reloaded":
                    waiting.set_result(None)
                else:
                    waiting.set_exception(reload_failed(message.detail))

    async def _drain(self) -> None:
        """Leave new connections to the workers that take over, and stop with the last request."""
        self._server.stop_accepting()
        self._channel.send(Message("drained"))
        # A connection that was just accepted is not counted yet.
        await asyncio.sleep(_POLL_SECONDS)
        while self._server.has_connections:
            await asyncio.sleep(_POLL_SECONDS)
        self._server.should_exit = True

    def check_ready(self) -> None:
        """Raise a problem unless all workers answer and this one can take another request."""
        if not all(self._board.processes):
            raise not_ready("a worker is not ready")
        self._service.check_ready()

    async def reload(self, name: str | None = None) -> list[str]:
        """Let the supervisor start workers with runs that are loaded again; return their names."""
        self._service.run(name)
        number = next(self._requests)
        waiting = self._reloads[number] = asyncio.get_running_loop().create_future()
        self._channel.send(Message("reload", number))
        try:
            await waiting
        finally:
            self._reloads.pop(number, None)
        return list(self._service.runs)
