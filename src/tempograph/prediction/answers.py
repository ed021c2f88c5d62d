"""Answers in names: a query, its ranked candidates, and the train facts behind each of them.

The tables of the command line, its JSON and the HTTP schema are derived from these classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tempograph.typing import Split


@dataclass(frozen=True)
class EvidenceFact:
    """A train fact behind an answer."""

    subject: str
    """Name of the subject."""
    relation: str
    """Name of the relation."""
    object: str
    """Name of the object."""
    time: str
    """Label of the time step."""
    share: float | None
    """The part of the score that the model itself attributes to the fact; null if it names none."""
    effect: float | None
    """How much the score falls when the fact is removed, negative if it rises; null if unknown."""


@dataclass(frozen=True)
class Answer:
    """One candidate with its rank, its score and the evidence for it."""

    rank: int
    """1 plus the number of candidates with a higher score."""
    name: str
    """Name of the entity or relation, or label of the time step."""
    score: float
    """The model's score; higher is more plausible."""
    probability: float | None
    """Calibrated softmax over the candidates not known to be right; null for some models."""
    known: Split | None
    """The split that already holds the completed fact; null if none does."""
    why: str
    """What the evidence has in common, in a few words."""
    evidence: tuple[EvidenceFact, ...]
    """The train facts that matter most, as many as requested."""
    evidence_count: int
    """How many train facts are behind the answer in all."""


@dataclass(frozen=True)
class Completion:
    """A query in names with its ranked answers; the missing part is null."""

    subject: str | None
    """Name of the subject."""
    relation: str | None
    """Name of the relation."""
    object: str | None
    """Name of the object."""
    time: str | None
    """Label of the time step."""
    asked: str
    """The missing part: subject, relation, object or time."""
    answers: tuple[Answer, ...]
    """The best candidates, best first."""
    notes: tuple[str, ...]
    """What a reader should know about these answers."""

    @property
    def question(self) -> str:
        """The fact with a question mark for the missing part."""
        parts = (self.subject, self.relation, self.object, self.time)
        return f"({', '.join(part or '?' for part in parts)})"
