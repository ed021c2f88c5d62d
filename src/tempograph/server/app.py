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
from tempograph.server.service import Service
from tempograph.version import __version__

STATIC: Final = Path(__file__).parent / "static"
_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}},
    }
    for status, description in {
        400: "The request is not valid HTTP or JSON.",
        401: "The token is missing or wrong.",
        404: "A name is unknown; the response suggests similar ones.",
        413: "The body is too large.",
        422: "The input cannot be answered.",
        503: "Too many requests are waiting.",
        504: "The request took too long.",
    }.items()
}

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
        for run in service.runs.values():
            run.batcher.start()
        on_ready()
        yield
        for run in service.runs.values():
            await run.batcher.stop()

    app = FastAPI(
        title="tempograph",
        description="Finds missing facts in temporal knowledge graphs, with evidence.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=_PROBLEMS,
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
    _add_problem_schema(app)
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
        browser = service.run(run).browser
        return browser.search(browser.entities, q, limit)

    @router.get("/api/relations")
    async def relations(
        q: Text = "", limit: Limit = 10, run: RunName = None
    ) -> schema.NamesResponse:
        """Relations whose names contain a text, ignoring case and accents, best match first."""
        browser = service.run(run).browser
        return browser.search(browser.relations, q, limit)

    @router.get("/api/examples")
    async def examples(
        limit: Annotated[int, Query(ge=1, le=100)] = 4, run: RunName = None
    ) -> schema.ExamplesResponse:
        """Example queries: held-out facts of frequent subjects, from the middle of the data."""
        return service.run(run).browser.examples(limit)

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
        browser = service.run(run).browser
        period = browser.period(from_, to, time, reach)
        return browser.timeline(entity, period, time, limit, offset)

    @router.get("/api/snapshot")
    async def snapshot(
        entity: Text,
        time: Text,
        limit: Annotated[int, Query(ge=1, le=200)] = 30,
        run: RunName = None,
    ) -> schema.SnapshotResponse:
        """An entity at one step with its most frequent neighbors, at most `limit` nodes in all."""
        return service.run(run).browser.snapshot(entity, time, limit, 10 * limit)

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
        browser = service.run(run).browser
        return browser.neighborhood(entity, browser.period(None, None, time, reach), limit, 1000)

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
    router = APIRouter()

    @router.post("/api/complete")
    async def complete(request: schema.CompletionRequest) -> schema.CompletionResponse:
        """The best answers for the missing part of a fact.

        Give the time and two of subject, relation and object.
        """
        return await service.run(request.run).complete(request)

    @router.post("/api/score")
    async def score(request: schema.ScoreRequest) -> schema.ScoreResponse:
        """The score, probability and rank of facts, for both query directions."""
        return await service.run(request.run).score(request.facts)

    @router.post("/api/evidence")
    async def evidence(request: schema.EvidenceRequest) -> schema.EvidenceResponse:
        """The train facts behind a complete fact."""
        return await service.run(request.run).explain(request)

    return router


def _add_problem_schema(app: FastAPI) -> None:
    """Describe problems once, among the schemas that all routes refer to."""
    schemas = app.openapi()["components"]["schemas"]
    schemas["ProblemDetails"] = schema.ProblemDetails.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)


async def _handle(_: Request, error: Exception) -> Response:
    return _as_problem(error).response()


def _as_problem(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        # Do not repeat the input: it may be large, or not be text.
        messages = (
            f"{'.'.join(map(str, each['loc'][1:])) or each['loc'][0]}: {each['msg']}"
            for each in error.errors()[:5]
        )
        return invalid("; ".join(messages))
    if isinstance(error, HTTPException):
        status = error.status_code
        kind = {404: "no-such-page", 405: "wrong-method"}.get(status, "refused")
        return Problem(status, kind, error.detail, headers=error.headers or {})
    return internal_error()
