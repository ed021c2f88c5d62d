"""Responses of JSON: encoded once, and large ones on another thread."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tempograph.server.lookup_threads import LookupThreads

MIN_COMPRESSED: Final = 2**13
"""Bytes of a response that take longer to send than to compress."""
COMPRESSION: Final = 5
MEDIA_TYPE: Final = "application/json"


def respond(value: Any) -> Response:
    """A small response."""
    return Response(encode(value), media_type=MEDIA_TYPE)


async def respond_large(
    request: Request, encoded: Callable[[], bytes], threads: LookupThreads
) -> Response:
    """A response that is encoded on another thread, and compressed if the client accepts that."""
    accepted = accepts_gzip(request.headers.get("accept-encoding", ""))

    def prepare() -> Response:
        body = encoded()
        if not accepted or len(body) < MIN_COMPRESSED:
            return Response(body, media_type=MEDIA_TYPE)
        headers = {"content-encoding": "gzip", "vary": "Accept-Encoding"}
        return Response(gzip.compress(body, COMPRESSION), headers=headers, media_type=MEDIA_TYPE)

    return await threads.run(prepare)


def accepts_gzip(accepted: str) -> bool:
    """Whether a header Accept-Encoding allows gzip: `gzip;q=0` does not."""
    for each in accepted.lower().split(","):
        coding, *parameters = (part.strip() for part in each.split(";"))
        if coding == "gzip":
            return not any(re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters)
    return False


class GzipForClients(GZipMiddleware):
    """Compresses responses for clients that accept gzip, and for no others."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or another ASGI scope."""
        if scope["type"] == "http":
            # Starlette compresses whenever the header contains the word.
            accepted = accepts_gzip(Headers(scope=scope).get("accept-encoding", ""))
            headers = [pair for pair in scope["headers"] if pair[0] != b"accept-encoding"]
            headers += [(b"accept-encoding", b"gzip")] if accepted else []
            scope = {**scope, "headers": headers}
        await super().__call__(scope, receive, send)


def encode(value: Any) -> bytes:
    """A response as JSON."""
    kind: Any = type(value)
    return _adapter(kind).dump_json(value)


def encode_list(response: Any, items: Iterable[Any]) -> bytes:
    """A response as JSON whose last member, an empty list, is to hold some items.

    They are encoded one by one, so that other threads go on meanwhile.
    """
    head = encode(response).removesuffix(b"]}")
    return b"%b%b]}" % (head, b",".join(map(encode, items)))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
