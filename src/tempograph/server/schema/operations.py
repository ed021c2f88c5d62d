"""Problems, and what a service says of itself."""

from __future__ import annotations

from typing import Literal

from tempograph.server.schema.members import Part, Response
from tempograph.typing import Task


class ProblemDetails(Response):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    part: str | None
    """The part of the request with an unknown name."""
    index: int | None
    """The fact or question that is wrong, counted from 0, if the request has a list of them."""
    suggestions: list[str]
    """The closest matching names."""


class WindowSize(Response):
    """Number of steps that a model reads around a query."""

    past: int
    future: int


class RunInfo(Response):
    """A run and its dataset."""

    name: str
    model: str
    dataset: str
    protocol: str
    metrics: dict[str, dict[str, float]]
    """Metrics of each evaluated split."""
    entities: int
    relations: int
    facts: dict[str, int]
    """Number of facts in each split."""
    steps: int
    first: str
    last: str
    times: list[str] | None
    """Labels of all steps; null if there are more than 20,000."""
    window: WindowSize | None
    """Null if the window is unbounded."""
    finished: bool
    """Whether training is finished."""
    task: Task
    """Whether the run completes facts or forecasts them."""
    asked: list[Part]
    """The parts that may be missing from a question."""
    intervals: bool
    """Whether facts hold for a while; the answers to a missing time are intervals then."""


class RequestLimits(Response):
    """Limits of one request."""

    body: int
    """Bytes."""
    top: int
    """Answers."""
    facts: int
    """Facts to score."""
    seconds: float


class InfoResponse(Response):
    """The runs of the service, the default one first."""

    version: str
    runs: list[RunInfo]
    limits: RequestLimits


class HealthResponse(Response):
    """The service is up, or ready."""

    status: Literal["ok"] = "ok"


class ReloadResponse(Response):
    """What was loaded again."""

    runs: list[str]
