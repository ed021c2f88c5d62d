"""Completion with evidence: ask a trained run who, with whom, when, by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tempograph.data.graph import SPLITS, Split
from tempograph.environment import resolve_device
from tempograph.errors import ConfigError
from tempograph.runs import Run
from tempograph.timeline import Queries


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
    """One candidate: its rank and score, the split where the fact is known already, and what speaks for it."""

    rank: int
    name: str
    score: float
    known: Split | None
    why: str
    evidence: tuple[Evidence, ...]
    evidence_count: int


@dataclass(frozen=True)
class Completion:
    """A question in names, with its ranked answers. `asked` is the side that was missing; notes are worth reading."""

    subject: str | None
    relation: str
    object: str | None
    time: str
    asked: str
    answers: tuple[Answer, ...]
    notes: tuple[str, ...]


class Predictor:
    """Answers questions about a run in names and time labels."""

    def __init__(self, run: Run | str | Path, device: str = "auto") -> None:
        self.run = run if isinstance(run, Run) else Run.load(run, resolve_device(device))
        self.graph = self.run.graph

    def objects(self, subject: str, relation: str, time: str, top: int = 10, evidence: int = 3) -> Completion:
        """The best objects for (subject, relation, ?, time)."""
        return self._complete(subject, relation, time, "object", top, evidence)

    def subjects(self, relation: str, object: str, time: str, top: int = 10, evidence: int = 3) -> Completion:
        """The best subjects for (?, relation, object, time)."""
        return self._complete(object, relation, time, "subject", top, evidence)

    def _complete(self, entity: str, relation: str, time: str, asked: str, top: int, evidence: int) -> Completion:
        if top < 1:
            raise ConfigError(f"top must be at least 1, found {top}")
        graph = self.graph
        ids = graph.entity_id(entity), graph.relation_id(relation), graph.time_id(time)
        direction = len(graph.relations) if asked == "subject" else 0
        device = self.run.model.device
        query = Queries(*(torch.tensor([value], device=device) for value in (ids[0], ids[1] + direction, ids[2])))
        with torch.inference_mode():
            scores = self.run.model.scores(query)[0].cpu()
        best = scores.topk(min(top, len(scores)))
        order = [int(index) for value, index in zip(best.values, best.indices, strict=True) if value > -math.inf]
        known = self._known(*ids, asked)
        answers = tuple(self._answer(query, candidate, scores, known.get(candidate), evidence) for candidate in order)
        given, name = graph.entities[ids[0]], graph.relations[ids[1]]
        subject, object_ = (given, None) if asked == "object" else (None, given)
        return Completion(
            subject, name, object_, graph.times[ids[2]], asked, answers, self._notes(ids[0], answers, top)
        )

    def _answer(self, query: Queries, candidate: int, scores: torch.Tensor, known: Split | None, most: int) -> Answer:
        why, facts, shares = self.run.model.evidence(query, candidate)
        names = [self.graph.describe(fact) for fact in facts[:most].cpu().numpy()]
        of_each = [None] * len(names) if shares is None else shares[:most].tolist()
        shown = tuple(Evidence(**name, share=share) for name, share in zip(names, of_each, strict=True))
        score = float(scores[candidate])
        rank = 1 + int((scores > score).sum())
        return Answer(rank, self.graph.entities[candidate], score, known, why, shown, len(facts))

    def _known(self, entity: int, relation: int, time: int, asked: str) -> dict[int, Split]:
        given, missing = (0, 2) if asked == "object" else (2, 0)
        known: dict[int, Split] = {}
        for split in reversed(SPLITS):
            facts = self.graph.facts(split)
            same = (facts[:, given] == entity) & (facts[:, 1] == relation) & (facts[:, 3] == time)
            known |= dict.fromkeys(facts[same, missing].tolist(), split)
        return known

    def _notes(self, entity: int, answers: tuple[Answer, ...], top: int) -> tuple[str, ...]:
        notes = []
        if not np.any(self.graph.train[:, [0, 2]] == entity):
            notes.append(f"'{self.graph.entities[entity]}' is in no train fact; answers rest on the relation alone")
        if len(answers) < min(top, len(self.graph.entities)):
            notes.append(f"only {len(answers)} candidates have anything that speaks for them")
        return tuple(notes)
