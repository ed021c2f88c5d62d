"""Web pages of other origins that may use the service (CORS)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from tempograph.errors import ConfigError

_ORIGIN: Final = re.compile(r"https?://[a-z0-9.\-\[\]:]+", re.ASCII)


def check_origins(origins: Sequence[str]) -> None:
    """Refuse what is no origin, such as a star: every page would be let in."""
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise ConfigError(
                f"'{origin}' is not an origin; write it as https://HOST or https://HOST:PORT, "
                "in lower case and without a path"
            )


def allow_origins(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """The application, open to web pages of these origins; without any, as it is.

    It must be outermost: browsers ask for permission without the token, and a page can only read
    an error that has these headers too.
    """
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=("GET", "HEAD", "POST"),
        allow_headers=("authorization", "content-type", "if-none-match"),
        expose_headers=("etag", "retry-after", "x-request-id"),
    )
