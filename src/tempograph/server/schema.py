"""Requests and responses of the HTTP API; answers and evidence come from `prediction.answers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, create_model, model_validator

from tempograph.evaluation.calibration import Calibration
from tempograph.prediction.answer import EvidenceFact
from tempograph.prediction.answers import Completion
from tempograph.prediction.forecast import ForecastFact
from tempograph.typing import SPLITS, Asked, Split, Task

Name = Annotated[str, Field(max_length=1000)]
NameOrId = Name | Annotated[int, Field(ge=0, le=2**53)]
"""An entity, relation or time step by its name, or by its id in the dataset folder, from 0."""
Parts = tuple[NameOrId | None, NameOrId | None, NameOrId | None, NameOrId | None]
"""Subject, relation, object and time."""
Part = Literal["subject", "relation", "object", "time"]
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


def _is_null(value: str | None) -> bool:
    """Whether a member is left out of a response: events have no start and no end."""
    return value is None


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


class ReloadRequest(_Request):
    """The run to load again."""

    model_config = _example(run="temp-gru")

    run: Name | None = None
    """A run listed by /api/v1/info; by default, all."""


class QuestionRequest(_Request):
    """A fact with one of its four parts missing, or null. A part is a name, or an id from 0."""

    subject: NameOrId | None = None
    relation: NameOrId | None = None
    object: NameOrId | None = None
    time: NameOrId | None = None

    @property
    def parts(self) -> Parts:
        """Subject, relation, object and time."""
        return (self.subject, self.relation, self.object, self.time)


class AnswerOptions(RunRequest):
    """How many answers to a question, and which."""

    top: int = Field(10, ge=1)
    """Number of answers; the limit is in /api/v1/info, and 100 with evidence."""
    evidence: int = Field(0, ge=0, le=100)
    """Number of facts shown per answer."""
    new: bool = False
    """Whether to leave out answers that are known already."""


class CompletionRequest(AnswerOptions, QuestionRequest):
    """A fact with one of its four parts missing."""

    model_config = _example(subject="Talenne", relation="visits", time="2030-03-01", top=3)

    first: NameOrId | None = None
    """The first step that may be the answer, if the time is missing."""
    last: NameOrId | None = None
    """The last step that may be the answer, if the time is missing."""
    until: NameOrId | None = None
    """Ask about the period from `time` to here: who at any of its steps."""


class BatchCompletionRequest(AnswerOptions):
    """Questions to answer in one request; the limit is that of facts in /api/v1/info."""

    model_config = _example(
        questions=[
            {"subject": "Talenne", "relation": "visits", "time": "2030-03-01"},
            {"subject": "Talenne", "relation": "visits", "object": "President of Solalba"},
        ]
    )

    questions: list[QuestionRequest]
    strict: bool = True
    """Whether a wrong question is a problem with its `index`; otherwise, it has an `error`."""


class FactRequest(_Request):
    """A complete fact. A part is a name, or an id from 0."""

    model_config = _example(**_FACT)

    subject: NameOrId
    relation: NameOrId
    object: NameOrId
    time: NameOrId

    @property
    def parts(self) -> Parts:
        """Subject, relation, object and time."""
        return (self.subject, self.relation, self.object, self.time)


class GivenFact(_Request):
    """A fact to score. A part that is null is an error of this fact."""

    model_config = _example(**_FACT)

    subject: NameOrId | None
    relation: NameOrId | None
    object: NameOrId | None
    time: NameOrId | None

    @property
    def parts(self) -> Parts:
        """Subject, relation, object and time."""
        return (self.subject, self.relation, self.object, self.time)


class ScoreRequest(RunRequest):
    """Facts to score; the limit is in /api/v1/info."""

    model_config = _example(facts=[_FACT])

    facts: list[GivenFact]
    ranks: bool = True
    """Whether to compute probabilities and ranks; without them, scoring is faster."""
    strict: bool = True
    """Whether a wrong fact is a problem with its `index`; otherwise, it has an `error`."""


Limited = TypeVar("Limited", bound=BaseModel)


def with_limit(model: type[Limited], member: str, max_items: int) -> type[Limited]:
    """A request with at most so many items in a list; the first wrong item ends the validation."""
    kind = model.model_fields[member].annotation
    items = Annotated[kind, FailFast(), Field(max_length=max_items)]  # type: ignore[valid-type]
    members: dict[str, Any] = {member: (items, ...)}
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, **members)


class EvidenceRequest(RunRequest, FactRequest):
    """A complete fact, and the part of it to explain as an answer."""

    model_config = _example(**_FACT, asked="subject")

    asked: Part = "object"
    most: int = Field(10, ge=0, le=1000)
    """Number of facts."""


class WhatIfRequest(RunRequest, QuestionRequest):
    """A fact with one of its four parts missing, and other facts to answer it with."""

    model_config = _example(
        subject="Talenne", relation="visits", time="2030-03-01", removed=[_FACT], top=3
    )

    added: Annotated[list[FactRequest], Field(max_length=100)] = []
    """Facts that the model shall use besides its own."""
    removed: Annotated[list[FactRequest], Field(max_length=100)] = []
    """Facts that the model shall not use."""
    top: int = Field(10, ge=1, le=100)
    """Number of answers, before and after the change."""


class MissingRequest(RunRequest):
    """Where to search for facts that are missing from the data: everywhere, or in some part."""

    model_config = _example(entity="Talenne", first="2030-03-01", top=20)

    entity: NameOrId | None = None
    """Search facts of this entity."""
    relations: Annotated[list[NameOrId], Field(max_length=1000)] | None = None
    """Search facts of these relations."""
    first: NameOrId | None = None
    """The first step."""
    last: NameOrId | None = None
    """The last step."""
    top: int = Field(100, ge=1)
    """Number of facts; the limit is that of facts in /api/v1/info."""
    at_least: float | None = Field(None, gt=0, le=1)
    """Return every fact with at least this probability instead, in the order of time."""


class SurprisingRequest(RunRequest):
    """Which known facts to search for those that the model finds least plausible."""

    model_config = _example(splits=["test"], top=20)

    splits: Annotated[list[Split], Field(max_length=len(SPLITS))] = list(SPLITS)
    top: int = Field(100, ge=1)
    """Number of facts; the limit is that of facts in /api/v1/info."""


class ForecastRequest(RunRequest):
    """Which steps to forecast, and of which facts; the run must be one of task forecast."""

    model_config = _example(days=3, entity="Talenne", top=5, evidence=2)

    date: NameOrId | None = None
    """The first step, such as 2015-01-01 or +3; by default the one after the data."""
    days: int = Field(1, ge=1, le=366)
    """Number of steps."""
    entity: NameOrId | None = None
    """Forecast facts of this entity."""
    relations: Annotated[list[NameOrId], Field(max_length=1000)] | None = None
    """Forecast facts of these relations."""
    top: int = Field(20, ge=1)
    """Number of facts of each step; the limit on facts in /api/v1/info is for all steps."""
    min_probability: float = Field(0.0, ge=0, le=1)
    """Leave out facts that are less likely."""
    evidence: int = Field(0, ge=0, le=100)
    """Number of known facts behind each fact."""


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


class BatchResult(_Response):
    """The answers to one question of a batch, or what is wrong with it."""

    completion: Completion | None
    error: str | None


class BatchCompletionResponse(_Response):
    """The answers to questions, in the order of the request."""

    run: str
    model: str
    results: list[BatchResult]


class CandidateScore(_Response):
    """The object or subject of a fact, ranked among the candidates that are not known answers."""

    score: float | None
    """Null if the model rules the candidate out."""
    probability: float | None
    """The calibrated probability among the candidates that are not known answers."""
    rank: float | None
    """Ties share their mean rank."""


class FactNames(_Response):
    """A fact in names; a part that has none is as given."""

    subject: str | None
    relation: str | None
    object: str | None
    time: str | None


class ScoredFact(_Response):
    """A fact scored as the answer to its object query and to its subject query."""

    fact: FactNames
    known: Split | None
    """The split that contains the fact; null if none does."""
    object: CandidateScore | None
    """Null if the fact has an error."""
    subject: CandidateScore | None
    error: str | None
    """Why the fact cannot be scored."""


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
    rank: int
    """1 plus the number of candidates with a higher score."""
    score: float | None
    """Null if the model rules the candidate out."""
    probability: float
    """The calibrated probability of this candidate among all candidates."""
    known: Split | None
    """The split that contains the fact; null if none does."""
    since: str | None
    """Since when the fact is known to hold; null for events."""
    until: str | None
    """Until when it is known to hold."""
    why: str
    """What the evidence has in common, in a few words."""
    evidence: tuple[EvidenceFact, ...]
    evidence_count: int
    """Total number of train facts behind the answer."""
    legend: str
    """What the number beside a fact means, in one line."""
    notes: tuple[str, ...]
    """What a reader should know about this answer."""


class MovedAnswer(_Response):
    """A candidate among the best before or after a change of facts."""

    name: str
    rank_before: int
    """1 plus the number of candidates with a higher score."""
    rank_after: int
    probability_before: float
    """The calibrated probability of this candidate among all candidates."""
    probability_after: float


class WhatIfResponse(_Response):
    """The best answers to a question before and after a change of facts."""

    run: str
    model: str
    asked: Part
    answers: list[MovedAnswer]
    """Those that are among the best before or after, in their order after the change."""


class ProblemDetails(_Response):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    part: str | None
    """The part of the request with an unknown name."""
    index: int | None
    """The fact or question that is wrong, counted from 0, if the request has a list of them."""
    suggestions: list[str]
    """The closest matching names."""


class MissingFact(_Response):
    """A fact that is not in the data, and how likely it happened."""

    subject: str
    relation: str
    object: str
    time: str
    probability: float
    other_times: tuple[str, ...] = ()
    """The next best steps of the same subject, relation and object; none with `at_least`."""
    other_probabilities: tuple[float, ...] = ()


class SurprisingFact(_Response):
    """A known fact that the model finds implausible."""

    subject: str
    relation: str
    object: str
    time: str
    start: str | None = Field(None, exclude_if=_is_null)
    """Since when the fact holds: `..` if open, empty if unknown; not there for an event."""
    end: str | None = Field(None, exclude_if=_is_null)
    """Until when it holds; its scores and ranks are means over its steps."""
    known: Split
    object_score: float | None
    object_probability: float
    object_rank: float
    subject_score: float | None
    subject_probability: float
    subject_rank: float
    surprise: float
    """The mean of -log p of both sides."""


class ProgressLine(_Response):
    """How far a scan is."""

    event: Literal["progress"] = "progress"
    done: int
    total: int


class MissingLine(_Response):
    """One result of a search for missing facts."""

    event: Literal["fact"] = "fact"
    fact: MissingFact


class SurprisingLine(_Response):
    """One result of a search for surprising facts."""

    event: Literal["fact"] = "fact"
    fact: SurprisingFact


class ForecastLine(_Response):
    """One fact that may happen."""

    event: Literal["fact"] = "fact"
    fact: ForecastFact


class ErrorLine(_Response):
    """The last line of a scan that failed after its first line was sent."""

    event: Literal["error"] = "error"
    problem: ProblemDetails


class EndLine(_Response):
    """The last line of a scan; without it, the scan was cut off."""

    event: Literal["end"] = "end"
    facts: int
    """Number of facts."""


class ForecastEndLine(EndLine):
    """The last line of a forecast."""

    steps: tuple[str, ...]
    """Labels of the steps that the forecast is for."""
    known_until: str
    """Label of the last step whose facts were known."""
    notes: tuple[str, ...]
    """What a reader should know about the forecast."""


class CalibrationResponse(_Response):
    """How far the probabilities of a kind of question can be trusted."""

    run: str
    asked: Asked
    calibration: Calibration


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
    """Of a fact that holds for a while, its first known step."""
    split: Split
    start: str | None = Field(None, exclude_if=_is_null)
    """Since when the fact holds: `..` if open, empty if unknown; not there for an event."""
    end: str | None = Field(None, exclude_if=_is_null)
    """Until when it holds, likewise."""


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


class EntityRelation(_Response):
    """A relation of an entity, with its facts in a period."""

    relation: str
    as_subject: int
    """Number of facts with the entity as subject; a fact with itself counts here."""
    as_object: int
    first: str
    """The time of the first fact."""
    last: str


class EntityPartner(_Response):
    """An entity that shares facts with another one in a period."""

    name: str
    facts: int
    first: str
    """The time of the first fact."""
    last: str
    counts: list[int]
    """Number of facts in each of the `parts` of the period."""


class EntityFigures(_Response):
    """How well the run ranks the facts of an entity, as it was measured."""

    queries: int
    """Number of queries: two for each fact."""
    mrr: float
    hits_at_10: float


class EntityResponse(_Response):
    """An entity in a period: its facts, relations, partners and figures."""

    run: str
    entity: str
    from_: str = Field(serialization_alias="from")
    to: str
    facts: dict[str, int]
    """Number of facts in each split."""
    steps: int
    """Number of steps with facts."""
    relations: list[EntityRelation]
    """Those with the most facts first."""
    total_relations: int
    """Number of relations, including those beyond the limit."""
    partners: list[EntityPartner]
    """Those with the most facts first."""
    total_partners: int
    """Number of partners, including those beyond the limit."""
    parts: list[Period]
    """The period in parts of the same number of steps, or nearly."""
    counts: list[int]
    """Number of facts in each part."""
    near: list[SplitFact]
    """The facts at the given time; if there are none, those of the nearest steps with facts, before
    and after. Empty without a time."""
    figures: dict[str, EntityFigures]
    """Figures of each split that was ranked, whatever the period."""


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
    task: Task
    """Whether the run completes facts or forecasts them."""


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
    """The service is up, or ready."""

    status: Literal["ok"] = "ok"


class ReloadResponse(_Response):
    """What was loaded again."""

    runs: list[str]
