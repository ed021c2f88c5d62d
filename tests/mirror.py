"""A local server of made-up files, one that works and fails in every way on request."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[["Handler", bytes], None]


class Handler(BaseHTTPRequestHandler):
    """Answers with the next fault set for the path, and with the file once there is none."""

    server: Mirror

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        faults = self.server.faults.get(self.path, [])
        answer = faults.pop(0) if faults else whole
        answer(self, self.server.files[self.path])

    def log_message(self, *args: object) -> None:
        """Keep the test output clean."""


class Mirror(ThreadingHTTPServer):
    """A server of made-up benchmark files that fails on request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[Answer]] = {}
        self.requests: list[str] = []
        self.closing = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def serve(self, name: str, texts: dict[str, bytes]) -> None:
        self.files.update({f"/{name}/{file}": text for file, text in texts.items()})


def whole(handler: Handler, body: bytes) -> None:
    send_head(handler, len(body))
    handler.wfile.write(body)


def without_length(handler: Handler, body: bytes) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(body)


def status(code: int) -> Answer:
    return lambda handler, body: handler.send_error(code)


def truncated(handler: Handler, body: bytes) -> None:
    send_head(handler, len(body))
    handler.wfile.write(body[:5])


def reset(handler: Handler, body: bytes) -> None:
    truncated(handler, body)
    drop(handler)


def no_answer(handler: Handler, body: bytes) -> None:
    drop(handler)


def cut_in_chunk(handler: Handler, body: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"%x\r\n%s" % (len(body), body[:5]))


def wrong_bytes(handler: Handler, body: bytes) -> None:
    whole(handler, body[:-2] + b"9\n")


def hanging(handler: Handler, body: bytes) -> None:
    handler.server.closing.wait()


def hanging_in_body(handler: Handler, body: bytes) -> None:
    truncated(handler, body)
    handler.server.closing.wait()


def send_head(handler: Handler, length: int, code: int = 200) -> None:
    handler.send_response(code)
    handler.send_header("Content-Length", str(length))
    handler.end_headers()


def drop(handler: Handler) -> None:
    """Close at once with a reset, which is what a client sees of a machine that dies."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    socket.close(handler.connection.detach())
