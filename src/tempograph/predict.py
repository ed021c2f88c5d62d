"""Completion with evidence: ask a trained run who, with whom, when, by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tempograph.data.graph import COLUMNS, SPLITS, Split
from tempograph.environment import resolve_device
from tempograph.errors import ConfigError
from tempograph.models.contract import Support
from tempograph.runs import Run
from tempograph.timeline import Queries

Fact = tuple[int, int, int, int]


@dataclass(frozen=True)
class Evidence:
    """A train fact that speaks for an answer, and its share of the answer's score where the model knows it."""

    subject: str
    relation: str
    object: str
    time: str
    share: float | None


@dataclass(frozen=True)
class Answer:
    """One candidate: its rank and score, the split where the fact is known already, and what speaks for it.

    `probability` is its share of a softmax over all candidates, for models whose scores allow that.
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
    time: str
    asked: str
    answers: tuple[Answer, ...]
    notes: tuple[str, ...]

    @property
    def question(self) -> str:
        """The fact with a question mark in it."""
        return f"({self.subject or '?'}, {self.relation or '?'}, {self.object or '?'}, {self.time})"


class Predictor:
    """Answers questions about a run in names and time labels."""

    def __init__(self, run: Run | str | Path, device: str = "auto") -> None:
        self.run = run if isinstance(run, Run) else Run.load(run, resolve_device(device))
        self.graph = self.run.graph

    def objects(self, subject: str, relation: str, time: str, top: int = 10, evidence: int = 3) -> Completion:
        """The best objects for (subject, relation, ?, time)."""
        fact = self._ids(subject, relation, None, time)
        return self.complete(fact, self._scores(fact[0], fact[1], fact[3]), top, evidence)

    def subjects(self, relation: str, object: str, time: str, top: int = 10, evidence: int = 3) -> Completion:
        """The best subjects for (?, relation, object, time)."""
        fact = self._ids(None, relation, object, time)
        return self.complete(fact, self._scores(fact[2], fact[1] + len(self.graph.relations), fact[3]), top, evidence)

    def relations(self, subject: str, object: str, time: str, top: int = 10, evidence: int = 3) -> Completion:
        """The best relations for (subject, ?, object, time)."""
        fact = self._ids(subject, None, object, time)
        with torch.inference_mode():
            scores = self.run.model.relation_scores(fact[0], fact[2], fact[3]).cpu()
        return self.complete(fact, scores, top, evidence)

    def _ids(self, subject: str | None, relation: str | None, object_: str | None, time: str) -> Fact:
        """The fact in ids, with -1 for what is asked."""
        graph = self.graph
        return (
            -1 if subject is None else graph.entity_id(subject),
            -1 if relation is None else graph.relation_id(relation),
            -1 if object_ is None else graph.entity_id(object_),
            graph.time_id(time),
        )

    def _scores(self, entity: int, relation: int, time: int) -> torch.Tensor:
        with torch.inference_mode():
            return self.run.model.scores(self._query(entity, relation, time))[0].cpu()

    def _query(self, entity: int, relation: int, time: int) -> Queries:
        return Queries(*(torch.tensor([value], device=self.run.model.device) for value in (entity, relation, time)))

    def complete(self, fact: Fact, scores: torch.Tensor, top: int = 10, evidence: int = 3) -> Completion:
        """The best answers to a fact in ids, with -1 for what is asked, given the scores of all candidates."""
        if top < 1:
            raise ConfigError(f"top must be at least 1, found {top}")
        graph, place = self.graph, fact.index(-1)
        best = scores.topk(min(top, len(scores)))
        order = [int(index) for value, index in zip(best.values, best.indices, strict=True) if value > -math.inf]
        shares = torch.softmax(scores.double(), 0).tolist() if self.run.model.probabilistic else None
        known = self._known(fact, place)
        names = graph.relations if place == 1 else graph.entities
        answers = tuple(
            self._answer(
                (*fact[:place], candidate, *fact[place + 1 :]),  # type: ignore[arg-type]
                asked=place,
                rank=1 + int((scores > scores[candidate]).sum()),
                name=names[candidate],
                score=float(scores[candidate]),
                probability=None if shares is None else shares[candidate],
                known=known.get(candidate),
                most=evidence,
            )
            for candidate in order
        )
        given = [None if value < 0 else column[value] for value, column in zip(fact, self._columns, strict=True)]
        notes = self._notes(fact, answers, min(top, len(scores)))
        return Completion(given[0], given[1], given[2], graph.times[fact[3]], COLUMNS[place], answers, notes)

    @property
    def _columns(self) -> tuple[tuple[str, ...], ...]:
        return self.graph.entities, self.graph.relations, self.graph.entities, self.graph.times

    def _answer(self, fact: Fact, asked: int, most: int, **found: Any) -> Answer:
        if not most:
            return Answer(**found, why="not asked for", evidence=(), evidence_count=0)
        why, facts, shares = self.support(fact, asked)
        return Answer(**found, why=why, evidence=self.describe(facts[:most], shares), evidence_count=len(facts))

    def support(self, fact: Fact, asked: int = 2) -> Support:
        """What speaks for a whole fact in ids, as the answer to the question for one of its columns."""
        subject, relation, object_, time = fact
        if asked == 0:
            subject, relation, object_ = object_, relation + len(self.graph.relations), subject
        return self.run.model.evidence(self._query(subject, relation, time), object_)

    def describe(self, facts: torch.Tensor, shares: torch.Tensor | None) -> tuple[Evidence, ...]:
        """Facts that speak for an answer, in names."""
        names = [self.graph.describe(row) for row in facts.cpu().numpy()]
        of_each = [None] * len(names) if shares is None else shares[: len(names)].tolist()
        return tuple(Evidence(**name, share=share) for name, share in zip(names, of_each, strict=True))

    def _known(self, fact: Fact, place: int) -> dict[int, Split]:
        """The answers that make a fact of the data, with the split it is in."""
        known: dict[int, Split] = {}
        for split in reversed(SPLITS):
            facts = self.graph.facts(split)
            same = np.all([facts[:, column] == fact[column] for column in range(4) if column != place], axis=0)
            known |= dict.fromkeys(facts[same, place].tolist(), split)
        return known

    def _notes(self, fact: Fact, answers: tuple[Answer, ...], expected: int) -> tuple[str, ...]:
        named = self.graph.train[:, [0, 2]]
        unseen = [entity for entity in (fact[0], fact[2]) if entity >= 0 and not np.any(named == entity)]
        notes = [
            f"'{self.graph.entities[entity]}' is in no train fact; little speaks for its answers" for entity in unseen
        ]
        if len(answers) < expected:
            notes.append(f"only {len(answers)} candidates have anything that speaks for them")
        if not self.run.results.get("finished", True):
            notes.append("the training of this run is not finished; tempograph resume goes on with it")
        return tuple(notes)
