"""The lines of a scan, one JSON object each."""

from __future__ import annotations

from typing import Literal

from tempograph.prediction.forecast import ForecastFact
from tempograph.server.schema.members import Response
from tempograph.server.schema.operations import ProblemDetails
from tempograph.server.schema.response_models import MissingFact, SurprisingFact


class ProgressLine(Response):
    """How far a scan is."""

    event: Literal["progress"] = "progress"
    done: int
    total: int


class MissingLine(Response):
    """One result of a search for missing facts."""

    event: Literal["fact"] = "fact"
    fact: MissingFact


class SurprisingLine(Response):
    """One result of a search for surprising facts."""

    event: Literal["fact"] = "fact"
    fact: SurprisingFact


class ForecastLine(Response):
    """One fact that may happen."""

    event: Literal["fact"] = "fact"
    fact: ForecastFact


class ErrorLine(Response):
    """The last line of a scan that failed after its first line was sent."""

    event: Literal["error"] = "error"
    problem: ProblemDetails


class EndLine(Response):
    """The last line of a scan; without it, the scan was cut off."""

    event: Literal["end"] = "end"
    facts: int
    """Number of facts."""


class ForecastEndLine(EndLine):
    """The last line of a forecast."""

    steps: tuple[str, ...]
    """Labels of the steps that the forecast is for."""
    known_until: str
    """Label of the last step whose facts were known."""
    notes: tuple[str, ...]
    """What a reader should know about the forecast."""
