"""Routes that ask the model of a run, and wait for its thread."""

from __future__ import annotations

from fastapi import APIRouter, Request

from tempograph.server import schema
from tempograph.server.api_description import BODY_PROBLEMS, PREFIX, Tag
from tempograph.server.request_bodies import describe_body, read_body
from tempograph.server.service import Service


def question_routes(service: Service) -> APIRouter:
    """Answers, scores and evidence."""
    router = APIRouter(prefix=PREFIX, responses=BODY_PROBLEMS, tags=[Tag.QUESTIONS])
    threads, score_request = service.threads, schema.ScoreRequest.with_limit(service.limits.facts)

    @router.post("/complete", openapi_extra=describe_body(schema.CompletionRequest))
    async def complete(request: Request) -> schema.CompletionResponse:
        """The best answers for the missing part of a fact.

        Give the time and two of subject, relation and object.
        """
        body = await read_body(request, schema.CompletionRequest, threads)
        return await service.run(body.run).complete(body, _client(request))

    @router.post("/score", openapi_extra=describe_body(score_request))
    async def score(request: Request) -> schema.ScoreResponse:
        """The score, probability and rank of facts, for both query directions."""
        body = await read_body(request, score_request, threads)
        return await service.run(body.run).score(body.facts, _client(request))

    @router.post("/evidence", openapi_extra=describe_body(schema.EvidenceRequest))
    async def evidence(request: Request) -> schema.EvidenceResponse:
        """The train facts behind a complete fact."""
        body = await read_body(request, schema.EvidenceRequest, threads)
        return await service.run(body.run).explain(body, _client(request))

    return router


def _client(request: Request) -> str:
    """Who asks, for a fair share of the run: the address of the other side."""
    return request.client.host if request.client else ""
