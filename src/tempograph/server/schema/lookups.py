"""Responses to look-ups in the facts of a run: names, times, entities, neighbors."""

from __future__ import annotations

from pydantic import Field

from tempograph.evaluation.calibration import Calibration
from tempograph.server.schema.members import Response, is_null
from tempograph.typing import Asked, Split


class CalibrationResponse(Response):
    """How far the probabilities of a kind of question can be trusted."""

    run: str
    asked: Asked
    calibration: Calibration


class NameCount(Response):
    """A name and the number of facts that contain it."""

    name: str
    facts: int


class NamesResponse(Response):
    """Names, best match first."""

    run: str
    names: list[NameCount]


class SplitFact(Response):
    """A fact of the data and its split."""

    subject: str
    relation: str
    object: str
    time: str
    """Of a fact that holds for a while, its first known step."""
    split: Split
    start: str | None = Field(None, exclude_if=is_null)
    """Since when the fact holds: `..` if open, empty if unknown; not there for an event."""
    end: str | None = Field(None, exclude_if=is_null)
    """Until when it holds, likewise."""


class ExamplesResponse(Response):
    """Facts of the data that make good queries."""

    run: str
    facts: list[SplitFact]


class StepCount(Response):
    """The number of facts at a time step."""

    time: str
    facts: int


class Period(Response):
    """From one time step to another, both included."""

    from_: str = Field(serialization_alias="from")
    to: str


class TimelineResponse(Response):
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


class SnapshotResponse(Response):
    """An entity at one time step, its neighbors and the facts among them."""

    run: str
    entity: str
    time: str
    nodes: list[NameCount]
    """The entity, then its neighbors by the number of facts that they share with it."""
    edges: list[SplitFact]
    neighbors: int
    """Number of neighbors, including those beyond the limit."""
    facts: int
    """Number of facts among the nodes, including those beyond the limit."""


class EntityRelation(Response):
    """A relation of an entity, with its facts in a period."""

    relation: str
    as_subject: int
    """Number of facts with the entity as subject; a fact with itself counts here."""
    as_object: int
    first: str
    """The time of the first fact."""
    last: str


class EntityPartner(Response):
    """An entity that shares facts with another one in a period."""

    name: str
    facts: int
    first: str
    """The time of the first fact."""
    last: str
    counts: list[int]
    """Number of facts in each of the `parts` of the period."""


class EntityFigures(Response):
    """How well the run ranks the facts of an entity, as it was measured."""

    queries: int
    """Number of queries: two for each fact."""
    mrr: float
    hits_at_10: float


class EntityResponse(Response):
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
    at_time: int
    """Number of facts at the given time; 0 without a time."""
    figures: dict[str, EntityFigures]
    """Figures of each split that was ranked, whatever the period."""


class RelationEdge(Response):
    """A subject, a relation and an object, with the facts of a period that state it."""

    subject: str
    relation: str
    object: str
    facts: int
    first: str
    """The time of the first fact."""
    last: str


class NeighborhoodResponse(Response):
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
