"""What requests and responses have in common."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Name = Annotated[str, Field(max_length=1000)]
NameOrId = Name | Annotated[int, Field(ge=0, le=2**53)]
"""An entity, relation or time step by its name, or by its id in the dataset folder, from 0."""
Parts = tuple[NameOrId | None, NameOrId | None, NameOrId | None, NameOrId | None]
"""Subject, relation, object and time."""
Part = Literal["subject", "relation", "object", "time"]
_MAX_MEMBERS: Final = 20
EXAMPLE_FACT: Final = {
    "subject": "Talenne",
    "relation": "visits",
    "object": "President of Solalba",
    "time": "2030-03-01",
}
"""A fact of the demo data, for examples."""
EXAMPLE_INTERVAL: Final = {
    "subject": "Talenne",
    "relation": "member of",
    "object": "Solalba Union",
    "start": "2019",
    "end": "..",
}
"""A fact that holds for a while; the demo data have none."""


def example(**members: Any) -> ConfigDict:
    """The settings of a request that show it with these members in the API description."""
    return examples(members)


def examples(*bodies: dict[str, Any]) -> ConfigDict:
    """The settings of a request that show it with some sets of members each."""
    return ConfigDict(json_schema_extra={"examples": list(bodies)})


def is_null(value: str | None) -> bool:
    """Whether a member is left out of a response: events have no start and no end."""
    return value is None


class Request(BaseModel):
    """The body of a request."""

    # Unknown members are refused, so that a misspelled one is not silently ignored.
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_many_members(cls, members: Any) -> Any:
        # Each unknown member is an error, and a large body has room for very many.
        if isinstance(members, dict) and len(members) > _MAX_MEMBERS:
            raise ValueError(f"at most {_MAX_MEMBERS} members are possible, found {len(members):,}")
        return members


class Response(BaseModel):
    """The body of a response."""

    model_config = ConfigDict(use_attribute_docstrings=True)
