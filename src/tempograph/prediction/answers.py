"""Answers in names: a query, its ranked candidates, and the train facts behind each of them.

The tables of the command line, its JSON and the HTTP schema are derived from these classes. So are
the order of a fact's parts and the legend, wherever people read evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tempograph.data.graph import COLUMNS
from tempograph.data.result_table import Tabular
from tempograph.prediction.answer import Answer, EvidenceFact
from tempograph.prediction.answers_html import answers_html

_ANSWER_TYPES: Final = {
    "rank": pa.int64(),
    "score": pa.float64(),
    "probability": pa.float64(),
    "known": pa.string(),
    "why": pa.string(),
    "evidence_count": pa.int64(),
}
"""The columns of an answer in a table."""


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
    until: str | None = None
    """Label of the last time step, if a period is asked about; `time` is the first one then."""

    @property
    def question(self) -> str:
        """The fact with a question mark for the missing part."""
        when = self.time if self.until is None else f"{self.time} to {self.until}"
        parts = (self.subject, self.relation, self.object, when)
        return f"({', '.join(part or '?' for part in parts)})"

    def to_arrow(self) -> pa.Table:
        """One row per answer: the fact with the answer in it, which part that is, and its rank.

        The columns are subject, relation, object, time, asked, answer, rank, score, probability,
        known, why and evidence_count. Where facts hold for a while, known_since and known_until say
        when the completed fact is known to hold, and an interval has a start and an end.
        """
        parts = (self.subject, self.relation, self.object, self.time)
        names = pa.array([answer.name for answer in self.answers], pa.string())
        columns = {
            column: names if part is None else pa.repeat(part, len(names))
            for column, part in zip(COLUMNS, parts, strict=True)
        }
        if self.until is not None:
            columns["until"] = pa.repeat(self.until, len(names))
        columns |= {"asked": pa.repeat(self.asked, len(names)), "answer": names}
        columns |= {
            name: pa.array([getattr(answer, name) for answer in self.answers], kind)
            for name, kind in _ANSWER_TYPES.items()
        }
        for name in ("since", "until", "start", "end"):
            values = [getattr(answer, name) for answer in self.answers]
            if any(value is not None for value in values):
                columns[f"known_{name}" if name in ("since", "until") else name] = pa.array(
                    values, pa.string()
                )
        return pa.table(columns)

    @property
    def evidence(self) -> tuple[EvidenceFact, ...]:
        """The facts behind all answers, in the order of the answers."""
        return tuple(fact for answer in self.answers for fact in answer.evidence)

    def __repr__(self) -> str:
        best = f", the best {self.answers[0].name!r}" if self.answers else ""
        count = f"{len(self.answers)} {'answer' if len(self.answers) == 1 else 'answers'}"
        return f"Completion({self.question}: {count}{best})"

    def _repr_html_(self) -> str:
        """The answers with their evidence as a table, and a timeline."""
        return answers_html(self.question, self.asked, self.time, self.answers, self.notes)
