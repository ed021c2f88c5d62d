"""Answers in names: what a question was, who or what answers it, and the facts that speak for each answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.models.base import Support
from tempograph.prediction.explain import Explained
from tempograph.typing import Split


@dataclass(frozen=True)
class Evidence:
    """A train fact behind an answer.

    `effect` is how much the answer's score falls when the fact is taken out, below 0 if it rises; 0 for a model that
    does not look at facts when it answers, None where that is not known. `share` is the part of the score that the
    model itself says is the fact's, if it does.
    """

    subject: str
    relation: str
    object: str
    time: str
    share: float | None
    effect: float | None


@dataclass(frozen=True)
class Answer:
    """One candidate: its rank and score, the split where the fact is known already, and what speaks for it.

    `probability` is its share of a softmax over the candidates that are not known already and itself, at the
    temperature of the run, for models whose scores allow that.
    """

    rank: int
    name: str
    score: float
    probability: float | None
    known: Split | None
    why: str
    evidence: tuple[Evidence, ...]
    evidence_count: int


@dataclass(frozen=True)
class Completion:
    """A question in names, with its ranked answers. `asked` is the part that was missing; notes are worth reading."""

    subject: str | None
    relation: str | None
    object: str | None
    time: str | None
    asked: str
    answers: tuple[Answer, ...]
    notes: tuple[str, ...]

    @property
    def question(self) -> str:
        """The fact with a question mark in it."""
        return f"({', '.join(part or '?' for part in (self.subject, self.relation, self.object, self.time))})"


def named_evidence(
    graph: TemporalGraph, timeline: Timeline, support: Support, found: Explained | None, most: int
) -> tuple[Evidence, ...]:
    """Facts with names, effects and the model's own shares, at most so many."""
    own = [tuple(row) for row in support.facts.tolist()]
    shares = {} if support.shares is None else dict(zip(own, support.shares.tolist(), strict=True))
    if found is None:
        rows, effects = own[:most], None
    else:
        rows = [tuple(row) for row in timeline.facts[found.position[:most]].tolist()]
        effects = None if found.effect is None else found.effect.tolist()
    return tuple(
        Evidence(
            **graph.describe(np.array(row)),
            share=shares.get(row),
            effect=None if effects is None else effects[number],
        )
        for number, row in enumerate(rows)
    )
