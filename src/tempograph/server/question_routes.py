"""Routes that ask the model of a run, and wait for its thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from typing import Final, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel

from tempograph.server.api_description import BODY_PROBLEMS, PREFIX, Tag
from tempograph.server.batch_completions import complete_batch
from tempograph.server.batch_scores import score_facts
from tempograph.server.completions import complete, explain
from tempograph.server.json_responses import encode, encode_list, respond, respond_large
from tempograph.server.line_stream import LINES, stream_lines
from tempograph.server.request_bodies import client_of, describe_body, describe_lines, read_body
from tempograph.server.scans import scan_forecast, scan_missing, scan_surprising
from tempograph.server.schema.request_models import (
    BatchCompletionRequest,
    CompletionRequest,
    EvidenceRequest,
    ForecastRequest,
    MissingRequest,
    ScoreRequest,
    SurprisingRequest,
    WhatIfRequest,
    with_limit,
)
from tempograph.server.schema.response_models import (
    BatchCompletionResponse,
    CompletionResponse,
    EvidenceResponse,
    ScoreResponse,
    WhatIfResponse,
)
from tempograph.server.schema.scan_lines import ForecastLine, MissingLine, SurprisingLine
from tempograph.server.served_run import ServedRun
from tempograph.server.service import Service
from tempograph.server.what_if import what_if

_MAX_SMALL: Final = 100
"""Answers and facts of evidence in a response that is encoded faster than on another thread."""
Scan = TypeVar("Scan", MissingRequest, SurprisingRequest, ForecastRequest)


def question_routes(service: Service) -> APIRouter:
    """Answers, scores and evidence."""
    router = APIRouter(prefix=PREFIX, responses=BODY_PROBLEMS, tags=[Tag.QUESTIONS])
    threads, max_facts = service.threads, service.limits.facts
    batch_request = with_limit(BatchCompletionRequest, "questions", max_facts)
    score_request = with_limit(ScoreRequest, "facts", max_facts)

    @router.post(
        "/complete",
        openapi_extra=describe_body(CompletionRequest),
        response_model=CompletionResponse,
    )
    async def post_complete(request: Request) -> Response:
        """The best answers for the missing part of a fact: who, what, with whom or when.

        Give three of subject, relation, object and time.
        """
        body = await read_body(request, CompletionRequest, threads)
        with service.lease(request, body.run) as run:
            completion = await complete(run, body, client_of(request))
        if body.top * (1 + body.evidence) <= _MAX_SMALL:
            return respond(completion)
        return await respond_large(request, partial(encode, completion), threads)

    @router.post(
        "/complete/batch",
        openapi_extra=describe_body(batch_request),
        response_model=BatchCompletionResponse,
    )
    async def post_complete_batch(request: Request) -> Response:
        """The best answers to each of many questions, in their order."""
        body = await read_body(request, batch_request, threads)
        with service.lease(request, body.run) as run:
            results = await complete_batch(run, body, client_of(request))
            head = BatchCompletionResponse(run=run.name, model=run.model_name, results=[])
        return await respond_large(request, partial(encode_list, head, results), threads)

    @router.post("/score", openapi_extra=describe_body(score_request), response_model=ScoreResponse)
    async def post_score(request: Request) -> Response:
        """The score, probability and rank of facts, for both query directions."""
        body = await read_body(request, score_request, threads)
        with service.lease(request, body.run) as run:
            facts = await score_facts(run, body, client_of(request))
            head = ScoreResponse(run=run.name, facts=[])
        return await respond_large(request, partial(encode_list, head, facts), threads)

    @router.post(
        "/evidence", openapi_extra=describe_body(EvidenceRequest), response_model=EvidenceResponse
    )
    async def post_evidence(request: Request) -> Response:
        """The train facts behind a complete fact, and how it ranks."""
        body = await read_body(request, EvidenceRequest, threads)
        with service.lease(request, body.run) as run:
            return respond(await explain(run, body, client_of(request)))

    @router.post(
        "/what-if", openapi_extra=describe_body(WhatIfRequest), response_model=WhatIfResponse
    )
    async def post_what_if(request: Request) -> Response:
        """How the answers to a question move when facts are added and removed.

        Nothing is kept: the next request is answered with the facts of the run.
        """
        body = await read_body(request, WhatIfRequest, threads)
        with service.lease(request, body.run) as run:
            return respond(await what_if(run, body, client_of(request)))

    @router.post(
        "/missing",
        openapi_extra=describe_body(MissingRequest),
        response_class=StreamingResponse,
        responses=describe_lines(LINES, MissingLine),
    )
    async def post_missing(request: Request) -> StreamingResponse:
        """The facts that are most likely missing from the data, most likely first.

        The response is a line of JSON for each step of progress, then one for each fact, then one
        for the end.
        """
        body = await read_body(request, MissingRequest, threads)
        return await _stream(service, request, body, scan_missing)

    @router.post(
        "/surprising",
        openapi_extra=describe_body(SurprisingRequest),
        response_class=StreamingResponse,
        responses=describe_lines(LINES, SurprisingLine),
    )
    async def post_surprising(request: Request) -> StreamingResponse:
        """The known facts that the model finds least plausible, worst first.

        The response has the same lines as that of a search for missing facts.
        """
        body = await read_body(request, SurprisingRequest, threads)
        return await _stream(service, request, body, scan_surprising)

    @router.post(
        "/forecast",
        openapi_extra=describe_body(ForecastRequest),
        response_class=StreamingResponse,
        responses=describe_lines(LINES, ForecastLine),
    )
    async def post_forecast(request: Request) -> StreamingResponse:
        """What is likely to happen at some steps, by default at the one after the data.

        The facts come by step, the most likely first. The response has the same lines as that of a
        search for missing facts; its last line says what the forecast rests on.
        """
        body = await read_body(request, ForecastRequest, threads)
        return await _stream(service, request, body, scan_forecast)

    return router


async def _stream(
    service: Service,
    request: Request,
    body: Scan,
    scan: Callable[[ServedRun, Scan, str], AsyncIterator[BaseModel]],
) -> StreamingResponse:
    async def lines() -> AsyncGenerator[BaseModel, None]:
        with service.lease(request, body.run) as run:
            async for line in scan(run, body, client_of(request)):
                yield line

    return await stream_lines(lines(), service.limits.seconds / 3)
