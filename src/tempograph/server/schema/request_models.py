"""The bodies of requests: questions, facts to score, and searches for facts."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, FailFast, Field, create_model

from tempograph.data.spans import SURELY_UNKNOWN
from tempograph.server.schema.members import (
    EXAMPLE_FACT,
    EXAMPLE_INTERVAL,
    Name,
    NameOrId,
    Part,
    Parts,
    Request,
    example,
    examples,
)
from tempograph.typing import SPLITS, Split

_QUESTION: Final = {"subject": "Talenne", "relation": "visits", "time": "2030-03-01"}


class RunRequest(Request):
    """A request to a run."""

    run: Name | None = None
    """A run listed by /api/v1/info; by default, the first."""


class ReloadRequest(Request):
    """The run to load again."""

    model_config = example(run="temp-gru")

    run: Name | None = None
    """A run listed by /api/v1/info; by default, all."""


class QuestionRequest(Request):
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

    model_config = example(subject="Talenne", relation="visits", time="2030-03-01", top=3)

    first: NameOrId | None = None
    """The first step that may be the answer, if the time is missing."""
    last: NameOrId | None = None
    """The last step that may be the answer, if the time is missing."""
    until: NameOrId | None = None
    """Ask about the period from `time` to here: who at any of its steps."""


class BatchCompletionRequest(AnswerOptions):
    """Questions to answer in one request; the limit is that of facts in /api/v1/info."""

    model_config = example(
        questions=[
            {"subject": "Talenne", "relation": "visits", "time": "2030-03-01"},
            {"subject": "Talenne", "relation": "visits", "object": "President of Solalba"},
        ]
    )

    questions: list[QuestionRequest]
    strict: bool = True
    """Whether a wrong question is a problem with its `index`; otherwise, it has an `error`."""


class FactRequest(Request):
    """A complete fact. A part is a name, or an id from 0."""

    model_config = example(**EXAMPLE_FACT)

    subject: NameOrId
    relation: NameOrId
    object: NameOrId
    time: NameOrId

    @property
    def parts(self) -> Parts:
        """Subject, relation, object and time."""
        return (self.subject, self.relation, self.object, self.time)


class FactTime(Request):
    """When a fact holds: at a time or, in a run whose facts hold for a while, from start to end."""

    time: NameOrId | None = None
    """The step of an event, or a moment. Beside a start and an end, it does not count."""
    start: NameOrId | None = None
    """Since when the fact holds: a date, also one known to the year, `..` if open, `####` if
    unknown. Null means what an empty start means in the import of the data, by default unknown."""
    end: NameOrId | None = None
    """Until when it holds, likewise; null and no end mean by default that it still holds."""

    @property
    def holds(self) -> bool:
        """Whether the fact has a start or an end."""
        return not self.model_fields_set.isdisjoint(("start", "end"))

    @property
    def bounds(self) -> tuple[NameOrId | None, NameOrId | None]:
        """Start and end; beside a time, as in results, an empty one is unknown."""
        empty = None if self.time is None else SURELY_UNKNOWN
        return (
            empty if self.start in (None, "") else self.start,
            empty if self.end in (None, "") else self.end,
        )


class GivenFact(FactTime):
    """A fact to score. A part that is null is an error of this fact."""

    model_config = examples(EXAMPLE_FACT, EXAMPLE_INTERVAL)

    subject: NameOrId | None
    relation: NameOrId | None
    object: NameOrId | None

    @property
    def parts(self) -> Parts:
        """Subject, relation, object and time."""
        return (self.subject, self.relation, self.object, self.time)


class ChangedFact(GivenFact):
    """A fact to add or remove."""

    subject: NameOrId
    relation: NameOrId
    object: NameOrId


class ScoreRequest(RunRequest):
    """Facts to score; the limit is in /api/v1/info."""

    model_config = examples({"facts": [EXAMPLE_FACT]}, {"facts": [EXAMPLE_INTERVAL]})

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

    model_config = example(**EXAMPLE_FACT, asked="subject")

    asked: Part = "object"
    until: NameOrId | None = None
    """Explain the answer over the period from `time` to here, at the step where it is most likely,
    which is the `time` of the response."""
    most: int = Field(10, ge=0, le=1000)
    """Number of facts."""


class WhatIfRequest(RunRequest, QuestionRequest):
    """A fact with one of its four parts missing, and other facts to answer it with."""

    model_config = examples(
        {**_QUESTION, "removed": [EXAMPLE_FACT], "top": 3},
        {**_QUESTION, "added": [EXAMPLE_INTERVAL], "top": 3},
    )

    added: list[ChangedFact] = Field([], max_length=100)
    """Facts that the model shall use besides its own."""
    removed: list[ChangedFact] = Field([], max_length=100)
    """Facts that the model shall not use."""
    top: int = Field(10, ge=1, le=100)
    """Number of answers, before and after the change."""


class MissingRequest(RunRequest):
    """Where to search for facts that are missing from the data: everywhere, or in some part."""

    model_config = example(entity="Talenne", first="2030-03-01", top=20)

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

    model_config = example(splits=["test"], top=20)

    splits: list[Split] = Field(list(SPLITS), max_length=len(SPLITS))
    top: int = Field(100, ge=1)
    """Number of facts; the limit is that of facts in /api/v1/info."""


class ForecastRequest(RunRequest):
    """Which steps to forecast, and of which facts; the run must be one of task forecast."""

    model_config = example(days=3, entity="Talenne", top=5, evidence=2)

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
