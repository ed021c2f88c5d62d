"""What every request passes first: who asks, how much, for how long; and what is told of it afterwards."""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tempograph.server.metrics import Metrics
from tempograph.server.problems import MEDIA_TYPE, Problem
from tempograph.server.service import Limits

Log = Callable[[Mapping[str, Any]], None]

_HEADERS: Final = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_OPEN: Final = re.compile(r"/|/health|/static/.*", re.DOTALL)
"""Paths that need no token: they hold nothing of any run."""
_OWN_NAMES: Final = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE)


class Gate:
    """An ASGI application around another: token, limits, headers, a log line and counts for each request.

    Without a token only requests that name this machine itself are answered: a page from elsewhere, open in a
    browser here, cannot ask under a name that it has made to lead here.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, token: str | None, log: Log
    ) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics
        self._token = token
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand on what is none."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, number, status, failure = time.perf_counter(), secrets.token_hex(8), 0, ""

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [*_HEADERS.items(), ("x-request-id", number)]
                message["headers"] = [
                    *message.get("headers", ()),
                    *((name.encode(), value.encode()) for name, value in own),
                ]
            await send(message)

        self._metrics.in_flight += 1
        try:
            problem = await self._answer(scope, receive, send_with_headers)
            if problem is not None and not status:
                await _send_problem(problem, send_with_headers)
        except Exception as error:
            failure = "".join(traceback.format_exception(error))
            if not status:
                sorry = "something went wrong here; the log of the service says what"
                await _send_problem(Problem(500, "failed", sorry), send_with_headers)
        finally:
            self._metrics.in_flight -= 1
            seconds = time.perf_counter() - begin
            route = getattr(scope.get("route"), "path", None) or (
                "/static" if 0 < status < 400 else "none"
            )
            self._metrics.request(route, status, seconds)
            self._log(
                {
                    "event": "request",
                    "id": number,
                    "client": (scope.get("client") or ("",))[0],
                    "method": scope["method"],
                    "path": scope["path"][:200],
                    "status": status,
                    "ms": round(1000 * seconds, 2),
                    **({"error": failure} if failure else {}),
                }
            )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Problem | None:
        """Let the application answer, or say what keeps it from that."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                self._admit(scope)
                body = await self._body(scope, receive)
                await self._app(scope, _replay(body, receive), send)
        except TimeoutError:
            return Problem(
                504, "too-slow", f"the request took more than {self._limits.seconds:g} s"
            )
        except Problem as problem:
            return problem
        return None

    def _admit(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if self._token is None:
            host = headers.get(b"host", b"").decode("latin-1")
            if not _OWN_NAMES.fullmatch(host):
                raise Problem(
                    421, "wrong-host", "this service answers to localhost only; see --host"
                )
        elif not _OPEN.fullmatch(scope["path"]):
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            if kind.lower() != b"bearer" or not hmac.compare_digest(
                given.strip(), self._token.encode()
            ):
                asked = {"WWW-Authenticate": 'Bearer realm="tempograph"'}
                raise Problem(
                    401,
                    "token",
                    "send the token of this service: Authorization: Bearer TOKEN",
                    headers=asked,
                )

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body; one that says or turns out to be too large is not read to its end."""
        length = dict(scope["headers"]).get(b"content-length", b"0")
        parts, size, more = [], int(length) if length.isdigit() else 0, True
        while more and size <= self._limits.body:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "unfinished", "the request ended before its body did")
            parts.append(message.get("body", b""))
            size = sum(map(len, parts))
            more = message.get("more_body", False)
        if size > self._limits.body:
            away = {"Connection": "close"}
            raise Problem(
                413, "too-large", f"a request has at most {self._limits.body:,} bytes", headers=away
            )
        return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once, then whatever else comes."""
    waiting = [body]

    async def replayed() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replayed


async def _send_problem(problem: Problem, send: Send) -> None:
    body = problem.body()
    own = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **problem.headers}
    headers = [(name.lower().encode(), value.encode()) for name, value in own.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
