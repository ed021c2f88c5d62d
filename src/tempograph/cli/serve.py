"""serve: runs behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempograph.cli.train import Device


def serve(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders, or NAME=FOLDER; the first leads."),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; all but this machine's own need a token.")
    ] = ("127.0.0.1"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token that clients send; else $TEMPOGRAPH_TOKEN, else one is made."
        ),
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request.")] = 2**20,
    max_top: Annotated[int, typer.Option(min=1, help="Answers to one question.")] = 1000,
    max_facts: Annotated[
        int, typer.Option(min=1, help="Facts in one request for scores.")
    ] = 10_000,
    max_seconds: Annotated[float, typer.Option(min=0.001, help="Seconds for one request.")] = 30.0,
    max_waiting: Annotated[int, typer.Option(min=1, help="Requests that wait for a run.")] = 256,
    batch: Annotated[int, typer.Option(min=1, help="Questions that are scored together.")] = 64,
    gather: Annotated[
        float, typer.Option(min=0, help="Milliseconds in which a batch gathers.")
    ] = 2.0,
    idle: Annotated[
        float, typer.Option(min=0.1, help="Seconds a connection has for the head of a request.")
    ] = 15.0,
    cache: Annotated[int, typer.Option(min=0, help="MiB of encodings that each run keeps.")] = 1280,
    shutdown: Annotated[
        int, typer.Option(min=0, help="Seconds for what is in flight when the service ends.")
    ] = 10,
    device: Device = "auto",
) -> None:
    """Serve trained runs over HTTP, until Ctrl-C.

    Example: **tempograph serve runs/demo/temp-gru runs/demo/ted --port 8000**
    """
    from tempograph.errors import ConfigError

    try:
        from tempograph.server.launch import serve as serve_runs
        from tempograph.server.service import Limits
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "httptools", "pydantic", "starlette"):
            raise
        raise ConfigError(
            f"the service needs {error.name}; pip install '.[serve]' in the repository brings it"
        ) from error

    limits = Limits(
        body=max_body,
        top=max_top,
        facts=max_facts,
        seconds=max_seconds,
        waiting=max_waiting,
        batch=batch,
        gather=gather / 1000,
        idle=idle,
        cache=cache * 2**20,
    )
    serve_runs(runs, host, port, token_file, limits, device, shutdown)
