"""Middleware for every request: token, limits, security headers, log and metrics."""

from __future__ import annotations

import asyncio
import hmac
import random
import re
import time
import traceback
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tempograph.server.event_log import EventLog
from tempograph.server.limits import Limits
from tempograph.server.metrics import Metrics
from tempograph.server.problems import Problem, internal_error, stopping

_HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
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
_UNLIMITED_PATHS: Final = {"/api/v1/admin/reload"}
"""Paths that may take as long as runs take to load."""
_SECONDS_UNWATCHED: Final = 0.2
"""How long a client that has left may go unnoticed."""
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
        self.closing = False
        """Whether each connection is closed after its next response."""

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
        start, request_id, status, failure = (
            time.perf_counter(),
            f"{random.getrandbits(64):016x}",
            0,
            "",
        )
        sent = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message["headers"], *_HEADERS, (b"x-request-id", request_id.encode())]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                if self.closing:
                    headers.append((b"connection", b"close"))
                message = {**message, "headers": headers}
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
            self._metrics.count_request(route, status, seconds)
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
                if scope["path"] in _UNLIMITED_PATHS:
                    limit.reschedule(None)
                await self._answer(scope, body, receive, send_and_extend)
        except TimeoutError:
            detail = f"the request took more than {self._limits.seconds:g} s"
            return Problem(504, "too-slow", detail)
        except Problem as problem:
            return problem
        return None

    async def _answer(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Let the application answer, and cancel that when the client leaves.

        Most answers take less time than it takes to watch for that, so watching starts later.
        """
        loop, answering, left = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
        watching: list[asyncio.Task[None]] = []
        unread = [body]

        async def wait_for_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            left.set()
            assert answering is not None
            answering.cancel()

        async def replayed() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            await left.wait()
            return {"type": "http.disconnect"}

        timer = loop.call_later(
            _SECONDS_UNWATCHED, lambda: watching.append(loop.create_task(wait_for_disconnect()))
        )
        try:
            await self._app(scope, replayed, send)
        except asyncio.CancelledError:
            if left.is_set() and answering is not None:
                answering.uncancel()
                raise _ClientLeft from None
            raise
        finally:
            timer.cancel()
            for task in watching:
                task.cancel()

    def _check_client(self, scope: Scope) -> None:
        headers, names = dict(scope["headers"]), [name for name, _ in scope["headers"]]
        for name in _SINGLE_HEADERS:
            if names.count(name) > 1:
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
        announced = int(length) if length.isdigit() else 0
        parts, size, more = [], 0, True
        while more and max(size, announced) <= limit:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "unfinished", "the request ended before its body did")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
        if max(size, announced) > limit:
            detail = f"a request to {scope['path'][:200]} may have at most {limit:,} bytes"
            raise Problem(413, "too-large", detail, headers={"Connection": "close"})
        return b"".join(parts)
