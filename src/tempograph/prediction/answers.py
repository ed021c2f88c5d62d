"""Answers in names: a query, its ranked candidates, and the train facts behind each of them.

The tables of the command line, its JSON and the HTTP schema are derived from these classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tempograph.data.graph import COLUMNS
from tempograph.data.result_table import Tabular
from tempograph.typing import Split

_ANSWER_TYPES: Final = {
    "rank": pa.int64(),
    "score": pa.float64(),
    "probability": pa.float64(),
    "known": pa.string(),
    "why": pa.string(),
    "evidence_count": pa.int64(),
}
"""The columns of an answer in a table."""


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


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        likely = "" if self.probability is None else f", {self.probability:.1%}"
        return f"Answer({self.rank}, {self.name!r}, score {self.score:.4g}{likely})"


@dataclass(frozen=True, repr=False)
class Completion(Tabular):
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

    def to_arrow(self) -> pa.Table:
        """One row per answer: the fact with the answer in it, which part that is, and its rank.

        The columns are subject, relation, object, time, asked, answer, rank, score, probability,
        known, why and evidence_count.
        """
        parts = (self.subject, self.relation, self.object, self.time)
        names = pa.array([answer.name for answer in self.answers], pa.string())
        columns = {
            column: names if part is None else pa.repeat(part, len(names))
            for column, part in zip(COLUMNS, parts, strict=True)
        }
        columns |= {"asked": pa.repeat(self.asked, len(names)), "answer": names}
        columns |= {
            name: pa.array([getattr(answer, name) for answer in self.answers], kind)
            for name, kind in _ANSWER_TYPES.items()
        }
        return pa.table(columns)

    def __repr__(self) -> str:
        best = f", the best {self.answers[0].name!r}" if self.answers else ""
        return f"Completion({self.question}: {len(self.answers)} answers{best})"
