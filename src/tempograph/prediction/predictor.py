"""Completion with evidence: ask a trained run who, with whom, when, by name; what is missing, what is odd, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import COLUMNS, Facts, Name, TemporalGraph, When, rows_in
from tempograph.data.names import Given, encode_columns, extend_times, to_fact_ids, to_ids
from tempograph.data.timeline import Queries, Timeline
from tempograph.device import memory_budget, resolve_device
from tempograph.errors import ConfigError, QueryError
from tempograph.models.base import Evidence
from tempograph.prediction.answers import Answer, Completion
from tempograph.prediction.batch_scoring import ask_facts, log_shares, score_facts
from tempograph.prediction.explanation import Explained, explain, named_evidence
from tempograph.prediction.scan import (
    Candidates,
    keep_best,
    named,
    pairs_to_ask,
    scan,
    write_all,
    write_table,
)
from tempograph.training.runs import Run
from tempograph.typing import SPLITS, Progress, Split

Fact = tuple[int, int, int, int]

SIDES: Final = ("object", "subject")
"""What may be asked for, in this order where both are."""


class Predictor:
    """Answers questions about a run in names and time labels; entities, relations and steps may also be given by id.

    `add` and `remove` change the facts that the model looks at, without training. `memory` bounds the bytes that keep
    what questions at one time share, so that a second question about a time is fast.
    """

    def __init__(
        self, run: Run | str | Path, device: str = "auto", memory: int | None = None
    ) -> None:
        self.run = run if isinstance(run, Run) else Run.load(run, resolve_device(device))
        if memory is None:
            memory = memory_budget("encodings", self.run.model.device)
        self.memory = memory
        self._look_at(self.run.graph)

    def objects(
        self, subject: Name, relation: Name, time: When, top: int = 10, evidence: int = 3
    ) -> Completion:
        """The best objects for (subject, relation, ?, time)."""
        fact = self._ids(subject, relation, None, time)
        return self.complete(fact, self._scores(fact), top, evidence)

    def subjects(
        self, relation: Name, object: Name, time: When, top: int = 10, evidence: int = 3
    ) -> Completion:
        """The best subjects for (?, relation, object, time)."""
        fact = self._ids(None, relation, object, time)
        return self.complete(fact, self._scores(fact), top, evidence)

    def relations(
        self, subject: Name, object: Name, time: When, top: int = 10, evidence: int = 3
    ) -> Completion:
        """The best relations for (subject, ?, object, time); their probabilities are not calibrated."""
        fact = self._ids(subject, None, object, time)
        return self.complete(fact, self._scores(fact), top, evidence)

    def times(
        self,
        subject: Name,
        relation: Name,
        object: Name,
        top: int = 10,
        evidence: int = 3,
        first: When | None = None,
        last: When | None = None,
        progress: Progress | None = None,
    ) -> Completion:
        """When (subject, relation, object) would have happened: the best time steps from first to last.

        With probabilities, the score of a step is the mean of log p(object) and log p(subject) there, and `probability`
        is exp(score) over its sum for all steps of the period: which step it is, if it is one of them and each is as
        likely beforehand. Without, the score is the mean of both scores.
        """
        fact = self._ids(subject, relation, object, None)
        period = self._period(first, last)
        facts = torch.tensor([(*fact[:3], step) for step in period], device=self.model.device)
        found = ask_facts(self.model, facts, self._known, self.temperature, progress=progress)
        each = found.score if found.log_probability is None else found.log_probability
        scores = torch.full((len(self.graph.times),), -math.inf, dtype=torch.float64)
        scores[list(period)] = each.view(2, -1).mean(0).cpu()
        shares = None if found.log_probability is None else torch.log_softmax(scores, 0)
        best = self._best(scores, top)
        explained = [self._support(*fact[:3], step) for step in best]
        return self._completion(fact, 3, best, scores, shares, explained, evidence)

    def why(
        self,
        subject: Name,
        relation: Name,
        object: Name,
        time: When,
        side: str = "object",
        evidence: int = 10,
    ) -> Completion:
        """Why, or why not: one candidate for the object, or the subject, with the facts that matter most for its score.

        Facts with the largest effect stand first, whether they speak for the candidate or against it.
        """
        if side not in SIDES:
            raise ConfigError(f"side must be object or subject, found '{side}'")
        fact = self._ids(subject, relation, object, time)
        place = COLUMNS.index(side)
        asked: Fact = (*fact[:place], -1, *fact[place + 1 :])  # type: ignore[assignment]
        return self.complete(asked, self._scores(asked), 1, evidence, candidate=fact[place])

    def score(
        self,
        facts: Given,
        progress: Progress | None = None,
        budget: int | None = None,
        ranks: bool = True,
    ) -> pa.Table:
        """Score, probability and rank of many facts from both sides, in bounded memory.

        Facts are rows (subject, relation, object, time) of names or ids, an array of ids, or a table with these
        columns. Other known answers are taken out, as in an evaluation; `known` is the split that holds the fact.
        Without ranks there are scores alone; where a model can, nobody is scored then but those who are named.
        """
        rows = to_fact_ids(self.graph, facts)
        asked = torch.from_numpy(rows).to(self.model.device)
        columns: dict[str, Any] = {
            **named(self.graph, rows),
            "known": pa.array(self.graph.find_splits(rows), pa.string()),
        }
        if not ranks:
            scores = score_facts(self.model, asked, self._known, budget, progress).chunk(2)
            return pa.table(
                columns | {f"{side}_score": scores[i].cpu().numpy() for i, side in enumerate(SIDES)}
            )
        found = ask_facts(self.model, asked, self._known, self.temperature, budget, progress)
        for number, side in enumerate(SIDES):
            share = (
                None
                if found.log_probability is None
                else found.log_probability.chunk(2)[number].exp()
            )
            columns[f"{side}_score"] = found.score.chunk(2)[number].cpu().numpy()
            columns[f"{side}_probability"] = pa.array(
                [None] * len(rows) if share is None else share.cpu().numpy(), pa.float64()
            )
            columns[f"{side}_rank"] = found.rank.chunk(2)[number].cpu().numpy()
        return pa.table(columns)

    def missing(
        self,
        entity: Name | None = None,
        relations: Sequence[Name] | None = None,
        first: When | None = None,
        last: When | None = None,
        top: int = 100,
        at_least: float | None = None,
        out: str | Path | None = None,
        progress: Progress | None = None,
        budget: int | None = None,
    ) -> pa.Table | int:
        """The most plausible facts that are not in the data, from the step first to the step last.

        Asked for are the objects of every (subject, relation) of train at every step of the period or, for one entity,
        whatever it is the subject or object of. The best `top` of all come back as a table, and go to a Parquet file
        if `out` names one. With `at_least` instead every fact with such a probability is written to `out` as it is
        found, in the order of time, and the number of facts comes back.
        """
        if top < 1:
            raise ConfigError(f"top must be at least 1, found {top}")
        if at_least is not None and not 0 < at_least <= 1:
            raise ConfigError(f"at_least must be a probability above 0, found {at_least}")
        if at_least is not None and out is None:
            raise ConfigError(
                "at_least may find any number of facts; name a Parquet file for them with out"
            )
        if at_least is not None and self.temperature is None:
            raise QueryError(
                f"the scores of {self.model.name} are not probabilities; ask for the best ones by top"
            )
        graph = self.graph
        who = None if entity is None else graph.entity_id(entity)
        what = (
            None if relations is None else [graph.relation_id(relation) for relation in relations]
        )
        pairs, period = pairs_to_ask(graph, who, what), self._period(first, last)
        found = scan(
            self.model,
            pairs,
            period,
            self._known,
            self.temperature,
            top,
            at_least,
            budget,
            progress,
        )
        if at_least is not None and out is not None:
            return write_all(found, graph, Path(out))
        best = keep_best(found, top) or Candidates.none()
        table = best.table(graph, self.temperature is not None)
        if out is not None:
            write_table(table, Path(out))
        return table

    def surprising(
        self,
        splits: Sequence[Split] = SPLITS,
        top: int = 100,
        progress: Progress | None = None,
        budget: int | None = None,
    ) -> pa.Table:
        """The known facts of some splits that the model finds least plausible, most surprising first.

        `surprise` is the mean of -log p of both sides, or of log rank where scores are not probabilities. Train facts
        have been learned, and some models see them when they answer, so they surprise less than others.
        """
        if top < 1:
            raise ConfigError(f"top must be at least 1, found {top}")
        rows = (
            np.concatenate([self.graph.facts(split) for split in splits])
            if splits
            else self.graph.train[:0]
        )
        table = self.score(rows, progress, budget)
        if self.temperature is None:
            sides = [np.log(table[f"{side}_rank"].to_numpy()) for side in SIDES]
        else:
            sides = [
                -np.log(np.maximum(table[f"{side}_probability"].to_numpy(), 1e-300))
                for side in SIDES
            ]
        surprise = (sides[0] + sides[1]) / 2
        order = np.argsort(-surprise, kind="stable")[:top]
        return table.take(order).append_column("surprise", pa.array(surprise[order]))

    def add(self, facts: Given) -> None:
        """Let the model look at further facts, at known time steps or later ones; answers change at once.

        What a model has learned of single steps is, for a step after the last one, that of the last one.
        """
        columns = encode_columns(facts)
        grown = extend_times(self.graph, columns[3].values)
        rows = to_ids(grown, columns)
        there = rows_in(rows, grown.train)
        if there.any():
            raise QueryError(
                f"{_told(grown, rows[there][0])} is there already; remove takes it out"
            )
        self._change(np.concatenate([grown.train, np.unique(rows, axis=0)]), grown.times)

    def remove(self, facts: Given) -> None:
        """Take facts away from those that the model looks at: train facts, or what was added."""
        rows = to_fact_ids(self.graph, facts)
        absent = ~rows_in(rows, self.graph.train)
        if absent.any():
            raise QueryError(
                f"{_told(self.graph, rows[absent][0])} is not among the facts that the model looks at"
            )
        self._change(self.graph.train[~rows_in(self.graph.train, rows)], self.graph.times)

    @cached_property
    def temperature(self) -> float | None:
        """Of the softmax that gives probabilities: fitted on valid, kept with the run; None if there are none."""
        return self.run.temperature()

    def _change(self, train: Facts, times: tuple[str, ...]) -> None:
        """Look at other facts; the original ones bring back the original model, bit for bit."""
        original = self.run.graph
        steps = max(len(original.times), 1 + int(train[:, 3].max(initial=0)))
        if rows_in(train, original.train).all() and rows_in(original.train, train).all():
            self._look_at(original)
        else:
            self._look_at(replace(original, train=train, times=times[:steps]))

    def _look_at(self, graph: TemporalGraph) -> None:
        run, same = self.run, graph is self.run.graph
        timeline = run.timeline if same else Timeline(graph, run.config.protocol, run.model.device)
        try:
            model = run.model.with_timeline(timeline, self.memory)
        except QueryError:
            # A model that knows no other facts can still be asked about its own.
            if not same:
                raise
            model = run.model
        self.graph, self.timeline, self.model = graph, timeline, model
        self._known = KnownAnswers.from_graph(graph, "time", self.model.device)

    def _ids(
        self, subject: Name | None, relation: Name | None, object_: Name | None, time: When | None
    ) -> Fact:
        """The fact in ids, with -1 for what is asked."""
        graph = self.graph
        if [subject, relation, object_, time].count(None) > 1:
            raise QueryError(
                "one part of a fact is asked for; the other three must be given, found None"
            )
        return (
            -1 if subject is None else graph.entity_id(subject),
            -1 if relation is None else graph.relation_id(relation),
            -1 if object_ is None else graph.entity_id(object_),
            -1 if time is None else graph.time_id(time),
        )

    def _period(self, first: When | None, last: When | None) -> range:
        start = 0 if first is None else self.graph.time_id(first)
        stop = len(self.graph.times) if last is None else self.graph.time_id(last) + 1
        if start >= stop:
            raise QueryError(
                f"the period from {first} to {last} holds no time step; first must not be after last"
            )
        return range(start, stop)

    def _query(self, entity: int, relation: int, time: int) -> Queries:
        return Queries(
            *(torch.tensor([value], device=self.model.device) for value in (entity, relation, time))
        )

    @torch.inference_mode()
    def complete(
        self,
        fact: Fact,
        scores: Tensor,
        top: int = 10,
        evidence: int = 3,
        candidate: int | None = None,
    ) -> Completion:
        """The best answers to a fact in ids, with -1 for what is asked, or one candidate.

        Scores are those of all candidates, [candidates]; who has many questions may ask the model for them at once.
        """
        place = fact.index(-1)
        best = self._best(scores, top) if candidate is None else [candidate]
        explained: Sequence[tuple[Evidence, Explained | None]]
        if place == 1:
            shares = torch.log_softmax(scores.double(), 0) if self.model.probabilistic else None
            explained = [
                self._support(fact[0], relation, fact[2], fact[3]) for relation in best if evidence
            ]
        else:
            query, shares = self._query(*self.question(fact)), None
            if self.temperature is not None:
                shares = log_shares(
                    scores[None].to(self.model.device), self._known(query), self.temperature
                )[0].cpu()
            if evidence:
                explained = explain(
                    self.model, self.timeline, query, best, both_signs=candidate is not None
                )
        if not evidence:
            nothing = Evidence("not asked for", self.timeline.facts[:0], None)
            explained = [(nothing, None) for _ in best]
        return self._completion(fact, place, best, scores.cpu(), shares, explained, evidence)

    def question(self, fact: Fact) -> tuple[int, int, int]:
        """A fact in ids with -1 for subject or object, as the question (entity, relation or its inverse, time)."""
        subject, relation, object_, time = fact
        return (
            (object_, relation + len(self.graph.relations), time)
            if subject < 0
            else (subject, relation, time)
        )

    @torch.inference_mode()
    def _scores(self, fact: Fact) -> Tensor:
        """Scores of all candidates for what is asked, [candidates]."""
        if fact[1] < 0:
            return self.model.relation_scores(fact[0], fact[2], fact[3])
        return self.model.scores(self._query(*self.question(fact)))[0]

    def _support(
        self, subject: int, relation: int, object_: int, time: int
    ) -> tuple[Evidence, Explained | None]:
        """What the model says for a fact, without effects: relations and times have no score of their own to lose."""
        return self.model.evidence(self._query(subject, relation, time), object_), None

    def _best(self, scores: Tensor, top: int) -> list[int]:
        if top < 1:
            raise ConfigError(f"top must be at least 1, found {top}")
        best = scores.topk(min(top, len(scores)))
        return [
            int(index)
            for value, index in zip(best.values, best.indices, strict=True)
            if value > -math.inf
        ]

    def _completion(
        self,
        fact: Fact,
        place: int,
        best: list[int],
        scores: Tensor,
        shares: Tensor | None,
        explained: Sequence[tuple[Evidence, Explained | None]],
        most: int,
    ) -> Completion:
        columns = self._columns
        known = self.graph.known_answers(fact, place)
        answers = tuple(
            Answer(
                rank=1 + int((scores > scores[candidate]).sum()),
                name=columns[place][candidate],
                score=float(scores[candidate]),
                probability=None if shares is None else math.exp(float(shares[candidate])),
                known=known.get(candidate),
                why=support.reason,
                evidence=named_evidence(self.graph, self.timeline, support, found, most),
                evidence_count=len(support.facts),
            )
            for candidate, (support, found) in zip(best, explained, strict=True)
        )
        given = [
            None if value < 0 else column[value]
            for value, column in zip(fact, columns, strict=True)
        ]
        notes = self._notes(fact, place, answers, best, scores)
        return Completion(given[0], given[1], given[2], given[3], COLUMNS[place], answers, notes)

    @property
    def _columns(self) -> tuple[tuple[str, ...], ...]:
        return self.graph.entities, self.graph.relations, self.graph.entities, self.graph.times

    def _notes(
        self, fact: Fact, place: int, answers: tuple[Answer, ...], best: list[int], scores: Tensor
    ) -> tuple[str, ...]:
        graph, original, name = self.graph, self.run.graph, self.model.name
        unseen = [
            entity
            for entity in (fact[0], fact[2])
            if entity >= 0 and not np.any(graph.train[:, [0, 2]] == entity)
        ]
        notes = [
            f"'{graph.entities[entity]}' is in no train fact; little speaks for its answers"
            for entity in unseen
        ]
        possible = int((scores > -math.inf).sum())
        if possible < len(scores) and len(answers) == possible:
            one, more = (
                "1 candidate has anything that speaks for it",
                "candidates have anything that speaks for them",
            )
            few = f"only {one if possible == 1 else f'{possible:,} {more}'}"
            notes.append(few if possible else "nothing speaks for any candidate")
        if fact[3] >= len(original.times):
            last = original.times[-1]
            notes.append(
                f"'{graph.times[fact[3]]}' is after {last}, the last step of training, which stands in for it"
            )
        if not self.model.uses_train_facts and any(answer.evidence for answer in answers):
            notes.append(
                f"{name} does not look at facts when it answers, so none has an effect; shown are the nearest"
            )
        if not self.model.probabilistic:
            notes.append(f"the scores of {name} are not probabilities")
        if not self.run.results.finished:
            notes.append(
                "the training of this run is not finished; tempograph resume goes on with it"
            )
        return tuple(notes)


def _told(graph: TemporalGraph, row: Facts) -> str:
    return f"({', '.join(graph.describe(row).values())})"
