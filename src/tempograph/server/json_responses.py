"""Responses of JSON: encoded once, and large ones on another thread."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

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
    accepted = "gzip" in request.headers.get("accept-encoding", "")

    def prepare() -> Response:
        body = encoded()
        if not accepted or len(body) < MIN_COMPRESSED:
            return Response(body, media_type=MEDIA_TYPE)
        headers = {"content-encoding": "gzip", "vary": "Accept-Encoding"}
        return Response(gzip.compress(body, COMPRESSION), headers=headers, media_type=MEDIA_TYPE)

    return await threads.run(prepare)


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
