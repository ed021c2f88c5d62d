"""Responses that send lines of JSON as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from pydantic import BaseModel
from starlette.responses import StreamingResponse

from tempograph.server.problems import Problem
from tempograph.server.schema.operations import ProblemDetails
from tempograph.server.schema.scan_lines import ErrorLine, ProgressLine

LINES: Final = "application/x-ndjson"


async def stream_lines(lines: AsyncGenerator[BaseModel, None], pause: float) -> StreamingResponse:
    """A response that sends lines; an error before the first is a problem, and later a line.

    If there is no line for `pause` seconds, the progress so far is sent again, so that neither the
    client nor a proxy gives up.
    """
    steady = _with_progress(lines, pause)
    first = await anext(steady)

    async def texts() -> AsyncIterator[str]:
        async with aclosing(steady):
            yield _text(first)
            try:
                async for line in steady:
                    yield _text(line)
            except Problem as problem:
                yield _text(ErrorLine(problem=ProblemDetails(**problem.members())))

    return StreamingResponse(texts(), media_type=LINES)


async def _with_progress(
    lines: AsyncGenerator[BaseModel, None], pause: float
) -> AsyncGenerator[BaseModel, None]:
    progress: BaseModel = ProgressLine(done=0, total=0)
    async with aclosing(lines):
        while True:
            next_line = asyncio.ensure_future(anext(lines, None))
            try:
                while not (await asyncio.wait({next_line}, timeout=pause))[0]:
                    yield progress
                line = next_line.result()
            finally:
                if not next_line.done():
                    next_line.cancel()
                    await asyncio.wait({next_line})
            if line is None:
                return
            if isinstance(line, ProgressLine):
                progress = line
            yield line


def _text(line: BaseModel) -> str:
    return f"{line.model_dump_json()}\n"
