"""The service as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from tempograph.server.api_description import PROBLEMS, TAGS, complete_description
from tempograph.server.json_responses import COMPRESSION, MIN_COMPRESSED, GzipForClients
from tempograph.server.lookup_routes import lookup_routes
from tempograph.server.operation_routes import Operations, operation_routes
from tempograph.server.page_files import PageFiles
from tempograph.server.problems import Problem, internal_error, invalid
from tempograph.server.question_routes import question_routes
from tempograph.server.request_bodies import describe_errors
from tempograph.server.schema.request_models import (
    BatchCompletionRequest,
    CompletionRequest,
    EvidenceRequest,
    ForecastRequest,
    MissingRequest,
    ReloadRequest,
    ScoreRequest,
    SurprisingRequest,
    WhatIfRequest,
    with_limit,
)
from tempograph.server.schema.scan_lines import (
    EndLine,
    ErrorLine,
    ForecastEndLine,
    ForecastLine,
    MissingLine,
    ProgressLine,
    SurprisingLine,
)
from tempograph.server.service import Service
from tempograph.version import __version__


class Application(FastAPI):
    """The service as an ASGI application.

    FastAPI describes all routes. Questions go straight to their functions, which take the request
    and return the response: for a question of one fact, FastAPI would take longer than the model.
    Only searches, whose lines are compressed as they come, take the usual way.
    """

    def __init__(self, questions: APIRouter, **options: Any) -> None:
        super().__init__(**options)
        self._questions = {
            route.path: route
            for route in questions.routes
            if isinstance(route, APIRoute) and route.response_model is not None
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or another ASGI scope."""
        route = None
        if scope["type"] == "http" and scope["method"] == "POST":
            route = self._questions.get(scope["path"])
        if route is None:
            await super().__call__(scope, receive, send)
            return
        scope["route"] = route
        try:
            response = await route.endpoint(Request(scope, receive))
        except Problem as problem:
            response = problem.response()
        await response(scope, receive, send)


def create_app(
    service: Service,
    on_ready: Callable[[], None] = lambda: None,
    token_required: bool = False,
    operations: Operations | None = None,
) -> Application:
    """The service as an ASGI application; `on_ready` is called once it accepts requests."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        on_ready()
        yield
        await service.stop()

    questions = question_routes(service)
    app = Application(
        questions,
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
    app.include_router(lookup_routes(service))
    app.include_router(questions)
    app.include_router(operation_routes(service, operations or service))

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

    app.add_middleware(GzipForClients, minimum_size=MIN_COMPRESSED, compresslevel=COMPRESSION)
    app.mount(f"/{files.address}", files)
    max_facts = service.limits.facts
    described = (
        CompletionRequest,
        with_limit(BatchCompletionRequest, "questions", max_facts),
        with_limit(ScoreRequest, "facts", max_facts),
        EvidenceRequest,
        WhatIfRequest,
        MissingRequest,
        SurprisingRequest,
        ForecastRequest,
        ReloadRequest,
        ProgressLine,
        MissingLine,
        SurprisingLine,
        ForecastLine,
        ForecastEndLine,
        EndLine,
        ErrorLine,
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
