"""Middleware for every request: token, limits, security headers, log and metrics."""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import time
import traceback
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tempograph.server.event_log import EventLog
from tempograph.server.limits import Limits
from tempograph.server.metrics import Metrics
from tempograph.server.problems import Problem, internal_error, stopping

_HEADERS: Final = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_PUBLIC_PATHS: Final = re.compile(r"/|/health(/live|/ready)?|/static/.*", re.DOTALL)
"""Paths that need no token: they contain nothing of any run."""
_LOCAL_HOSTS: Final = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE)

_SINGLE_HEADERS: Final = (b"host", b"authorization", b"content-type", b"content-length")
"""Headers that two readers could take two ways if they were repeated."""
_LARGE_BODIES: Final = {
    "/api/v1/score",
    "/api/v1/complete/batch",
    "/api/v1/missing",
    "/api/v1/what-if",
}
_SMALL_BODY: Final = 2**16
"""Bytes for other paths: four names of the longest length, each character an escaped pair."""
_CLIENT_LEFT: Final = 499
"""The status in the log of a request that has no response, because its client has left."""


class _ClientLeft(Exception):  # noqa: N818
    """The client closed the connection before it had its response."""


class AdmissionMiddleware:
    """Checks token and limits, adds headers, and logs and counts every request.

    Without a token it only answers requests addressed to a local host name. This prevents DNS
    rebinding: a foreign web page cannot reach the service through a name that resolves to it.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, token: str | None, log: EventLog
    ) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics
        self._token = token
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; pass on other ASGI scopes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        if method == "HEAD":
            # The application answers as to GET, and the body is left out.
            scope = dict(scope, method="GET")
        scope.setdefault("state", {})
        start, request_id, status, failure = time.perf_counter(), secrets.token_hex(8), 0, ""
        sent = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS | {"x-request-id": request_id})
                headers.setdefault("cache-control", "no-store")
            elif method == "HEAD" and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            sent += len(message.get("body", b""))
            await send(message)

        try:
            with self._metrics.in_flight.track_inprogress():
                problem = await self._respond(scope, receive, send_with_headers)
                if problem is not None and not status:
                    await problem.response()(scope, receive, send_with_headers)
        except _ClientLeft:
            status = status or _CLIENT_LEFT
        except asyncio.CancelledError:
            # The time for open requests is over, and the server ends those that are left.
            if not status:
                await stopping().response()(scope, receive, send_with_headers)
        except Exception as error:
            failure = "".join(traceback.format_exception(error))
            if not status:
                await internal_error().response()(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - start
            route = getattr(scope.get("route"), "path", None) or (
                "/static" if 0 < status < 400 else "none"
            )
            self._metrics.requests.labels(route, status).inc()
            self._metrics.request_seconds.labels(route).observe(seconds)
            event = {
                "event": "request",
                "id": request_id,
                "client": (scope.get("client") or ("",))[0],
                "method": method,
                "path": scope["path"][:200],
                "status": status,
                "ms": round(1000 * seconds, 2),
                "run": scope["state"].get("run"),
                "received": scope["state"].get("received", 0),
                "sent": sent,
            }
            self._log(event | ({"error": failure} if failure else {}))

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> Problem | None:
        """Let the application respond, or return the problem that prevents it."""
        try:
            async with asyncio.timeout(self._limits.seconds) as limit:

                async def send_and_extend(message: Message) -> None:
                    await send(message)
                    if message.get("more_body"):
                        # A response in parts has the time again for each of them.
                        now = asyncio.get_running_loop().time()
                        limit.reschedule(now + self._limits.seconds)

                self._check_client(scope)
                body = await self._read_body(scope, receive)
                scope["state"]["received"] = len(body)
                await self._answer(scope, body, receive, send_and_extend)
        except TimeoutError:
            detail = f"the request took more than {self._limits.seconds:g} s"
            return Problem(504, "too-slow", detail)
        except Problem as problem:
            return problem
        return None

    async def _answer(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Let the application answer, and cancel that when the client leaves."""
        left = asyncio.create_task(_wait_for_disconnect(receive))

        async def replayed() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            await asyncio.shield(left)
            return {"type": "http.disconnect"}

        unread = [body]
        answered = asyncio.ensure_future(self._app(scope, replayed, send))
        try:
            await asyncio.wait({answered, left}, return_when=asyncio.FIRST_COMPLETED)
            if not answered.done():
                raise _ClientLeft
            answered.result()
        finally:
            left.cancel()
            answered.cancel()

    def _check_client(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        for name in _SINGLE_HEADERS:
            if sum(each == name for each, _ in scope["headers"]) > 1:
                detail = f"the header {name.decode().title()} is given more than once"
                raise Problem(400, "repeated-header", detail, headers={"Connection": "close"})
        if self._token is None:
            host = headers.get(b"host", b"").decode("latin-1")
            if not _LOCAL_HOSTS.fullmatch(host):
                detail = "this service only answers requests to localhost; see --host"
                raise Problem(421, "wrong-host", detail)
        elif not _PUBLIC_PATHS.fullmatch(scope["path"]):
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            matches = hmac.compare_digest(given.strip(), self._token.encode())
            if kind.lower() != b"bearer" or not matches:
                detail = "send the token of this service: Authorization: Bearer TOKEN"
                challenge = {"WWW-Authenticate": 'Bearer realm="tempograph"'}
                raise Problem(401, "token", detail, headers=challenge)

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body; reading stops as soon as it is known to be too large."""
        limit = self._limits.body
        if scope["path"] not in _LARGE_BODIES:
            limit = min(limit, _SMALL_BODY)
        length = dict(scope["headers"]).get(b"content-length", b"0")
        parts, size, more = [], int(length) if length.isdigit() else 0, True
        while more and size <= limit:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "unfinished", "the request ended before its body did")
            parts.append(message.get("body", b""))
            size = sum(map(len, parts))
            more = message.get("more_body", False)
        if size > limit:
            detail = f"a request to {scope['path'][:200]} may have at most {limit:,} bytes"
            raise Problem(413, "too-large", detail, headers={"Connection": "close"})
        return b"".join(parts)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
