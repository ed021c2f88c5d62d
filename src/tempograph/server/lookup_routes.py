"""Routes that look up what depends on a run alone: names, facts, calibration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic import StringConstraints

from tempograph.server.api_description import NOT_MODIFIED, PREFIX, Tag
from tempograph.server.conditional_route import ConditionalRoute
from tempograph.server.entity_summary import summarize_entity
from tempograph.server.request_bodies import client_of
from tempograph.server.schema.lookups import (
    CalibrationResponse,
    EntityResponse,
    ExamplesResponse,
    NamesResponse,
    NeighborhoodResponse,
    SnapshotResponse,
    TimelineResponse,
)
from tempograph.server.schema.operations import InfoResponse
from tempograph.server.served_run import ServedRun
from tempograph.server.service import Service
from tempograph.typing import Asked

RunName = Annotated[
    str | None,
    Query(max_length=1000, description=f"A run listed by {PREFIX}/info; by default, the first."),
]


async def lease_run(request: Request, run: RunName = None) -> AsyncIterator[ServedRun]:
    """The run that a request names, until its response is sent."""
    service: Service = request.app.state.service
    with service.lease(request, run) as served:
        yield served


LeasedRun = Annotated[ServedRun, Depends(lease_run)]
Text = Annotated[str, Query(max_length=1000)]
FirstStep = Annotated[
    str | None, Query(alias="from", max_length=1000, description="The first step.")
]
LastStep = Annotated[str | None, Query(max_length=1000, description="The last step.")]
Limit = Annotated[int, Query(ge=1, le=1000)]


def lookup_routes(service: Service) -> APIRouter:
    """The runs, their names, their facts and their calibration."""
    router = APIRouter(prefix=PREFIX, route_class=ConditionalRoute, responses=NOT_MODIFIED)

    @router.get("/info", tags=[Tag.RUNS])
    async def info() -> InfoResponse:
        """The runs of this service and its request limits."""
        return service.info()

    @router.get("/entities", tags=[Tag.FACTS])
    async def entities(served: LeasedRun, q: Text = "", limit: Limit = 10) -> NamesResponse:
        """Entities whose names contain a text, ignoring case and accents, best match first."""
        names = served.browser.entities
        return await served.look_up(lambda: served.browser.search(names, q, limit))

    @router.get("/relations", tags=[Tag.FACTS])
    async def relations(served: LeasedRun, q: Text = "", limit: Limit = 10) -> NamesResponse:
        """Relations whose names contain a text, ignoring case and accents, best match first."""
        names = served.browser.relations
        return await served.look_up(lambda: served.browser.search(names, q, limit))

    @router.get("/examples", tags=[Tag.FACTS])
    async def examples(
        served: LeasedRun, limit: Annotated[int, Query(ge=1, le=100)] = 4
    ) -> ExamplesResponse:
        """Example queries: held-out facts of frequent subjects, from the middle of the data."""
        return await served.look_up(lambda: served.browser.examples(limit))

    @router.get("/timeline", tags=[Tag.FACTS])
    async def timeline(
        served: LeasedRun,
        entity: Text,
        from_: FirstStep = None,
        to: LastStep = None,
        time: Annotated[
            str | None, Query(max_length=1000, description="Return the window around this step.")
        ] = None,
        reach: Annotated[
            int | None, Query(ge=0, le=10**6, description="Steps on each side of the time.")
        ] = None,
        limit: Limit = 200,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    ) -> TimelineResponse:
        """The facts of an entity by time, and the window that the model reads around a step.

        Give the period by its first and last step, or by `time` and `reach`.
        """
        browser = served.browser

        def read() -> TimelineResponse:
            period = browser.period(from_, to, time, reach)
            return browser.timeline(entity, period, time, limit, offset)

        return await served.look_up(read)

    @router.get("/entity", tags=[Tag.FACTS])
    async def entity_summary(
        served: LeasedRun,
        entity: Text,
        from_: FirstStep = None,
        to: LastStep = None,
        time: Annotated[
            str | None, Query(max_length=1000, description="Return the facts nearest to this step.")
        ] = None,
        limit: Limit = 20,
    ) -> EntityResponse:
        """An entity in a period: its relations, its partners over time, and its figures."""

        def read() -> EntityResponse:
            period = served.browser.period(from_, to, None, None)
            return summarize_entity(served.browser, served.ranks, entity, period, time, limit)

        return await served.look_up(read)

    @router.get("/snapshot", tags=[Tag.FACTS])
    async def snapshot(
        served: LeasedRun, entity: Text, time: Text, limit: Annotated[int, Query(ge=1, le=200)] = 30
    ) -> SnapshotResponse:
        """An entity at one step with its most frequent neighbors, at most `limit` nodes in all."""
        return await served.look_up(
            lambda: served.browser.snapshot(entity, time, limit, 10 * limit)
        )

    @router.get("/neighborhood", tags=[Tag.FACTS])
    async def neighborhood(
        served: LeasedRun,
        entity: Annotated[
            list[Annotated[str, StringConstraints(max_length=1000)]],
            Query(min_length=1, max_length=20, description="An entity, or several."),
        ],
        time: Text,
        reach: Annotated[
            int, Query(ge=0, le=10**6, description="Steps on each side of the time.")
        ] = 0,
        limit: Annotated[int, Query(ge=1, le=50, description="Neighbors of each entity.")] = 12,
    ) -> NeighborhoodResponse:
        """Entities in a period, the most frequent neighbors of each, and the edges among them."""
        browser = served.browser

        def read() -> NeighborhoodResponse:
            period = browser.period(None, None, time, reach)
            return browser.neighborhood(entity, period, limit, 1000)

        return await served.look_up(read)

    @router.get("/calibration", tags=[Tag.QUESTIONS])
    async def calibration(
        served: LeasedRun,
        request: Request,
        asked: Annotated[Asked, Query(description="What a question asks for.")] = "entity",
    ) -> CalibrationResponse:
        """How far probabilities can be trusted, measured on valid facts."""
        questions = served.predictor.run.questions
        await served.fit(f"calibration of {asked}", lambda: questions.calibrator(asked))
        found = await served.work(lambda: questions.calibration(asked), client_of(request))
        return CalibrationResponse(run=served.name, asked=asked, calibration=found)

    return router
