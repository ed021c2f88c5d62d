"""Start and stop the service: socket, token, log, signals."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
import signal
import socket
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tempograph.device import resolve_device
from tempograph.errors import ConfigError
from tempograph.server.cross_origin import check_origins
from tempograph.server.event_log import EventLog, event_log
from tempograph.server.http_server import BACKLOG, HttpServer
from tempograph.server.limits import Limits
from tempograph.server.problems import Problem
from tempograph.server.service import Service, named_runs, settle_memory
from tempograph.server.service_settings import ServiceSettings
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
    workers: int = 1,
) -> None:
    """Serve run folders until a signal; open requests then get `shutdown_seconds` to finish.

    Several workers are processes that share the memory of the runs.
    """
    log = event_log(log_format)
    check_origins(origins)
    _check_proxies(trusted_proxies)
    token, is_new = resolve_token(host, token_file)
    settings = ServiceSettings(
        named_runs(runs),
        limits or Limits(),
        device,
        token,
        origins,
        trusted_proxies,
        shutdown_seconds,
    )
    if workers > 1:
        _check_workers(device)
    with _bound_socket(host, port) as listener:
        url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        ready: dict[str, Any] = {"event": "ready", "url": url, "runs": list(settings.runs)}
        if is_new:
            ready["token"] = token
        _raise_file_limit()
        if workers > 1:
            from tempograph.server.supervisor import Supervisor

            Supervisor(settings, workers, listener, log).run(ready)
        else:
            _serve_alone(settings, listener, log, ready)


def _serve_alone(
    settings: ServiceSettings, listener: socket.socket, log: EventLog, ready: dict[str, Any]
) -> None:
    """Answer in this process."""
    early = _remember_hangups()
    service = Service(settings.load(), settings.limits)
    for run in service.runs.values():
        run.warm_up()
    settle_memory()

    def on_ready() -> None:
        _reload_on_signal(service, log, early)
        log(ready)

    listener.listen(BACKLOG)
    HttpServer(service, settings, log, on_ready).run(sockets=[listener])
    log({"event": "stopped"})
    if service.busy:
        # The interpreter would wait for the thread of a run, whose result nobody awaits.
        os._exit(0)


def _check_workers(device: str) -> None:
    if sys.platform != "linux":
        raise ConfigError("several workers need Linux; leave --workers out")
    if resolve_device(device).type != "cpu":
        raise ConfigError(
            "several workers share the memory of the processor, not of a GPU; add --device cpu, or "
            "leave --workers out"
        )


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


def _remember_hangups() -> Sequence[int]:
    """The SIGHUP that arrive until runs can be reloaded; they would end the process."""
    arrived: list[int] = []
    if hasattr(signal, "SIGHUP"):
        # Outside the main thread, as in a test, there are no signals.
        with suppress(ValueError):
            signal.signal(signal.SIGHUP, lambda number, _: arrived.append(number))
    return arrived


def _reload_on_signal(service: Service, log: EventLog, early: Sequence[int]) -> None:
    """Reload all runs on SIGHUP, where there is such a signal, and now if one came `early`."""
    if not hasattr(signal, "SIGHUP"):
        return
    tasks = set[asyncio.Task[None]]()

    async def reload() -> None:
        try:
            log({"event": "reloaded", "runs": await service.reload()})
        except Problem as problem:
            log({"event": "reload failed", "error": problem.detail})
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            log({"event": "reload failed", "error": repr(error), "trace": trace})

    def start() -> None:
        tasks.add(task := asyncio.create_task(reload()))
        task.add_done_callback(tasks.discard)

    # Outside the main thread, as in a test, there are no signals.
    with suppress(ValueError, RuntimeError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, start)
    if early:
        start()


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
