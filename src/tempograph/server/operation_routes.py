"""Routes for those who operate the service."""

from __future__ import annotations

from typing import Protocol

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from tempograph.server.api_description import BODY_PROBLEMS, PREFIX, PUBLIC, RELOAD_PROBLEMS, Tag
from tempograph.server.request_bodies import describe_body, read_body
from tempograph.server.schema.operations import HealthResponse, ReloadResponse
from tempograph.server.schema.request_models import ReloadRequest
from tempograph.server.service import Service


class Operations(Protocol):
    """Who decides on the state of a service: itself, or the process that started it."""

    def check_ready(self) -> None:
        """Raise a problem if the service cannot take a request."""

    async def reload(self, name: str | None = None) -> list[str]:
        """Load a run, or all, from its folder again; return the names."""


def operation_routes(service: Service, operations: Operations) -> APIRouter:
    """Health, metrics and reloading."""
    router = APIRouter(tags=[Tag.OPERATIONS])

    @router.get("/health", openapi_extra=PUBLIC)
    @router.get("/health/live", openapi_extra=PUBLIC)
    async def live() -> HealthResponse:
        """Whether the service is up; needs no token."""
        return HealthResponse()

    @router.get("/health/ready", openapi_extra=PUBLIC)
    async def ready() -> HealthResponse:
        """Whether every run can take a request; otherwise 503. Needs no token."""
        operations.check_ready()
        return HealthResponse()

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> str:
        """Metrics in the text format of Prometheus."""
        return service.metrics.text()

    @router.post(
        f"{PREFIX}/admin/reload",
        openapi_extra=describe_body(ReloadRequest),
        responses=BODY_PROBLEMS | RELOAD_PROBLEMS,
    )
    async def reload(request: Request) -> ReloadResponse:
        """Load a run, or all, from its folder again; requests in progress finish on the old run."""
        body = await read_body(request, ReloadRequest, service.threads)
        return ReloadResponse(runs=await operations.reload(body.run))

    return router
