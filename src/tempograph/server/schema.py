"""What requests and answers look like, for FastAPI and its OpenAPI description."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tempograph.typing import Split

Name = Annotated[str, Field(max_length=1000)]
Part = Literal["subject", "relation", "object"]


class Asked(BaseModel):
    """A request; members that nobody knows are refused, so that a typing mistake is no silent default."""

    model_config = ConfigDict(extra="forbid", strict=True)

    run: Name | None = Field(None, description="A run of /api/info; by default the first.")


class Question(Asked):
    """A fact with one of subject, relation and object missing."""

    subject: Name | None = None
    relation: Name | None = None
    object: Name | None = None
    time: Name
    top: int = Field(
        10,
        ge=1,
        description="How many answers; /api/info has the limit, and with evidence it is 100.",
    )
    evidence: int = Field(0, ge=0, le=100, description="How many facts to show for each answer.")


class WholeFact(BaseModel):
    """A fact in names."""

    model_config = ConfigDict(extra="forbid", strict=True)

    subject: Name
    relation: Name
    object: Name
    time: Name


class Scoring(Asked):
    """Facts to be scored; /api/info has the limit."""

    facts: list[WholeFact]


class Because(Asked):
    """A whole fact, and which part of it is thought to be the answer."""

    subject: Name
    relation: Name
    object: Name
    time: Name
    asked: Part = "object"
    most: int = Field(10, ge=1, le=1000, description="How many facts.")


class EvidenceFact(BaseModel):
    """A train fact behind an answer, with the answer's loss of score without it, and its share where there is one."""

    subject: str
    relation: str
    object: str
    time: str
    share: float | None
    effect: float | None


class RankedAnswer(BaseModel):
    """One candidate. `known` is the split that holds the completed fact already."""

    rank: int
    name: str
    score: float
    probability: float | None
    known: Split | None
    why: str
    evidence: list[EvidenceFact]
    evidence_count: int


class Completed(BaseModel):
    """A question with its ranked answers; `asked` is the part that was missing."""

    run: str
    model: str
    subject: str | None
    relation: str | None
    object: str | None
    time: str
    asked: Part
    answers: list[RankedAnswer]
    notes: list[str]


class Standing(BaseModel):
    """How one side of a fact stands among the candidates that are not known to be right as well.

    The score is null where the fact is out of the question; of those with equal scores, each has their mean rank.
    """

    score: float | None
    probability: float | None
    rank: float


class ScoredFact(BaseModel):
    """A fact as the answer for its object, and as the answer for its subject."""

    known: Split | None
    object: Standing
    subject: Standing


class Scored(BaseModel):
    """Facts in the order of the request."""

    run: str
    facts: list[ScoredFact]


class Explained(BaseModel):
    """A fact and what speaks for it, best first."""

    run: str
    subject: str
    relation: str
    object: str
    time: str
    asked: Part
    known: Split | None
    why: str
    evidence: list[EvidenceFact]
    evidence_count: int


class FoundName(BaseModel):
    """A name, and in how many facts it is."""

    name: str
    facts: int


class FoundNames(BaseModel):
    """Names, best first."""

    run: str
    names: list[FoundName]


class KnownFact(BaseModel):
    """A fact of the data."""

    subject: str
    relation: str
    object: str
    time: str
    split: Split


class Examples(BaseModel):
    """Facts of the data that are worth asking about."""

    run: str
    facts: list[KnownFact]


class Count(BaseModel):
    """How many facts a step has."""

    time: str
    facts: int


class Span(BaseModel):
    """From one time step to another, both included."""

    model_config = ConfigDict(populate_by_name=True)

    from_: str = Field(alias="from")
    to: str


class EntityTimeline(BaseModel):
    """The facts of an entity by time: one page of them, and of all how many there are at each step."""

    model_config = ConfigDict(populate_by_name=True)

    run: str
    entity: str
    from_: str = Field(alias="from")
    to: str
    total: int
    counts: list[Count]
    facts: list[KnownFact]
    times: list[str] | None = Field(
        description="The labels of all steps of the period, unless there are very many."
    )
    window: Span | None = Field(description="What the model reads around the time that was given.")


class Snapshot(BaseModel):
    """An entity at one step: it comes first among the nodes, then its neighbours by their facts with it.

    `neighbours` and `facts` say how many there are without the limit on nodes and on edges.
    """

    run: str
    entity: str
    time: str
    nodes: list[FoundName]
    edges: list[KnownFact]
    neighbours: int
    facts: int


class Window(BaseModel):
    """Steps that a model reads around a question."""

    past: int
    future: int


class RunInfo(BaseModel):
    """One run. `times` has the labels of all steps, unless there are very many; `window` is null without a bound."""

    name: str
    model: str
    dataset: str
    protocol: str
    metrics: dict[str, dict[str, float]]
    entities: int
    relations: int
    facts: dict[str, int]
    steps: int
    first: str
    last: str
    times: list[str] | None
    window: Window | None
    probabilistic: bool
    finished: bool


class RequestLimits(BaseModel):
    """What one request may ask for."""

    body: int
    top: int
    facts: int
    seconds: float


class Info(BaseModel):
    """The runs, the first of which is the default."""

    version: str
    runs: list[RunInfo]
    limits: RequestLimits


class Health(BaseModel):
    """The service is up."""

    status: Literal["ok"]


class ProblemJson(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    part: str | None = Field(
        description="The part of the request that holds a name nothing goes by."
    )
    suggestions: list[str]
