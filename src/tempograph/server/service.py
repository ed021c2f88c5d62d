"""Runs that are asked by name: questions go to the thread of their run, facts and names are looked up at once."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from tempograph.data.name_index import Names
from tempograph.data.timeline import Queries
from tempograph.device import MEMORY_BUDGETS, memory_budget
from tempograph.errors import ConfigError, QueryError
from tempograph.prediction.answers import Completion
from tempograph.prediction.predictor import Predictor
from tempograph.prediction.scenario import Fact
from tempograph.server.batching import Answer, Gatherer, Question
from tempograph.server.fact_book import FactBook
from tempograph.server.metrics import Metrics
from tempograph.server.problems import invalid, unknown
from tempograph.typing import SPLITS

_MOST_LABELS: Final = 20_000
_MOST_EXPLAINED: Final = 100
"""Answers to one question that may come with evidence; looking for it takes longer than scoring."""


@dataclass(frozen=True)
class Limits:
    """What one request, and what all of them together, may take."""

    body: int = 2**20
    """Bytes of a request."""
    top: int = 1000
    """Answers to one question."""
    facts: int = 10_000
    """Facts in one request for scores."""
    seconds: float = 30.0
    """For a request, from its first byte."""
    waiting: int = 256
    """Requests that wait for the thread of a run."""
    batch: int = 64
    """Questions that are scored together."""
    gather: float = 0.002
    """Seconds in which a batch gathers."""
    idle: float = 15.0
    """For a connection until the whole head of a request has come."""
    cache: int = MEMORY_BUDGETS["encodings"].cpu
    """Bytes of encodings that a run keeps, where its model has any."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < (0 if name in ("gather", "cache") else 1e-3):
                raise ConfigError(f"the limit '{name}' must be above 0, found {value}")


class ServedRun:
    """One run behind the service. Everything that it answers with is its own."""

    def __init__(self, name: str, predictor: Predictor, limits: Limits, metrics: Metrics) -> None:
        self.name = name
        self.predictor = predictor
        self.graph = predictor.graph
        self.limits = limits
        self.book = FactBook(self.graph)
        self.entities = Names(self.graph.entities, self.book.entity_counts)
        self.relations = Names(self.graph.relations, self.book.relation_counts)
        model = predictor.model
        self._unprepared = len(self.graph.times)
        fitting = memory_budget("service", model.device) // (
            model.bytes_per_candidate * len(self.graph.entities)
        )
        self.gatherer = Gatherer(
            model.scores,
            model.device,
            max(1, min(limits.batch, fitting)),
            limits.gather,
            limits.waiting,
            self._prepare,
            partial(metrics.batch, name),
        )

    @property
    def kept_bytes(self) -> int:
        """Bytes of what the model keeps for questions to come."""
        return sum(cache.size for cache in self.predictor.model.caches)

    def warm(self) -> None:
        """Answer a first question, so that the first one of a client finds everything in its place."""
        self._prepare()
        fact = (0, 0, -1, len(self.graph.times) - 1)
        self.predictor.complete(fact, torch.zeros(len(self.graph.entities)), 1, 0)

    def _prepare(self) -> bool:
        """Have the model encode the latest step that it was not asked about yet; say whether another would fit."""
        if not self._unprepared:
            return False
        self._unprepared -= 1
        before, model = self.kept_bytes, self.predictor.model
        with torch.inference_mode():
            model.scores(
                Queries(
                    *(
                        torch.tensor([value], device=model.device)
                        for value in (0, 0, self._unprepared)
                    )
                )
            )
        most = sum(cache.budget for cache in model.caches)
        return self._unprepared > 0 and 2 * self.kept_bytes - before < most

    def info(self) -> dict[str, Any]:
        """What a client must know of the run before it asks."""
        run, times = self.predictor.run, self.graph.times
        window = run.model.window
        return {
            "name": self.name,
            "model": run.config.name,
            "dataset": run.config.dataset,
            "protocol": run.config.protocol,
            "metrics": {
                split: summary["metrics"] for split, summary in run.results.evaluations.items()
            },
            "entities": len(self.graph.entities),
            "relations": len(self.graph.relations),
            "facts": {split: len(self.graph.facts(split)) for split in SPLITS},
            "steps": len(times),
            "first": times[0],
            "last": times[-1],
            "times": _few(times),
            "window": None if window is None else {"past": window[0], "future": window[1]},
            "probabilistic": run.model.probabilistic,
            "finished": run.results.finished,
        }

    def entity(self, name: str, part: str = "entity") -> int:
        """The id of an entity."""
        return _known(self.entities, name, part)

    def relation(self, name: str) -> int:
        """The id of a relation."""
        return _known(self.relations, name, "relation")

    def time(self, label: str) -> int:
        """The id of a time step."""
        try:
            return self.graph.time_id(label)
        except QueryError:
            after = bisect(self.graph.times, label)
            raise unknown("time", label, self.graph.times[max(0, after - 1) : after + 1]) from None

    async def complete(
        self,
        subject: str | None,
        relation: str | None,
        object_: str | None,
        time: str,
        top: int,
        evidence: int,
    ) -> Completion:
        """The best answers for the part of a fact that is missing."""
        if [subject, relation, object_].count(None) != 1:
            raise invalid("give two of subject, relation and object; the third is what is asked")
        if top > self.limits.top:
            raise invalid(f"top is at most {self.limits.top}, found {top}")
        if evidence and top > _MOST_EXPLAINED:
            raise invalid(f"with evidence, top is at most {_MOST_EXPLAINED}, found {top}")
        fact = (
            -1 if subject is None else self.entity(subject, "subject"),
            -1 if relation is None else self.relation(relation),
            -1 if object_ is None else self.entity(object_, "object"),
            self.time(time),
        )

        def finish(scores: Tensor) -> Completion:
            row = (
                scores[0]
                if relation is not None
                else self.predictor.model.relation_scores(fact[0], fact[2], fact[3])
            )
            return self.predictor.complete(fact, row, top, evidence)

        return await self._ask(
            [self.predictor.question(fact)] if relation is not None else [], finish
        )

    async def score(self, facts: Sequence[tuple[str, str, str, str]]) -> list[dict[str, Any]]:
        """Score, probability and rank of each fact as the answer for its object, and for its subject."""
        if len(facts) > self.limits.facts:
            raise invalid(
                f"a request has at most {self.limits.facts:,} facts, found {len(facts):,}"
            )
        rows = [
            (
                self.entity(subject, "subject"),
                self.relation(relation),
                self.entity(object_, "object"),
                self.time(time),
            )
            for subject, relation, object_, time in facts
        ]
        # Questions about one time share its encoding; parts no larger than a batch let others go in between.
        order = sorted(range(len(rows)), key=lambda number: rows[number][3])
        at_once = max(1, self.gatherer.most // 2)
        found: dict[int, dict[str, Any]] = {}
        for start in range(0, len(order), at_once):
            part = order[start : start + at_once]
            found |= zip(
                part,
                await self._ask([], partial(self._scored, [rows[place] for place in part])),
                strict=True,
            )
        return [found[place] for place in range(len(rows))]

    def _scored(self, rows: list[Fact], _: Tensor) -> list[dict[str, Any]]:
        """What the Predictor says of facts, side by side."""
        return [
            {"known": row["known"]}
            | {
                side: {
                    "score": row[f"{side}_score"] if math.isfinite(row[f"{side}_score"]) else None,
                    "probability": row[f"{side}_probability"],
                    "rank": row[f"{side}_rank"],
                }
                for side in ("object", "subject")
            }
            for row in self.predictor.score(np.array(rows)).to_pylist()
        ]

    async def evidence(
        self, subject: str, relation: str, object_: str, time: str, asked: str, most: int
    ) -> dict[str, Any]:
        """What speaks for a whole fact, as the answer for one of its parts."""
        fact = (
            self.entity(subject, "subject"),
            self.relation(relation),
            self.entity(object_, "object"),
            self.time(time),
        )

        def finish(_: Tensor) -> dict[str, Any]:
            if asked == "relation":
                found = self.predictor.complete(
                    (fact[0], -1, *fact[2:]), self._one_relation(fact[1]), 1, most
                )
            else:
                found = self.predictor.why(*fact, side=asked, evidence=most)
            answer = asdict(found.answers[0])
            return {name: answer[name] for name in ("known", "why", "evidence", "evidence_count")}

        named: dict[str, Any] = dict(self.graph.describe(np.array(fact)))
        return named | {"asked": asked} | await self._ask([], finish)

    def examples(self, most: int) -> list[dict[str, Any]]:
        """Facts that are worth asking about."""
        return self.book.describe(self.book.examples(most))

    def period(
        self, first: str | None, last: str | None, time: str | None, reach: int | None
    ) -> tuple[int, int]:
        """The ids of the first and the last step: those named, or so many to both sides of a time."""
        end = len(self.graph.times) - 1
        if reach is not None:
            if time is None or first is not None or last is not None:
                raise invalid("reach goes with time, and without from and to")
            middle = self.time(time)
            return max(0, middle - reach), min(end, middle + reach)
        start, stop = (
            0 if first is None else self.time(first),
            end if last is None else self.time(last),
        )
        if start > stop:
            raise invalid(f"the time runs from {first} to {last}, which is backwards")
        return start, stop

    def timeline(
        self, entity: str, first: int, last: int, time: str | None, limit: int, offset: int
    ) -> dict[str, Any]:
        """The facts of an entity by time, and what the model reads of the time around one step."""
        number, labels = self.entity(entity), self.graph.times[first : last + 1]
        places = self.book.of_entity(number, first, last)
        return {
            "entity": self.graph.entities[number],
            "from": labels[0],
            "to": labels[-1],
            "total": len(places),
            "counts": self.book.counts(places),
            "facts": self.book.describe(places[offset : offset + limit]),
            "times": _few(labels),
            "window": None if time is None else self._window(self.time(time)),
        }

    def snapshot(self, entity: str, time: str, limit: int) -> dict[str, Any]:
        """An entity at one step, its neighbours and the facts among them."""
        number, step = self.entity(entity), self.time(time)
        named = {"entity": self.graph.entities[number], "time": self.graph.times[step]}
        return named | self.book.snapshot(number, step, limit, most_edges=10 * limit)

    def _window(self, step: int) -> dict[str, str] | None:
        window, times = self.predictor.run.model.window, self.graph.times
        if window is None:
            return None
        first, last = max(0, step - window[0]), min(len(times) - 1, step + window[1])
        return {"from": times[first], "to": times[last]}

    def _one_relation(self, relation: int) -> Tensor:
        """Scores that single out a relation: what speaks for it does not depend on the others."""
        scores = torch.full((len(self.graph.relations),), -math.inf)
        scores[relation] = 0
        return scores

    async def _ask(
        self, questions: Sequence[Question], finish: Callable[[Tensor], Answer]
    ) -> Answer:
        try:
            return await self.gatherer.ask(questions, finish)
        except QueryError as error:
            raise invalid(str(error)) from error


class Service:
    """Runs by name; the first is asked where none is named."""

    def __init__(self, predictors: Mapping[str, Predictor], limits: Limits) -> None:
        if not predictors:
            raise ConfigError("name at least one run folder to serve")
        self.limits = limits
        self.metrics = Metrics()
        self.runs = {
            name: ServedRun(name, asked, limits, self.metrics) for name, asked in predictors.items()
        }

    def run(self, name: str | None) -> ServedRun:
        """The run of a name."""
        if name is None:
            return next(iter(self.runs.values()))
        if name not in self.runs:
            raise unknown("run", name, list(self.runs))
        return self.runs[name]

    def info(self) -> dict[str, Any]:
        """All runs, and the limits of requests."""
        limits = {name: getattr(self.limits, name) for name in ("body", "top", "facts", "seconds")}
        return {"runs": [run.info() for run in self.runs.values()], "limits": limits}

    def metrics_text(self) -> str:
        """The metrics, for Prometheus."""
        waiting = {name: run.gatherer.waiting for name, run in self.runs.items()}
        kept = {name: run.kept_bytes for name, run in self.runs.items()}
        return self.metrics.text(waiting, kept)


def named_runs(arguments: Sequence[str]) -> dict[str, Path]:
    """Run folders by the name that they are asked by: NAME=FOLDER, or the name of the folder itself."""
    named: dict[str, Path] = {}
    for argument in arguments:
        name, equals, folder = argument.partition("=")
        if not equals or Path(argument).exists():
            name, folder = Path(argument).resolve().name, argument
        if name in named:
            raise ConfigError(f"two runs are called '{name}'; give one another name: NAME={folder}")
        named[name] = Path(folder)
    return named


def _few(labels: Sequence[str]) -> list[str] | None:
    return list(labels) if len(labels) <= _MOST_LABELS else None


def _known(names: Names, name: str, part: str) -> int:
    number = names.id(name)
    if number is None:
        raise unknown(part, name, names.like(name))
    return number
