"""Requests to a service, and the errors behind its problems."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tempograph.data.suggestions import suggest
from tempograph.errors import ConfigError, QueryError, ServiceError, TempographError

if TYPE_CHECKING:
    import httpx2

Result = TypeVar("Result")
_ADDRESS: Final = re.compile(r"https?://([\w.\-]+|\[[\da-f:.]+\])(:\d+)?(/\S*)?", re.IGNORECASE)


@dataclass(frozen=True)
class ApiRequest:
    """A request to a path under /api/v1; `on_line` is called with each line of the response."""

    path: str
    body: Mapping[str, Any] | None = None
    """JSON to post; None for GET."""
    on_line: Callable[[str], None] | None = None
    parameters: Mapping[str, str] | None = None
    """The query of the URL."""

    @property
    def method(self) -> str:
        """The HTTP method."""
        return "GET" if self.body is None else "POST"


Exchange: TypeAlias = Generator[ApiRequest, Any, Result]
"""Yields requests, is sent the JSON of each response, and returns a result.

It does no input or output itself, so the synchronous and the asynchronous client share it.
"""


def http_settings(url: str, token: str | None, timeout: float) -> dict[str, Any]:
    """The arguments of an httpx2 client of a service."""
    if not _ADDRESS.fullmatch(url):
        raise ConfigError(f"'{url}' is not the address of a service; write it as http://HOST:PORT")
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return {"base_url": f"{url.rstrip('/')}/api/v1/", "headers": headers, "timeout": timeout}


def import_httpx() -> Any:
    """The library that speaks HTTP, which is an extra."""
    try:
        import httpx2
    except ImportError:
        raise ConfigError(
            "a client needs httpx2; install it with: pip install 'tempograph[client]'"
        ) from None
    return httpx2


def read_reply(response: httpx2.Response) -> Any:
    """The JSON of a response, or the error that it describes."""
    try:
        reply = response.json()
    except ValueError:
        reply = None
    if response.status_code == 200 and reply is not None:
        return reply
    raise describe_problem(str(response.url), response.status_code, reply)


def unreachable(url: str, error: Exception) -> ServiceError:
    """The error of a request that has no response."""
    reason = str(error) or type(error).__name__
    return ServiceError(f"{url}: the service does not answer ({reason}); check that it is running")


def describe_problem(url: str, status: int, problem: Any) -> TempographError:
    """The error behind a problem: what a user did wrong is a QueryError, all else the service's."""
    if not isinstance(problem, dict) or "detail" not in problem:
        return ServiceError(f"{url}: the response has status {status} and is not from tempograph")
    if status in (404, 422) and problem.get("type", "").endswith(("unknown-name", "invalid-input")):
        return QueryError(f"{problem['detail']}{suggest(problem.get('suggestions', ()))}")
    return ServiceError(f"{url}: {problem['detail']} (status {status})")
