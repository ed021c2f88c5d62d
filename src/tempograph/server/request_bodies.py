"""Request bodies: JSON that conforms to a schema, or the problem with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.requests import Request

from tempograph.server.lookup_threads import LookupThreads
from tempograph.server.problems import Problem, invalid

Body = TypeVar("Body", bound=BaseModel)
_JSON: Final = re.compile(r"application/([\w.-]+\+)?json\s*(;.*)?", re.IGNORECASE)
_SMALL_BODY: Final = 2**14
"""Bytes that are parsed faster than they are handed to another thread."""
_MAX_ERRORS: Final = 5
_MAX_DETAIL: Final = 500
_REFERENCE: Final = "#/components/schemas/{model}"


def client_of(request: Request) -> str:
    """Who asks, for a fair share of the run: the address of the other side."""
    return request.client.host if request.client else ""


async def read_body(request: Request, model: type[Body], threads: LookupThreads) -> Body:
    """The body of a request; a large one is parsed on a thread."""
    kind = request.headers.get("content-type", "")
    if not _JSON.fullmatch(kind.strip()):
        detail = "send JSON with the header Content-Type: application/json"
        raise Problem(415, "no-json", detail, headers={"Accept": "application/json"})
    body = await request.body()
    if len(body) <= _SMALL_BODY:
        return _parse(body, model)
    return await threads.run(lambda: _parse(body, model))


def _parse(body: bytes, model: type[Body]) -> Body:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        if errors[0]["type"] == "json_invalid":
            reason = errors[0]["ctx"]["error"]
            raise Problem(400, "broken-json", f"the body is not JSON: {reason}") from None
        raise invalid(describe_errors(errors)) from None


def describe_errors(errors: Iterable[Mapping[str, Any]]) -> str:
    """The first errors of a validation, without the input: it may be large, or not be text."""
    messages = [f"{_member(error['loc'])}: {error['msg']}" for error in list(errors)[:_MAX_ERRORS]]
    text = "; ".join(messages)
    return text if len(text) <= _MAX_DETAIL else f"{text[:_MAX_DETAIL]}..."


def _member(location: Sequence[int | str]) -> str:
    """The member of a body, without which kind of value was tried."""
    parts = [str(part) for part in location if not str(part).startswith("constrained-")]
    return ".".join(parts) or "body"


def describe_body(model: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says about a route with such a body."""
    schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def describe_lines(media_type: str, fact_line: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says about a route that sends lines of JSON: of progress, facts and the end."""
    lines = [
        {"$ref": _REFERENCE.format(model=name)} for name in ("ProgressLine", "EndLine", "ErrorLine")
    ]
    fact = {"$ref": _REFERENCE.format(model=fact_line.__name__)}
    return {200: {"content": {media_type: {"schema": {"anyOf": [fact, *lines]}}}}}


def describe_models(models: Iterable[type[BaseModel]]) -> dict[str, Any]:
    """The schemas of models by name, with those that they refer to."""
    _, schema = models_json_schema(
        [(model, "validation") for model in models], ref_template=_REFERENCE
    )
    definitions: dict[str, Any] = schema["$defs"]
    return definitions
