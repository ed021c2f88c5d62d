"""What the service does, in the text format that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_QUESTIONS: Final = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)


class Histogram:
    """How many values are at most as large as each bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str) -> Iterable[str]:
        """Cumulative counts, sum and count."""
        total = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self._sum:.6f}"
        yield f"{name}_count{{{labels}}} {total}"


class Metrics:
    """Requests by route and status, how long they took, how large batches were, what waits now."""

    def __init__(self) -> None:
        self.in_flight = 0
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._seconds: dict[str, Histogram] = defaultdict(lambda: Histogram(_SECONDS))
        self._batches: dict[str, Histogram] = defaultdict(lambda: Histogram(_QUESTIONS))

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that is over."""
        self._requests[route, status] += 1
        self._seconds[route].observe(seconds)

    def batch(self, run: str, questions: int) -> None:
        """Count a batch."""
        self._batches[run].observe(questions)

    def text(self, waiting: Mapping[str, int], kept: Mapping[str, int]) -> str:
        """All of it; `waiting` requests and `kept` bytes of encodings are as they are now, by run."""
        lines = [
            *_head("tempograph_requests_total", "counter", "Requests that are over."),
            *(
                f'tempograph_requests_total{{route="{_label(route)}",status="{status}"}} {count}'
                for (route, status), count in sorted(self._requests.items())
            ),
            *_head(
                "tempograph_request_seconds",
                "histogram",
                "Seconds from the first byte to the last.",
            ),
            *(
                line
                for route, seconds in sorted(self._seconds.items())
                for line in seconds.lines("tempograph_request_seconds", f'route="{_label(route)}"')
            ),
            *_head(
                "tempograph_batch_questions", "histogram", "Questions that were scored together."
            ),
            *(
                line
                for run, questions in sorted(self._batches.items())
                for line in questions.lines("tempograph_batch_questions", f'run="{_label(run)}"')
            ),
            *_head("tempograph_in_flight", "gauge", "Requests that are being answered."),
            f"tempograph_in_flight {self.in_flight}",
            *_head("tempograph_waiting", "gauge", "Requests that no batch has taken yet."),
            *(
                f'tempograph_waiting{{run="{_label(run)}"}} {count}'
                for run, count in waiting.items()
            ),
            *_head("tempograph_kept_bytes", "gauge", "Bytes of encodings that are kept."),
            *(
                f'tempograph_kept_bytes{{run="{_label(run)}"}} {count}'
                for run, count in kept.items()
            ),
        ]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, words: str) -> tuple[str, str]:
    return f"# HELP {name} {words}", f"# TYPE {name} {kind}"


def _label(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
