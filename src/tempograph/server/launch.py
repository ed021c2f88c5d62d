"""From run folders to a server that listens, and back: sockets, token, log, signals."""

from __future__ import annotations

import ipaddress
import json
import logging
import math
import os
import resource
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import uvicorn

from tempograph.errors import ConfigError
from tempograph.prediction.predictor import Predictor
from tempograph.server.admission import Gate, Log
from tempograph.server.app import create_app
from tempograph.server.connections import patient
from tempograph.server.service import Limits, Service, named_runs

TOKEN_VARIABLE: Final = "TEMPOGRAPH_TOKEN"
_LEAST_TOKEN: Final = 16


def serve(
    runs: Sequence[str],
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: Path | None = None,
    limits: Limits | None = None,
    device: str = "auto",
    shutdown_seconds: int = 10,
) -> None:
    """Serve run folders until a signal ends it; what is in flight then is finished, within some seconds."""
    limits = limits or Limits()
    log = logger(sys.stderr.isatty())
    made, token = the_token(host, token_file)
    folders = named_runs(runs)
    with listening(host, port) as place:
        service = Service(
            {name: Predictor(folder, device, limits.cache) for name, folder in folders.items()},
            limits,
        )
        for run in service.runs.values():
            run.warm()
        url = f"http://{f'[{host}]' if ':' in host else host}:{place.getsockname()[1]}"

        def ready() -> None:
            told = {"token": token} if made else {}
            log({"event": "ready", "url": url, "runs": list(service.runs), **told})

        app = Gate(create_app(service, ready), limits, service.metrics, token, log)
        _uvicorn_tells(log)
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                ws="none",
                lifespan="on",
                server_header=False,
                proxy_headers=False,
                http=patient(limits.idle),
                timeout_keep_alive=math.ceil(limits.idle),
                timeout_graceful_shutdown=shutdown_seconds,
            )
        )
        _allow_many_files()
        place.listen(2048)
        with _quiet_end():
            server.run(sockets=[place])
        log({"event": "stopped"})


def the_token(host: str, token_file: Path | None) -> tuple[bool, str | None]:
    """Whether a token was made now, and the token: none is needed where only this machine can connect."""
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{token_file}: the token cannot be read: {error}") from error
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token:
        if (
            len(token) < _LEAST_TOKEN
            or not token.isascii()
            or not token.isprintable()
            or " " in token
        ):
            raise ConfigError(f"a token has at least {_LEAST_TOKEN} ASCII characters and no spaces")
        return False, token
    if token_file is not None:
        raise ConfigError(
            f"{token_file}: the file is empty; put a token of {_LEAST_TOKEN} characters or more into it"
        )
    if _is_loopback(host):
        return False, None
    return True, secrets.token_urlsafe(24)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket bound to an address, before anything slow is done."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        place = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"there is no address '{host}' on this machine: {error}") from error
    with place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            place.bind(address)
        except OSError as error:
            raise ConfigError(
                f"{host}:{port} cannot be bound ({error.strerror}); choose another --port"
            ) from error
        yield place


def _allow_many_files() -> None:
    """A connection is an open file, and the usual limit is for programs that have few."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Where there is no limit to name, some systems refuse; the usual one then stays.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def _quiet_end() -> Iterator[None]:
    """The server passes a signal on after it has stopped; that it has stopped is all that was wanted."""
    ends = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(end, lambda number, frame: None) for end in ends]
    try:
        yield
    finally:
        for end, handler in zip(ends, previous, strict=True):
            signal.signal(end, handler)


def logger(terminal: bool) -> Log:
    """Writes one line for each event on standard error: for people at a terminal, else JSON."""

    def log(event: Mapping[str, Any]) -> None:
        now = datetime.now(UTC)
        if terminal:
            words = " ".join(_shown(name, value) for name, value in event.items())
            line = f"{now:%H:%M:%S} {words}"
        else:
            line = json.dumps({"time": now.isoformat(timespec="milliseconds")} | dict(event))
        print(line, file=sys.stderr, flush=True)

    return log


def _shown(name: str, value: Any) -> str:
    # A client chooses the path, and a terminal obeys what it is sent.
    text = str(value).encode("unicode_escape").decode("ascii")
    return text if name in ("event", "method", "path", "status") else f"{name}={text}"


class _Told(logging.Handler):
    def __init__(self, tell: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record on as an event."""
        failure = (
            {}
            if record.exc_info is None
            else {"trace": logging.Formatter().formatException(record.exc_info)}
        )
        self._tell(
            {"event": record.name, "level": record.levelname, "message": record.getMessage()}
            | failure
        )


def _uvicorn_tells(log: Log) -> None:
    uvicorns = logging.getLogger("uvicorn")
    uvicorns.handlers, uvicorns.propagate = [_Told(log)], False
    uvicorns.setLevel(logging.WARNING)
