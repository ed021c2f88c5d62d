"""Errors as problem JSON (RFC 9457): what is wrong, with which value, and what may have been meant."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

MEDIA_TYPE: Final = "application/problem+json"


class Problem(Exception):  # noqa: N818
    """An answer that is an error; its type tells programs which."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        suggestions: Sequence[str] = (),
        headers: Mapping[str, str] = {},
        part: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.suggestions = list(suggestions)
        self.headers = dict(headers)
        self.part = part

    def body(self) -> bytes:
        """The problem as JSON; ASCII, since what was sent may be no text that UTF-8 can hold."""
        members: dict[str, Any] = {
            "type": f"urn:tempograph:problem:{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "part": self.part,
            "suggestions": self.suggestions,
        }
        return json.dumps(members).encode("ascii")


def unknown(what: str, name: str, suggestions: Sequence[str]) -> Problem:
    """A name that nothing goes by."""
    return Problem(
        404, "unknown-name", f"there is no {what} {_quoted(name)}", suggestions, part=what
    )


def invalid(detail: str) -> Problem:
    """Input that cannot be read as a question."""
    return Problem(422, "invalid-input", detail)


def _quoted(name: str, most: int = 100) -> str:
    return f"'{name if len(name) <= most else name[:most] + '...'}'"
