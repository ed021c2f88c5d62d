"""What OpenAPI says about the service as a whole: prefix, tags, token, problems."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel

from tempograph.server.problems import KINDS, MEDIA_TYPE, problem_type
from tempograph.server.request_bodies import describe_models
from tempograph.server.schema.operations import ProblemDetails

PREFIX: Final = "/api/v1"
"""A change that breaks clients gets a new prefix."""


class Tag(StrEnum):
    """The groups of routes."""

    RUNS = "runs"
    FACTS = "facts"
    QUESTIONS = "questions"
    OPERATIONS = "operations"


TAGS: Final = [
    {"name": Tag.RUNS, "description": "The runs of the service and its limits."},
    {"name": Tag.FACTS, "description": "Names and known facts. These need no model."},
    {"name": Tag.QUESTIONS, "description": "Questions to the model of a run."},
    {"name": Tag.OPERATIONS, "description": "For those who operate the service."},
]
PUBLIC: Final[dict[str, Any]] = {"security": []}
"""A route that needs no token."""


def _describe_problems(descriptions: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    return {
        status: {"description": description, "content": content}
        for status, description in descriptions.items()
    }


PROBLEMS: Final = _describe_problems(
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
NOT_MODIFIED: Final[dict[int | str, dict[str, Any]]] = {
    304: {"description": "The client has this response already: `If-None-Match` names its `ETag`."}
}
RELOAD_PROBLEMS: Final = _describe_problems({409: "The run cannot be loaded again."})
BODY_PROBLEMS: Final = _describe_problems({415: "The body is not declared as JSON."})


def complete_description(
    app: FastAPI, requests: Iterable[type[BaseModel]], token_required: bool
) -> None:
    """Add the token, and the requests and problems that all routes refer to.

    Without a token, sending one does no harm.
    """
    api = app.openapi()
    schemas = api["components"]["schemas"]
    schemas |= describe_models(requests)
    problem = ProblemDetails.model_json_schema()
    problem["properties"]["type"] |= {
        "enum": [problem_type(kind) for kind in KINDS],
        "description": " ".join(f"{kind}: {text}" for kind, text in KINDS.items()),
    }
    schemas["ProblemDetails"] = problem
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    token = {"type": "http", "scheme": "bearer", "description": "The token of the service."}
    api["components"]["securitySchemes"] = {"token": token}
    api["security"] = [{"token": []}] if token_required else [{}, {"token": []}]
