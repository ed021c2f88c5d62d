"""The routes: names and facts are looked up at once, questions wait for the thread of their run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from tempograph.server import schema
from tempograph.server.api_docs import docs_page
from tempograph.server.problems import MEDIA_TYPE, Problem, invalid
from tempograph.server.service import Service
from tempograph.version import __version__

STATIC: Final = Path(__file__).parent / "static"
_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {
        "description": words,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemJson"}}},
    }
    for status, words in {
        400: "A request that is no HTTP or no JSON.",
        401: "No token, or not the one of this service.",
        404: "A name that nothing goes by, with those that are spelled like it.",
        413: "A body that is too large.",
        422: "Input that cannot be answered.",
        503: "Too many requests wait.",
        504: "It took too long.",
    }.items()
}

Run = Annotated[
    str | None, Query(max_length=1000, description="A run of /api/info; by default the first.")
]
Text = Annotated[str, Query(max_length=1000)]
Limit = Annotated[int, Query(ge=1, le=1000)]


def create_app(service: Service, ready: Callable[[], None] = lambda: None) -> FastAPI:
    """The service as an ASGI application; `ready` is called once it takes questions."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for run in service.runs.values():
            run.gatherer.start()
        ready()
        yield
        for run in service.runs.values():
            await run.gatherer.stop()

    app = FastAPI(
        title="tempograph",
        description="Missing facts of temporal knowledge graphs, with evidence.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=_PROBLEMS,
    )
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(Exception, _failed)

    app.include_router(_lookups(service))
    app.include_router(_questions(service))

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    async def docs() -> str:
        return docs_page(app.openapi())

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=STATIC))
    _with_problem_schema(app)
    return app


def _lookups(service: Service) -> APIRouter:
    """Names, facts and figures, which are there at once."""
    router = APIRouter()

    @router.get("/api/info")
    async def info() -> schema.Info:
        """The runs of this service and the limits of requests."""
        return schema.Info.model_validate({"version": __version__} | service.info())

    @router.get("/api/entities")
    async def entities(q: Text = "", limit: Limit = 10, run: Run = None) -> schema.FoundNames:
        """Entities whose names hold some letters, whatever their case and accents; the best first."""
        asked = service.run(run)
        return schema.FoundNames.model_validate(
            {"run": asked.name, "names": asked.entities.search(q, limit)}
        )

    @router.get("/api/relations")
    async def relations(q: Text = "", limit: Limit = 10, run: Run = None) -> schema.FoundNames:
        """Relations whose names hold some letters, whatever their case and accents; the best first."""
        asked = service.run(run)
        return schema.FoundNames.model_validate(
            {"run": asked.name, "names": asked.relations.search(q, limit)}
        )

    @router.get("/api/examples")
    async def examples(
        limit: Annotated[int, Query(ge=1, le=100)] = 4, run: Run = None
    ) -> schema.Examples:
        """Facts that are worth asking about: held-out ones of the busiest subjects, from the midst of the data."""
        asked = service.run(run)
        return schema.Examples.model_validate({"run": asked.name, "facts": asked.examples(limit)})

    @router.get("/api/timeline")
    async def timeline(
        entity: Text,
        from_: Annotated[
            str | None, Query(alias="from", max_length=1000, description="The first step.")
        ] = None,
        to: Annotated[str | None, Query(max_length=1000, description="The last step.")] = None,
        time: Annotated[
            str | None, Query(max_length=1000, description="A step whose window is wanted.")
        ] = None,
        reach: Annotated[
            int | None, Query(ge=0, le=10**6, description="Steps on each side of the time.")
        ] = None,
        limit: Limit = 200,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        run: Run = None,
    ) -> schema.EntityTimeline:
        """The facts of an entity by time, and the window that the model reads around a step.

        The period goes from one step to another, or as many steps as `reach` says to both sides of `time`.
        """
        asked = service.run(run)
        first, last = asked.period(from_, to, time, reach)
        found = asked.timeline(entity, first, last, time, limit, offset)
        return schema.EntityTimeline.model_validate({"run": asked.name} | found)

    @router.get("/api/snapshot")
    async def snapshot(
        entity: Text, time: Text, limit: Annotated[int, Query(ge=1, le=200)] = 30, run: Run = None
    ) -> schema.Snapshot:
        """An entity at one step: its busiest neighbours, up to a limit on nodes, and the facts among them."""
        asked = service.run(run)
        return schema.Snapshot.model_validate(
            {"run": asked.name} | asked.snapshot(entity, time, limit)
        )

    @router.get("/health")
    async def health() -> schema.Health:
        """Whether the service is up; needs no token."""
        return schema.Health(status="ok")

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> str:
        """Counts and times, as Prometheus reads them."""
        return service.metrics_text()

    return router


def _questions(service: Service) -> APIRouter:
    """What the model has to say, which waits for the thread of its run."""
    router = APIRouter()

    @router.post("/api/complete")
    async def complete(question: schema.Question) -> schema.Completed:
        """The best answers to a fact with one part missing: give two of subject, relation and object, and the time."""
        q, run = question, service.run(question.run)
        found = await run.complete(q.subject, q.relation, q.object, q.time, q.top, q.evidence)
        return schema.Completed.model_validate(
            {"run": run.name, "model": run.predictor.run.config.name} | asdict(found)
        )

    @router.post("/api/score")
    async def score(scoring: schema.Scoring) -> schema.Scored:
        """Score, probability and rank of facts, each as the answer for its object and for its subject."""
        run = service.run(scoring.run)
        found = await run.score(
            [(fact.subject, fact.relation, fact.object, fact.time) for fact in scoring.facts]
        )
        return schema.Scored.model_validate({"run": run.name, "facts": found})

    @router.post("/api/evidence")
    async def evidence(because: schema.Because) -> schema.Explained:
        """The facts that speak for a whole fact."""
        b, run = because, service.run(because.run)
        found = await run.evidence(b.subject, b.relation, b.object, b.time, b.asked, b.most)
        return schema.Explained.model_validate({"run": run.name} | found)

    return router


def _with_problem_schema(app: FastAPI) -> None:
    """Describe problems once, among the schemas that all routes refer to."""
    made = app.openapi()
    made["components"]["schemas"]["ProblemJson"] = schema.ProblemJson.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        made["components"]["schemas"].pop(name, None)


def respond(problem: Problem) -> Response:
    """A problem as a response."""
    return Response(problem.body(), problem.status, problem.headers, MEDIA_TYPE)


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return respond(error)


async def _unreadable(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # What was sent is not repeated: it may be large, or no text.
    said = "; ".join(
        f"{'.'.join(map(str, each['loc'][1:])) or each['loc'][0]}: {each['msg']}"
        for each in error.errors()[:5]
    )
    return respond(invalid(said))


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kinds = {404: "no-such-page", 405: "wrong-method"}
    return respond(
        Problem(
            error.status_code,
            kinds.get(error.status_code, "refused"),
            error.detail,
            headers=error.headers or {},
        )
    )


async def _failed(_: Request, __: Exception) -> Response:
    return respond(
        Problem(500, "failed", "something went wrong here; the log of the service says what")
    )
