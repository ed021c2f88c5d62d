"""Service metrics in the text format of Prometheus."""

from __future__ import annotations

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
    """Requests by route; batches, queue, cache and reloads by run; and the process."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
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
        self.in_flight = Gauge("tempograph_in_flight", "Requests in progress.", registry=registry)
        self.waiting = Gauge(
            "tempograph_waiting", "Requests in the queue of a run.", ["run"], registry=registry
        )
        self.cached_bytes = Gauge(
            "tempograph_kept_bytes", "Bytes of cached encodings.", ["run"], registry=registry
        )

        self.cache_lookups = Gauge(
            "tempograph_cache_lookups",
            "Look-ups of cached encodings since the run was loaded.",
            ["run", "outcome"],
            registry=registry,
        )
        self.loaded = Gauge(
            "tempograph_loaded_timestamp_seconds",
            "When a run was loaded.",
            ["run"],
            registry=registry,
        )
        self.reloads = Counter(
            "tempograph_reloads_total", "How often a run was reloaded.", ["run"], registry=registry
        )
        ProcessCollector(registry=registry)

    def text(self) -> str:
        """All metrics as Prometheus reads them."""
        return generate_latest(self._registry).decode()
