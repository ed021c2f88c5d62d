"""One answer in names: a candidate with its probability, and the known facts behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tempograph.data.span_text import known_text, span_text
from tempograph.typing import Split


@dataclass(frozen=True)
class EvidenceFact:
    """A known fact behind an answer."""

    subject: str
    """Name of the subject."""
    relation: str
    """Name of the relation."""
    object: str
    """Name of the object."""
    time: str
    """Label of the time step; of a fact that holds for a while, the first known one."""
    share: float | None
    """The part of the score that the model itself attributes to the fact; null if it names none."""
    effect: float | None
    """How much the score falls when the fact is removed, negative if it rises; null if unknown."""
    start: str | None = None
    """Where the fact holds for a while, the first step: `..` if open, empty if unknown."""
    end: str | None = None
    """Where the fact holds for a while, the last step, likewise; null for an event."""

    @property
    def when(self) -> str:
        """The time step, or the interval in words."""
        if self.start is None or self.end is None:
            return self.time
        return span_text(self.start, self.end)

    @property
    def cells(self) -> tuple[str, ...]:
        """The fact as people read it: time, effect or else share, subject, relation and object."""
        if self.effect is not None:
            effect = f"{self.effect:+.2f}" if self.effect else "0"
        else:
            effect = "" if self.share is None else f"{self.share:.0%}"
        return (self.when, effect, self.subject, self.relation, self.object)

    def __str__(self) -> str:
        return "  ".join(cell for cell in self.cells if cell)


def evidence_headings(facts: Sequence[EvidenceFact]) -> tuple[str, ...]:
    """Headings for the `cells` of facts."""
    return ("time", _measure(facts) or "effect", "subject", "relation", "object")


def evidence_legend(facts: Sequence[EvidenceFact]) -> str:
    """What the number beside a fact means, in one line; the same words wherever facts are shown."""
    return {
        "effect": "effect: how much the score falls without the fact; negative if it rises",
        "share": "share: the part of the score that the model attributes to the fact",
        None: "effect: not measured for these facts",
    }[_measure(facts)]


def _measure(facts: Sequence[EvidenceFact]) -> str | None:
    for name in ("effect", "share"):
        if any(getattr(fact, name) is not None for fact in facts):
            return name
    return None


@dataclass(frozen=True, repr=False)
class Answer:
    """One candidate with its rank, its score and the evidence for it."""

    rank: int
    """1 plus the number of candidates with a higher score."""
    name: str
    """Name of the entity or relation, label of the time step, or an interval in words."""
    score: float
    """The model's score; higher is more plausible."""
    probability: float
    """The calibrated probability of this candidate among all candidates; they add up to 1."""
    known: Split | None
    """The split that already holds the completed fact; null if none does."""
    why: str
    """What the evidence has in common, in a few words."""
    evidence: tuple[EvidenceFact, ...]
    """The known facts that matter most, as many as requested."""
    evidence_count: int
    """How many known facts are behind the answer in all."""
    since: str | None = None
    """Since when the completed fact is known to hold: `..` if open, empty if unknown; null for
    events."""
    until: str | None = None
    """Until when it is known to hold, likewise."""
    start: str | None = None
    """The first step of the answer, if an interval is asked for."""
    end: str | None = None
    """The last step of the answer, if an interval is asked for."""

    @property
    def known_text(self) -> str:
        """The split that holds the completed fact and since when it holds; empty without one."""
        if self.known is None or self.since is None or self.until is None:
            return self.known or ""
        return f"{known_text(self.since, self.until)} ({self.known})"

    def __repr__(self) -> str:
        return f"Answer({self.rank}, {self.name!r}, {self.probability:.1%})"
