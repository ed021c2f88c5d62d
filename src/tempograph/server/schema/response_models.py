"""Responses to questions; answers and evidence come from `prediction.answers`."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ConfigDict, Field

from tempograph.prediction.answer import EvidenceFact
from tempograph.prediction.answers import Completion
from tempograph.server.schema.members import Part, Response, is_null
from tempograph.typing import Split


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


class BatchResult(Response):
    """The answers to one question of a batch, or what is wrong with it."""

    completion: Completion | None
    error: str | None


class BatchCompletionResponse(Response):
    """The answers to questions, in the order of the request."""

    run: str
    model: str
    results: list[BatchResult]


class CandidateScore(Response):
    """The object or subject of a fact, ranked among the candidates that are not known answers."""

    score: float | None
    """Null if the model rules the candidate out."""
    probability: float | None
    """The calibrated probability among the candidates that are not known answers."""
    rank: float | None
    """Ties share their mean rank."""


class FactNames(Response):
    """A fact in names; a part that has none is as given."""

    subject: str | None
    relation: str | None
    object: str | None
    time: str | None
    """Of a fact with a start and an end, its first known step."""
    start: str | None = Field(None, exclude_if=is_null)
    """Since when the fact holds: `..` if open, empty if unknown; not there for a moment."""
    end: str | None = Field(None, exclude_if=is_null)
    """Until when it holds, likewise."""


class ScoredFact(Response):
    """A fact scored as the answer to its object query and to its subject query."""

    fact: FactNames
    known: Split | None
    """The split that contains the fact; null if none does."""
    object: CandidateScore | None
    """Null if the fact has an error."""
    subject: CandidateScore | None
    error: str | None
    """Why the fact cannot be scored."""


class ScoreResponse(Response):
    """Scores in the order of the request."""

    run: str
    facts: list[ScoredFact]


class EvidenceResponse(Response):
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


class MovedAnswer(Response):
    """A candidate among the best before or after a change of facts."""

    name: str
    rank_before: int
    """1 plus the number of candidates with a higher score."""
    rank_after: int
    probability_before: float
    """The calibrated probability of this candidate among all candidates."""
    probability_after: float


class WhatIfResponse(Response):
    """The best answers to a question before and after a change of facts."""

    run: str
    model: str
    asked: Part
    answers: list[MovedAnswer]
    """Those that are among the best before or after, in their order after the change."""


class MissingFact(Response):
    """A fact that is not in the data, and how likely it happened."""

    subject: str
    relation: str
    object: str
    time: str
    start: str | None = Field(None, exclude_if=is_null)
    """Since when the fact most likely holds; not there for an event."""
    end: str | None = Field(None, exclude_if=is_null)
    """Until when it most likely holds."""
    probability: float
    other_times: tuple[str, ...] = ()
    """The next best steps of the same subject, relation and object; none with `at_least`."""
    other_probabilities: tuple[float, ...] = ()


class SurprisingFact(Response):
    """A known fact that the model finds implausible."""

    subject: str
    relation: str
    object: str
    time: str
    start: str | None = Field(None, exclude_if=is_null)
    """Since when the fact holds: `..` if open, empty if unknown; not there for an event."""
    end: str | None = Field(None, exclude_if=is_null)
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
