"""Limits of the service."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from tempograph.device import MEMORY_BUDGETS
from tempograph.errors import ConfigError

_MAX_FACTS: Final = 10_000
_MIN_BODY: Final = 2**20
_BYTES_PER_FACT: Final = 256
"""A fact of ICEWS14 takes 121 bytes of JSON on average, and 227 at most."""


def body_limit(max_facts: int) -> int:
    """Bytes of a request that so many facts fit into."""
    return max(_MIN_BODY, _BYTES_PER_FACT * max_facts)


@dataclass(frozen=True)
class Limits:
    """What one request, and all requests together, may use.

    `middleware` enforces `body` and `seconds`, `batching` the queue and batches, `connections` the
    idle time; `schema` and `service` enforce the rest.
    """

    body: int = body_limit(_MAX_FACTS)
    """Bytes of a request."""
    top: int = 1000
    """Answers to one query."""
    facts: int = _MAX_FACTS
    """Facts in one scoring request."""
    seconds: float = 30.0
    """Seconds for a request, from its first byte."""
    waiting: int = 256
    """Requests in each queue of a run."""
    batch: int = 64
    """Queries scored in one batch."""
    gather: float = 0.002
    """Seconds that a batch waits for more queries."""
    idle: float = 15.0
    """Seconds that a connection has to send its request headers."""
    cache: int = MEMORY_BUDGETS["encodings"].cpu
    """Bytes of cached encodings per run."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < (0 if name in ("gather", "cache") else 1e-3):
                raise ConfigError(f"the limit '{name}' must be above 0, found {value}")
