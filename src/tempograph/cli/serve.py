"""serve: trained runs over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempograph.cli.shared_options import Device
from tempograph.typing import LogFormat


def serve(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="Run folders, or NAME=FOLDER; the first is the default run."
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; a token is required unless it is local.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token that clients must send; by default, $TEMPOGRAPH_TOKEN, "
            "or a new token, which is printed."
        ),
    ] = None,
    max_body: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum request size in bytes; by default, 1 MiB or 256 bytes per fact of "
            "--max-facts, whichever is more.",
        ),
    ] = None,
    max_top: Annotated[int, typer.Option(min=1, help="Maximum answers per question.")] = 1000,
    max_facts: Annotated[
        int, typer.Option(min=1, help="Maximum facts or questions per request.")
    ] = 10_000,
    max_seconds: Annotated[
        float, typer.Option(min=0.001, help="Seconds per request, or per line of a scan.")
    ] = 30.0,
    max_waiting: Annotated[
        int, typer.Option(min=1, help="Maximum number of waiting requests per run.")
    ] = 256,
    batch: Annotated[int, typer.Option(min=1, help="Maximum queries per batch.")] = 64,
    gather: Annotated[
        float, typer.Option(min=0, help="Milliseconds a batch waits for more queries.")
    ] = 2.0,
    idle: Annotated[
        float, typer.Option(min=0.1, help="Seconds a connection has to send its request headers.")
    ] = 15.0,
    cache: Annotated[int, typer.Option(min=0, help="Cache for encodings, in MiB per run.")] = 1280,
    shutdown: Annotated[
        int, typer.Option(min=0, help="Seconds to let open requests finish at shutdown.")
    ] = 10,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Let web pages of this origin use the API, such as https://example.org; repeat it "
            "for more.",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat,
        typer.Option(help="How events are logged; auto is text on a terminal and JSON otherwise."),
    ] = "auto",
    forwarded_allow_ips: Annotated[
        str,
        typer.Option(
            metavar="ADDRESSES",
            help="Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed: addresses or "
            "networks, separated by commas.",
        ),
    ] = "",
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=256, help="Processes that answer; they share the memory of the runs."
        ),
    ] = 1,
    device: Device = "auto",
) -> None:
    """Serve trained runs over HTTP, with a web explorer. Stop with Ctrl-C.

    Example: **tempograph serve runs/demo/temp-gru runs/demo/ted --port 8000**
    """
    from tempograph.errors import ConfigError

    try:
        from tempograph.server.launch import serve as serve_runs
        from tempograph.server.limits import Limits, body_limit
    except ModuleNotFoundError as error:
        extra = ("fastapi", "uvicorn", "httptools", "pydantic", "starlette", "prometheus_client")
        if error.name not in extra:
            raise
        raise ConfigError(
            f"the service needs {error.name}; install it with: pip install '.[serve]'"
        ) from error

    limits = Limits(
        body=body_limit(max_facts) if max_body is None else max_body,
        top=max_top,
        facts=max_facts,
        seconds=max_seconds,
        waiting=max_waiting,
        batch=batch,
        gather=gather / 1000,
        idle=idle,
        cache=cache * 2**20,
    )
    serve_runs(
        runs,
        host,
        port,
        token_file,
        limits,
        device,
        shutdown,
        allow_origin or (),
        log_format,
        [address.strip() for address in forwarded_allow_ips.split(",") if address.strip()],
        workers,
    )
