"""Start and stop the service: socket, token, log, signals."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import os
import secrets
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import uvicorn

from tempograph.errors import ConfigError
from tempograph.prediction.predictor import Predictor
from tempograph.server.app import create_app
from tempograph.server.connections import http_protocol
from tempograph.server.cross_origin import allow_origins, check_origins
from tempograph.server.event_log import EventLog, event_log, redirect_uvicorn_log
from tempograph.server.limits import Limits
from tempograph.server.middleware import AdmissionMiddleware
from tempograph.server.problems import Problem
from tempograph.server.service import Service, named_runs
from tempograph.typing import LogFormat

TOKEN_VARIABLE: Final = "TEMPOGRAPH_TOKEN"
_MIN_TOKEN_LENGTH: Final = 16


def serve(
    runs: Sequence[str],
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: Path | None = None,
    limits: Limits | None = None,
    device: str = "auto",
    shutdown_seconds: int = 10,
    origins: Sequence[str] = (),
    log_format: LogFormat = "auto",
    trusted_proxies: Sequence[str] = (),
) -> None:
    """Serve run folders until a signal; open requests then get `shutdown_seconds` to finish."""
    limits = limits or Limits()
    log = event_log(log_format)
    check_origins(origins)
    _check_proxies(trusted_proxies)
    token, is_new = resolve_token(host, token_file)
    folders = named_runs(runs)
    with _bound_socket(host, port) as listener:
        service = Service(
            {name: Predictor(folder, device, limits.cache) for name, folder in folders.items()},
            limits,
        )
        for run in service.runs.values():
            run.warm_up()
        url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        ready: dict[str, Any] = {"event": "ready", "url": url, "runs": list(service.runs)}
        if is_new:
            ready["token"] = token

        def on_ready() -> None:
            _reload_on_signal(service, log)
            log(ready)

        app = create_app(service, on_ready, token is not None)
        admitted = AdmissionMiddleware(app, limits, service.metrics, token, log)
        redirect_uvicorn_log(log)
        server = uvicorn.Server(
            uvicorn.Config(
                allow_origins(admitted, origins),
                log_config=None,
                access_log=False,
                ws="none",
                lifespan="on",
                server_header=False,
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=list(trusted_proxies),
                http=http_protocol(limits.idle),
                timeout_keep_alive=math.ceil(limits.idle),
                timeout_graceful_shutdown=shutdown_seconds,
            )
        )
        _raise_file_limit()
        listener.listen(2048)
        with _repeated_signals_ignored():
            server.run(sockets=[listener])
        log({"event": "stopped"})
        if service.busy:
            # The interpreter would wait for the thread of a run, whose result nobody awaits.
            os._exit(0)


def resolve_token(host: str, token_file: Path | None) -> tuple[str | None, bool]:
    """The token of the service, and whether it is new; None if only this machine can connect."""
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{token_file}: cannot read the token: {error}") from error
        if not token:
            raise ConfigError(
                f"{token_file}: the file is empty; it must hold a token of at least "
                f"{_MIN_TOKEN_LENGTH} characters"
            )
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        return (None, False) if _is_loopback(host) else (secrets.token_urlsafe(24), True)
    printable = token.isascii() and token.isprintable() and " " not in token
    if len(token) < _MIN_TOKEN_LENGTH or not printable:
        raise ConfigError(f"a token has at least {_MIN_TOKEN_LENGTH} ASCII characters, no spaces")
    return token, False


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_proxies(addresses: Sequence[str]) -> None:
    for address in addresses:
        try:
            ipaddress.ip_network(address)
        except ValueError as error:
            raise ConfigError(
                f"'{address}' is not an address of a proxy ({error}); write it as 10.0.0.1 or "
                "10.0.0.0/8"
            ) from error


def _reload_on_signal(service: Service, log: EventLog) -> None:
    """Reload all runs on SIGHUP, where there is such a signal."""
    if not hasattr(signal, "SIGHUP"):
        return
    tasks = set[asyncio.Task[None]]()

    async def reload() -> None:
        try:
            log({"event": "reloaded", "runs": await service.reload()})
        except Problem as problem:
            log({"event": "reload failed", "error": problem.detail})

    def start() -> None:
        tasks.add(task := asyncio.create_task(reload()))
        task.add_done_callback(tasks.discard)

    # Outside the main thread, as in a test, there are no signals.
    with suppress(ValueError, RuntimeError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, start)


@contextmanager
def _bound_socket(host: str, port: int) -> Iterator[socket.socket]:
    """A socket bound to an address; binding comes first because loading runs is slow."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"there is no address '{host}' on this machine: {error}") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port} ({error.strerror}); choose another --port"
            ) from error
        yield listener


def _raise_file_limit() -> None:
    """Allow as many open files as the system does: every connection is one."""
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems refuse an unlimited value; the usual limit then stays.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def _repeated_signals_ignored() -> Iterator[None]:
    """Ignore the signal that uvicorn raises again after a clean shutdown."""
    signals = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(each, lambda number, frame: None) for each in signals]
    try:
        yield
    finally:
        for each, handler in zip(signals, previous, strict=True):
            signal.signal(each, handler)
