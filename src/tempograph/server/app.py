"""The service as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, PackageLoader
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from tempograph.server import schema
from tempograph.server.api_description import PROBLEMS, TAGS, complete_description
from tempograph.server.lookup_routes import lookup_routes
from tempograph.server.operation_routes import operation_routes
from tempograph.server.page_files import PageFiles
from tempograph.server.problems import Problem, internal_error, invalid
from tempograph.server.question_routes import question_routes
from tempograph.server.request_bodies import describe_errors
from tempograph.server.service import Service
from tempograph.version import __version__

_MIN_COMPRESSED: Final = 2**13
"""Bytes of a response that take longer to send than to compress."""


def create_app(
    service: Service, on_ready: Callable[[], None] = lambda: None, token_required: bool = False
) -> FastAPI:
    """The service as an ASGI application; `on_ready` is called once it accepts requests."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        on_ready()
        yield
        await service.stop()

    app = FastAPI(
        title="tempograph",
        description="Finds missing facts in temporal knowledge graphs, with evidence.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=PROBLEMS,
        openapi_tags=TAGS,
        # A redirect would name the scheme and host of this side of a proxy.
        redirect_slashes=False,
    )
    app.state.service = service
    for error in (Problem, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(error, _handle)
    for routes in (lookup_routes, question_routes, operation_routes):
        app.include_router(routes(service))

    files = PageFiles()
    templates = Environment(loader=PackageLoader("tempograph.server"), autoescape=True)

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    async def docs() -> str:
        return templates.get_template("api_docs.html").render(
            api=app.openapi(), static=f"/{files.address}"
        )

    @app.get("/", include_in_schema=False, response_class=HTMLResponse)
    async def explorer() -> str:
        return files.page

    app.add_middleware(GZipMiddleware, minimum_size=_MIN_COMPRESSED, compresslevel=5)
    app.mount(f"/{files.address}", files)
    max_facts = service.limits.facts
    described = (
        schema.CompletionRequest,
        schema.with_limit(schema.BatchCompletionRequest, "questions", max_facts),
        schema.with_limit(schema.ScoreRequest, "facts", max_facts),
        schema.EvidenceRequest,
        schema.WhatIfRequest,
        schema.MissingRequest,
        schema.SurprisingRequest,
        schema.ReloadRequest,
        schema.ProgressLine,
        schema.MissingLine,
        schema.SurprisingLine,
        schema.EndLine,
        schema.ErrorLine,
    )
    complete_description(app, described, token_required)
    return app


async def _handle(_: Request, error: Exception) -> Response:
    return _as_problem(error).response()


def _as_problem(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        # The first part of a location is where the parameter stands, as "query".
        errors = [{**each, "loc": each["loc"][1:] or each["loc"]} for each in error.errors()]
        return invalid(describe_errors(errors))
    if isinstance(error, HTTPException):
        status = error.status_code
        kind = {404: "no-such-page", 405: "wrong-method"}.get(status, "refused")
        return Problem(status, kind, error.detail, headers=error.headers or {})
    return internal_error()
