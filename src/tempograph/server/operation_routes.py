"""Routes for those who operate the service."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from tempograph.server import schema
from tempograph.server.api_description import PUBLIC, Tag
from tempograph.server.service import Service


def operation_routes(service: Service) -> APIRouter:
    """Health and metrics."""
    router = APIRouter(tags=[Tag.OPERATIONS])

    @router.get("/health", openapi_extra=PUBLIC)
    async def health() -> schema.HealthResponse:
        """Whether the service is up; needs no token."""
        return schema.HealthResponse()

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> str:
        """Metrics in the text format of Prometheus."""
        return service.metrics.text()

    return router
