"""Requests and responses of the HTTP API; answers and evidence come from `prediction.answers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, create_model, model_validator

from tempograph.prediction.answer import EvidenceFact
from tempograph.prediction.answers import Completion
from tempograph.typing import Split

Name = Annotated[str, Field(max_length=1000)]
Part = Literal["subject", "relation", "object"]
_MAX_MEMBERS: Final = 20
_FACT: Final = {
    "subject": "Talenne",
    "relation": "visits",
    "object": "President of Solalba",
    "time": "2030-03-01",
}
"""A fact of the demo data, for examples."""


def _example(**members: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [members]})


class _Request(BaseModel):
    # Unknown members are refused, so that a misspelled one is not silently ignored.
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_many_members(cls, members: Any) -> Any:
        # Each unknown member is an error, and a large body has room for very many.
        if isinstance(members, dict) and len(members) > _MAX_MEMBERS:
            raise ValueError(f"at most {_MAX_MEMBERS} members are possible, found {len(members):,}")
        return members


class _Response(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class RunRequest(_Request):
    """A request to a run."""

    run: Name | None = None
    """A run listed by /api/v1/info; by default, the first."""


class CompletionRequest(RunRequest):
    """A fact with one of subject, relation and object missing."""

    model_config = _example(subject="Talenne", relation="visits", time="2030-03-01", top=3)

    subject: Name | None = None
    relation: Name | None = None
    object: Name | None = None
    time: Name
    top: int = Field(10, ge=1)
    """Number of answers; the limit is in /api/v1/info, and 100 with evidence."""
    evidence: int = Field(0, ge=0, le=100)
    """Number of facts shown per answer."""
    new: bool = False
    """Whether to leave out answers that are known already."""


class FactRequest(_Request):
    """A complete fact, by name."""

    model_config = _example(**_FACT)

    subject: Name
    relation: Name
    object: Name
    time: Name


class ScoreRequest(RunRequest):
    """Facts to score; the limit is in /api/v1/info."""

    model_config = _example(facts=[_FACT])

    facts: list[FactRequest]

    @classmethod
    def with_limit(cls, max_facts: int) -> type[ScoreRequest]:
        """The same with at most so many facts; the first wrong fact ends the validation."""
        facts = Annotated[list[FactRequest], FailFast(), Field(max_length=max_facts)]
        return create_model(cls.__name__, __base__=cls, __doc__=cls.__doc__, facts=(facts, ...))


class EvidenceRequest(RunRequest, FactRequest):
    """A complete fact, and the part of it to explain as an answer."""

    model_config = _example(**_FACT, asked="subject")

    asked: Part = "object"
    most: int = Field(10, ge=1, le=1000)
    """Number of facts."""


@dataclass(frozen=True)
class ServedBy:
    """The run behind a response."""

    run: str
    """Name of the run."""
    model: str
    """Name of its model."""


@dataclass(frozen=True)
class CompletionResponse(Completion, ServedBy):
    """A query with its ranked answers; the missing part is null."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True)


class CandidateScore(_Response):
    """The object or subject of a fact, ranked among the candidates that are not known answers."""

    score: float | None
    """Null if the model rules the candidate out."""
    probability: float
    """The calibrated probability among the candidates that are not known answers."""
    rank: float
    """Ties share their mean rank."""


class ScoredFact(_Response):
    """A fact scored as the answer to its object query and to its subject query."""

    known: Split | None
    """The split that contains the fact; null if none does."""
    object: CandidateScore
    subject: CandidateScore


class ScoreResponse(_Response):
    """Scores in the order of the request."""

    run: str
    facts: list[ScoredFact]


class EvidenceResponse(_Response):
    """A fact and the train facts that matter most for it."""

    run: str
    subject: str
    relation: str
    object: str
    time: str
    asked: Part
    """The part that is explained as an answer."""
    known: Split | None
    """The split that contains the fact; null if none does."""
    why: str
    """What the evidence has in common, in a few words."""
    evidence: tuple[EvidenceFact, ...]
    evidence_count: int
    """Total number of train facts behind the answer."""
    legend: str
    """What the number beside a fact means, in one line."""


class NameCount(_Response):
    """A name and the number of facts that contain it."""

    name: str
    facts: int


class NamesResponse(_Response):
    """Names, best match first."""

    run: str
    names: list[NameCount]


class SplitFact(_Response):
    """A fact of the data and its split."""

    subject: str
    relation: str
    object: str
    time: str
    split: Split


class ExamplesResponse(_Response):
    """Facts of the data that make good queries."""

    run: str
    facts: list[SplitFact]


class StepCount(_Response):
    """The number of facts at a time step."""

    time: str
    facts: int


class Period(_Response):
    """From one time step to another, both included."""

    from_: str = Field(serialization_alias="from")
    to: str


class TimelineResponse(_Response):
    """The facts of an entity, in order of time."""

    run: str
    entity: str
    from_: str = Field(serialization_alias="from")
    to: str
    total: int
    """Number of facts in the period."""
    counts: list[StepCount]
    """Number of facts at each step that has any."""
    facts: list[SplitFact]
    """One page of the facts."""
    times: list[str] | None
    """Labels of all steps of the period; null if there are more than 20,000."""
    window: Period | None
    """The steps that the model reads around the given time; null without a time or a window."""


class SnapshotResponse(_Response):
    """An entity at one time step, its neighbors and the facts among them."""

    run: str
    entity: str
    time: str
    nodes: list[NameCount]
    """The entity, then its neighbors by the number of facts that they share with it."""
    edges: list[SplitFact]
    neighbours: int
    """Number of neighbors, including those beyond the limit."""
    facts: int
    """Number of facts among the nodes, including those beyond the limit."""


class RelationEdge(_Response):
    """A subject, a relation and an object, with the facts of a period that state it."""

    subject: str
    relation: str
    object: str
    facts: int
    first: str
    """The time of the first fact."""
    last: str


class NeighborhoodResponse(_Response):
    """Entities in a period, their neighbors and the edges among all of them."""

    run: str
    from_: str = Field(serialization_alias="from")
    to: str
    nodes: list[NameCount]
    """The entities, then their most frequent neighbors, with their facts in the period."""
    neighbors: list[NameCount]
    """The entities, each with its number of neighbors, including those beyond the limit."""
    edges: list[RelationEdge]
    """Those with the most facts first."""
    total_edges: int
    """Number of edges, including those beyond the limit."""


class WindowSize(_Response):
    """Number of steps that a model reads around a query."""

    past: int
    future: int


class RunInfo(_Response):
    """A run and its dataset."""

    name: str
    model: str
    dataset: str
    protocol: str
    metrics: dict[str, dict[str, float]]
    """Metrics of each evaluated split."""
    entities: int
    relations: int
    facts: dict[str, int]
    """Number of facts in each split."""
    steps: int
    first: str
    last: str
    times: list[str] | None
    """Labels of all steps; null if there are more than 20,000."""
    window: WindowSize | None
    """Null if the window is unbounded."""
    finished: bool
    """Whether training is finished."""


class RequestLimits(_Response):
    """Limits of one request."""

    body: int
    """Bytes."""
    top: int
    """Answers."""
    facts: int
    """Facts to score."""
    seconds: float


class InfoResponse(_Response):
    """The runs of the service, the default one first."""

    version: str
    runs: list[RunInfo]
    limits: RequestLimits


class HealthResponse(_Response):
    """The service is up."""

    status: Literal["ok"] = "ok"


class ProblemDetails(_Response):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    part: str | None
    """The part of the request with an unknown name."""
    index: int | None
    """The fact with an unknown name, counted from 0, if the request has a list of facts."""
    suggestions: list[str]
    """The closest matching names."""
