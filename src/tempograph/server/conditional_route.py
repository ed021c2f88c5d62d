"""Responses that a client need not load twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute


class ConditionalRoute(APIRoute):
    """A route whose response has an ETag; it is 304 without a body for a client that has it.

    The response depends on the run alone, so clients may keep it and ask whether it has changed.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the route with the condition."""
        handle = super().get_route_handler()

        async def respond(request: Request) -> Response:
            response = await handle(request)
            # Weak, because the response may be compressed or not.
            etag = f'W/"{hashlib.sha256(response.body).hexdigest()[:32]}"'
            headers = {"etag": etag, "cache-control": "private, no-cache"}
            if _matches(request.headers.get("if-none-match", ""), etag):
                return Response(status_code=304, headers=headers)
            response.headers.update(headers)
            return response

        return respond


def _matches(given: str, etag: str) -> bool:
    """Whether a header If-None-Match names an ETag; weak and strong ones are compared alike."""
    tags = [tag.strip().removeprefix("W/") for tag in given.split(",")]
    return "*" in tags or etag.removeprefix("W/") in tags
