"""The routes of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, PackageLoader
from pydantic import StringConstraints
from starlette.exceptions import HTTPException

from tempograph.server import schema
from tempograph.server.problems import MEDIA_TYPE, Problem, internal_error, invalid
from tempograph.server.request_bodies import (
    describe_body,
    describe_errors,
    describe_models,
    read_body,
)
from tempograph.server.service import Service
from tempograph.version import __version__

STATIC: Final = Path(__file__).parent / "static"


def _describe_problems(descriptions: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    return {
        status: {"description": description, "content": content}
        for status, description in descriptions.items()
    }


_PROBLEMS: Final = _describe_problems(
    {
        400: "The request is not valid HTTP or JSON.",
        401: "The token is missing or wrong.",
        404: "A name is unknown; the response suggests similar ones.",
        413: "The body is too large.",
        421: "The host name is not that of this service.",
        422: "The input cannot be answered.",
        503: "Too many requests are waiting, or the service is shutting down.",
        504: "The request took too long.",
    }
)
_BODY_PROBLEMS: Final = _describe_problems({415: "The body is not declared as JSON."})

RunName = Annotated[
    str | None,
    Query(max_length=1000, description="A run listed by /api/info; by default, the first."),
]
Text = Annotated[str, Query(max_length=1000)]
Limit = Annotated[int, Query(ge=1, le=1000)]


def create_app(service: Service, on_ready: Callable[[], None] = lambda: None) -> FastAPI:
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
        responses=_PROBLEMS,
        # A redirect would name the scheme and host of this side of a proxy.
        redirect_slashes=False,
    )
    for error in (Problem, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(error, _handle)
    app.include_router(_lookup_routes(service))
    app.include_router(_model_routes(service))

    templates = Environment(loader=PackageLoader("tempograph.server"), autoescape=True)

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    async def docs() -> str:
        return templates.get_template("api_docs.html").render(api=app.openapi())

    @app.get("/", include_in_schema=False)
    async def explorer() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=STATIC))
    _add_schemas(app, service)
    return app


def _lookup_routes(service: Service) -> APIRouter:
    """Names, facts and metrics, which need no model."""
    router = APIRouter()

    @router.get("/api/info")
    async def info() -> schema.InfoResponse:
        """The runs of this service and its request limits."""
        return service.info()

    @router.get("/api/entities")
    async def entities(
        q: Text = "", limit: Limit = 10, run: RunName = None
    ) -> schema.NamesResponse:
        """Entities whose names contain a text, ignoring case and accents, best match first."""
        served = service.run(run)
        names = served.browser.entities
        return await served.look_up(lambda: served.browser.search(names, q, limit))

    @router.get("/api/relations")
    async def relations(
        q: Text = "", limit: Limit = 10, run: RunName = None
    ) -> schema.NamesResponse:
        """Relations whose names contain a text, ignoring case and accents, best match first."""
        served = service.run(run)
        names = served.browser.relations
        return await served.look_up(lambda: served.browser.search(names, q, limit))

    @router.get("/api/examples")
    async def examples(
        limit: Annotated[int, Query(ge=1, le=100)] = 4, run: RunName = None
    ) -> schema.ExamplesResponse:
        """Example queries: held-out facts of frequent subjects, from the middle of the data."""
        served = service.run(run)
        return await served.look_up(lambda: served.browser.examples(limit))

    @router.get("/api/timeline")
    async def timeline(
        entity: Text,
        from_: Annotated[
            str | None, Query(alias="from", max_length=1000, description="The first step.")
        ] = None,
        to: Annotated[str | None, Query(max_length=1000, description="The last step.")] = None,
        time: Annotated[
            str | None, Query(max_length=1000, description="Return the window around this step.")
        ] = None,
        reach: Annotated[
            int | None, Query(ge=0, le=10**6, description="Steps on each side of the time.")
        ] = None,
        limit: Limit = 200,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        run: RunName = None,
    ) -> schema.TimelineResponse:
        """The facts of an entity by time, and the window that the model reads around a step.

        Give the period by its first and last step, or by `time` and `reach`.
        """
        served = service.run(run)
        browser = served.browser

        def read() -> schema.TimelineResponse:
            period = browser.period(from_, to, time, reach)
            return browser.timeline(entity, period, time, limit, offset)

        return await served.look_up(read)

    @router.get("/api/snapshot")
    async def snapshot(
        entity: Text,
        time: Text,
        limit: Annotated[int, Query(ge=1, le=200)] = 30,
        run: RunName = None,
    ) -> schema.SnapshotResponse:
        """An entity at one step with its most frequent neighbors, at most `limit` nodes in all."""
        served = service.run(run)
        return await served.look_up(
            lambda: served.browser.snapshot(entity, time, limit, 10 * limit)
        )

    @router.get("/api/neighborhood")
    async def neighborhood(
        entity: Annotated[
            list[Annotated[str, StringConstraints(max_length=1000)]],
            Query(min_length=1, max_length=20, description="An entity, or several."),
        ],
        time: Text,
        reach: Annotated[
            int, Query(ge=0, le=10**6, description="Steps on each side of the time.")
        ] = 0,
        limit: Annotated[int, Query(ge=1, le=50, description="Neighbors of each entity.")] = 12,
        run: RunName = None,
    ) -> schema.NeighborhoodResponse:
        """Entities in a period, the most frequent neighbors of each, and the edges among them."""
        served = service.run(run)
        browser = served.browser

        def read() -> schema.NeighborhoodResponse:
            period = browser.period(None, None, time, reach)
            return browser.neighborhood(entity, period, limit, 1000)

        return await served.look_up(read)

    @router.get("/health")
    async def health() -> schema.HealthResponse:
        """Whether the service is up; needs no token."""
        return schema.HealthResponse()

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> str:
        """Metrics in the text format of Prometheus."""
        return service.metrics.text()

    return router


def _model_routes(service: Service) -> APIRouter:
    """Predictions, which wait for the thread of their run."""
    router = APIRouter(responses=_BODY_PROBLEMS)
    threads, score_request = service.threads, schema.ScoreRequest.with_limit(service.limits.facts)

    @router.post("/api/complete", openapi_extra=describe_body(schema.CompletionRequest))
    async def complete(request: Request) -> schema.CompletionResponse:
        """The best answers for the missing part of a fact.

        Give the time and two of subject, relation and object.
        """
        body = await read_body(request, schema.CompletionRequest, threads)
        return await service.run(body.run).complete(body, _client(request))

    @router.post("/api/score", openapi_extra=describe_body(score_request))
    async def score(request: Request) -> schema.ScoreResponse:
        """The score, probability and rank of facts, for both query directions."""
        body = await read_body(request, score_request, threads)
        return await service.run(body.run).score(body.facts, _client(request))

    @router.post("/api/evidence", openapi_extra=describe_body(schema.EvidenceRequest))
    async def evidence(request: Request) -> schema.EvidenceResponse:
        """The train facts behind a complete fact."""
        body = await read_body(request, schema.EvidenceRequest, threads)
        return await service.run(body.run).explain(body, _client(request))

    return router


def _client(request: Request) -> str:
    """Who asks, for a fair share of the run: the address of the other side."""
    return request.client.host if request.client else ""


def _add_schemas(app: FastAPI, service: Service) -> None:
    """Describe requests and problems once, among the schemas that all routes refer to."""
    schemas = app.openapi()["components"]["schemas"]
    requests = (
        schema.CompletionRequest,
        schema.EvidenceRequest,
        schema.ScoreRequest.with_limit(service.limits.facts),
    )
    schemas |= describe_models(requests)
    schemas["ProblemDetails"] = schema.ProblemDetails.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)


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
