"""Service metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_QUERIES: Final = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)

disable_created_metrics()


class Metrics:
    """Requests by route; batches, queue, cache and reloads by run; and the process.

    If several processes serve, `multiprocess_mode` says what becomes of the gauges of all of them.
    """

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._watched: dict[Gauge, Callable[[], float]] = {}
        # A look-up by labels takes longer than counting.
        self._of_request: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.requests = Counter(
            "tempograph_requests_total",
            "Finished requests.",
            ["route", "status"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "tempograph_request_seconds",
            "Seconds from the first byte of a request to the last byte of its response.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.batch_queries = Histogram(
            "tempograph_batch_questions",
            "Queries scored in one batch.",
            ["run"],
            buckets=_QUERIES,
            registry=registry,
        )
        self.in_flight = Gauge(
            "tempograph_in_flight",
            "Requests in progress.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.waiting = Gauge(
            "tempograph_waiting",
            "Requests in the queue of a run.",
            ["run"],
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.cached_bytes = Gauge(
            "tempograph_kept_bytes",
            "Bytes of cached encodings.",
            ["run"],
            registry=registry,
            multiprocess_mode="livemax",
        )
        self.cache_lookups = Gauge(
            "tempograph_cache_lookups",
            "Look-ups of cached encodings since the run was loaded.",
            ["run", "outcome"],
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.loaded = Gauge(
            "tempograph_loaded_timestamp_seconds",
            "When a run was loaded.",
            ["run"],
            registry=registry,
            multiprocess_mode="livemax",
        )
        self.reloads = Counter(
            "tempograph_reloads_total", "How often a run was reloaded.", ["run"], registry=registry
        )
        ProcessCollector(registry=registry)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a finished request."""
        found = self._of_request.get((route, status))
        if found is None:
            counter = self.requests.labels(route, status)
            found = (counter, self.request_seconds.labels(route))
            self._of_request[route, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def watch(self, gauge: Gauge, value: Callable[[], float]) -> None:
        """Let a gauge have the value of a function whenever metrics are refreshed."""
        self._watched[gauge] = value

    def refresh(self) -> None:
        """Set the gauges that are watched."""
        for gauge, value in self._watched.items():
            gauge.set(value())

    def text(self) -> str:
        """All metrics as Prometheus reads them."""
        self.refresh()
        return generate_latest(self._registry).decode()
