"""Errors as problem JSON (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

MEDIA_TYPE: Final = "application/problem+json"
KINDS: Final = {
    "broken-json": "The body is not JSON.",
    "unfinished": "The request ended before its body did.",
    "repeated-header": "A header that may be given once is given twice.",
    "token": "The token is missing or wrong.",
    "unknown-name": "A run, entity, relation or time does not exist.",
    "no-such-page": "There is no such path.",
    "wrong-method": "The path does not have this method.",
    "too-large": "The body is too large.",
    "no-json": "The content type is missing or not JSON.",
    "wrong-host": "Without a token, the service answers only to localhost.",
    "invalid-input": "The input cannot be answered.",
    "refused": "The request is refused for another reason.",
    "failed": "An internal error.",
    "overloaded": "Too many requests are waiting; try again after Retry-After seconds.",
    "not-ready": "The service is up, but cannot take a request now.",
    "reload-failed": "A run cannot be loaded again; the old one goes on answering.",
    "stopping": "The service is shutting down.",
    "too-slow": "The request took too long.",
}
"""What each kind of problem means; programs tell problems apart by their kinds."""


def problem_type(kind: str) -> str:
    """The member `type` of a problem."""
    return f"urn:tempograph:problem:{kind}"


@dataclass(frozen=True)
class Place:
    """Where a fact or a question stands in a request that has a list of them."""

    member: str
    index: int

    def __str__(self) -> str:
        return f"{self.member}.{self.index}"


@dataclass(eq=False)
class Problem(Exception):  # noqa: N818
    """An error response."""

    status: int
    kind: str
    """One of `KINDS`."""
    detail: str
    suggestions: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    part: str | None = None
    """The member of the request that is wrong."""
    index: int | None = None
    """The fact that is wrong, counted from 0, if the request has several."""

    def members(self) -> dict[str, Any]:
        """The problem as an object of JSON."""
        return {
            "type": problem_type(self.kind),
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "part": self.part,
            "index": self.index,
            "suggestions": list(self.suggestions),
        }

    def response(self) -> Response:
        """The problem as JSON; in ASCII, because the input may contain lone surrogates."""
        return Response(json.dumps(self.members()), self.status, self.headers, MEDIA_TYPE)


def unknown(
    part: str, name: str, suggestions: Sequence[str], place: Place | None = None
) -> Problem:
    """The problem of a name that does not exist; `part` is the member of the request.

    If the request has a list of facts, `place` is where the one with the name stands.
    """
    shown = name if len(name) <= 100 else name[:100] + "..."
    where = "" if place is None else f"{place}.{part}: "
    detail = f"{where}there is no {part} '{shown}'"
    index = None if place is None else place.index
    return Problem(404, "unknown-name", detail, suggestions, part=part, index=index)


def overloaded() -> Problem:
    """The problem of a request that finds no room in a queue."""
    detail = "too many requests are waiting; try again later"
    return Problem(503, "overloaded", detail, headers={"Retry-After": "1"})


def not_ready(detail: str) -> Problem:
    """The problem of a service that is up and cannot take a request."""
    return Problem(503, "not-ready", detail, headers={"Retry-After": "1"})


def reload_failed(detail: str) -> Problem:
    """The problem of a run that cannot be loaded again."""
    return Problem(409, "reload-failed", f"{detail}; the run goes on as it was")


def stopping() -> Problem:
    """The problem of a request that the shutdown of the service interrupts."""
    detail = "the service is shutting down; try again later"
    return Problem(503, "stopping", detail, headers={"Retry-After": "5"})


def invalid(detail: str, place: Place | None = None) -> Problem:
    """The problem of input that cannot be answered."""
    if place is None:
        return Problem(422, "invalid-input", detail)
    return Problem(422, "invalid-input", f"{place}: {detail}", index=place.index)


def internal_error() -> Problem:
    """The problem of an unexpected exception, without its private details."""
    return Problem(500, "failed", "internal error; the log of the service has the details")
