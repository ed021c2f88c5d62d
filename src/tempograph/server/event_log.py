"""The log of the service: one line per event on standard error."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from tempograph.typing import LogFormat

EventLog = Callable[[Mapping[str, Any]], None]


def event_log(format: LogFormat = "auto") -> EventLog:
    """A function that prints events as JSON or text; by default, as text on a terminal."""
    as_text = sys.stderr.isatty() if format == "auto" else format == "text"

    def log(event: Mapping[str, Any]) -> None:
        now = datetime.now(UTC)
        if as_text:
            given = {name: value for name, value in event.items() if value is not None}
            words = " ".join(_format(name, value) for name, value in given.items())
            line = f"{now:%H:%M:%S} {words}"
        else:
            line = json.dumps({"time": now.isoformat(timespec="milliseconds")} | dict(event))
        # One write, so that the lines of several processes do not mix.
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    return log


def _format(name: str, value: Any) -> str:
    # Clients choose the path, so escape control sequences that a terminal would obey.
    text = str(value).encode("unicode_escape").decode("ascii")
    return text if name in ("event", "method", "path", "status") else f"{name}={text}"


class _EventHandler(logging.Handler):
    def __init__(self, log: EventLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record as an event."""
        event = {"event": record.name, "level": record.levelname, "message": record.getMessage()}
        if record.exc_info is not None:
            event["trace"] = logging.Formatter().formatException(record.exc_info)
        self._log(event)


def redirect_uvicorn_log(log: EventLog) -> None:
    """Send the warnings and errors of uvicorn to the event log."""
    logger = logging.getLogger("uvicorn")
    logger.handlers, logger.propagate = [_EventHandler(log)], False
    logger.setLevel(logging.WARNING)
