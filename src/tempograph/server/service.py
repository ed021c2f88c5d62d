"""Runs that are asked by name: questions go to the thread of their run, facts and names are looked up at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from tempograph.data.graph import COLUMNS, SPLITS
from tempograph.errors import ConfigError, QueryError
from tempograph.models.contract import Model
from tempograph.models.mixture import Mixture
from tempograph.models.temp import TeMP
from tempograph.predict import Completion, Fact, Predictor
from tempograph.server.batching import Answer, Gatherer, Question
from tempograph.server.facts import FactBook
from tempograph.server.kept import KeptTeMP
from tempograph.server.metrics import Metrics
from tempograph.server.names import Names
from tempograph.server.problems import invalid, unknown
from tempograph.timeline import Queries

_SCORE_BUDGET: Final = 2**28
"""Bytes for the scores of a batch."""
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
    cache: int = 2**30
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
        model = predictor.run.model
        self.kept = KeptTeMP(model, limits.cache) if isinstance(model, TeMP) and limits.cache else None
        asked = model if self.kept is None else self.kept
        self._scores: Callable[[Queries], Tensor] = asked.scores
        self._relation_scores: Callable[[int, int, int], Tensor] = asked.relation_scores
        fitting = _SCORE_BUDGET // (model.bytes_per_candidate * len(self.graph.entities))
        self.gatherer = Gatherer(
            self._scores,
            model.device,
            max(1, min(limits.batch, fitting)),
            limits.gather,
            limits.waiting,
            prepare=(lambda: False) if self.kept is None else self.kept.prepare,
            observe=partial(metrics.batch, name),
        )

    def warm(self) -> None:
        """Answer a first question, so that the first one of a client finds everything in its place."""
        last = len(self.graph.times) - 1
        device = self.predictor.run.model.device
        with torch.inference_mode():
            self._scores(Queries(*(torch.tensor([value], device=device) for value in (0, 0, last))))

    def info(self) -> dict[str, Any]:
        """What a client must know of the run before it asks."""
        run, times = self.predictor.run, self.graph.times
        window = window_of(run.model)
        return {
            "name": self.name,
            "model": run.config.name,
            "dataset": run.config.dataset,
            "protocol": run.config.protocol,
            "metrics": {split: run.results[split]["metrics"] for split in SPLITS if split in run.results},
            "entities": len(self.graph.entities),
            "relations": len(self.graph.relations),
            "facts": {split: len(self.graph.facts(split)) for split in SPLITS},
            "steps": len(times),
            "first": times[0],
            "last": times[-1],
            "times": list(times) if len(times) <= _MOST_LABELS else None,
            "window": None if window is None else {"past": window[0], "future": window[1]},
            "probabilistic": run.model.probabilistic,
            "finished": run.results.get("finished", True),
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
            times = self.graph.times
            near = times[0] if label < times[0] else times[-1] if label > times[-1] else None
            raise unknown("time", label, [] if near is None else [near]) from None

    async def complete(
        self, subject: str | None, relation: str | None, object_: str | None, time: str, top: int, evidence: int
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
            row = scores[0] if relation is not None else self._relation_scores(fact[0], fact[2], fact[3]).cpu()
            return self.predictor.complete(fact, row, top, evidence)

        questions: list[Question] = []
        if relation is not None:
            questions.append((fact[0], fact[1], fact[3]) if object_ is None else self._inverted(fact))
        return await self._ask(questions, finish)

    async def score(self, facts: Sequence[tuple[str, str, str, str]]) -> list[dict[str, Any]]:
        """Score, probability and rank of each fact as the answer for its object, and for its subject."""
        if len(facts) > self.limits.facts:
            raise invalid(f"a request has at most {self.limits.facts:,} facts, found {len(facts):,}")
        rows = [
            (self.entity(subject, "subject"), self.relation(relation), self.entity(object_, "object"), self.time(time))
            for subject, relation, object_, time in facts
        ]
        asked = [(fact[0], fact[1], fact[3], fact[2]) for fact in rows] + [(*self._inverted(f), f[0]) for f in rows]
        # Questions about one time share its encoding; parts no larger than a batch let others go in between.
        order = sorted(range(len(asked)), key=lambda number: asked[number][2])
        found: dict[int, dict[str, Any]] = {}
        for start in range(0, len(order), self.gatherer.most):
            part = order[start : start + self.gatherer.most]
            answers = torch.tensor([asked[number][3] for number in part])
            questions = [asked[number][:3] for number in part]
            found |= zip(part, await self._ask(questions, partial(self._standing, answers)), strict=True)
        known = self.book.splits_of(rows)
        return [
            {"known": split, "object": found[number], "subject": found[number + len(rows)]}
            for number, split in enumerate(known)
        ]

    def _standing(self, answers: Tensor, scores: Tensor) -> list[dict[str, Any]]:
        """How answers [n] stand among all candidates, by scores [n, entities]."""
        own = scores.gather(1, answers[:, None])
        rank = 1 + (scores > own).sum(1)
        share = (own[:, 0].double() - scores.double().logsumexp(1)).exp()
        probabilistic = self.predictor.run.model.probabilistic
        return [
            {
                "score": score if math.isfinite(score) else None,
                "probability": probability if probabilistic else None,
                "rank": place,
            }
            for score, probability, place in zip(own[:, 0].tolist(), share.tolist(), rank.tolist(), strict=True)
        ]

    async def evidence(
        self, subject: str, relation: str, object_: str, time: str, asked: str, most: int
    ) -> dict[str, Any]:
        """What speaks for a whole fact, as the answer for one of its parts."""
        fact = self.entity(subject, "subject"), self.relation(relation), self.entity(object_, "object"), self.time(time)

        def finish(_: Tensor) -> dict[str, Any]:
            why, facts, shares = self.predictor.support(fact, COLUMNS.index(asked))
            shown = self.predictor.describe(facts[:most], shares)
            return {"why": why, "evidence": [asdict(each) for each in shown], "evidence_count": len(facts)}

        (known,) = self.book.splits_of([fact])
        named: dict[str, Any] = dict(self.graph.describe(np.array(fact)))
        return named | {"asked": asked, "known": known} | await self._ask([], finish)

    def timeline(
        self, entity: str, first: str | None, last: str | None, time: str | None, limit: int, offset: int
    ) -> dict[str, Any]:
        """The facts of an entity by time, and what the model reads of the time around one step."""
        start = 0 if first is None else self.time(first)
        stop = len(self.graph.times) - 1 if last is None else self.time(last)
        if start > stop:
            raise invalid(f"the time runs from {first} to {last}, which is backwards")
        number = self.entity(entity)
        places = self.book.of_entity(number, start, stop)
        return {
            "entity": self.graph.entities[number],
            "from": self.graph.times[start],
            "to": self.graph.times[stop],
            "total": len(places),
            "counts": self.book.counts(places),
            "facts": self.book.describe(places[offset : offset + limit]),
            "window": None if time is None else self._window(self.time(time)),
        }

    def snapshot(self, entity: str, time: str, limit: int) -> dict[str, Any]:
        """An entity at one step, its neighbours and the facts among them."""
        number, step = self.entity(entity), self.time(time)
        named = {"entity": self.graph.entities[number], "time": self.graph.times[step]}
        return named | self.book.snapshot(number, step, limit, most_edges=10 * limit)

    def _window(self, step: int) -> dict[str, str] | None:
        window, times = window_of(self.predictor.run.model), self.graph.times
        if window is None:
            return None
        first, last = max(0, step - window[0]), min(len(times) - 1, step + window[1])
        return {"from": times[first], "to": times[last]}

    def _inverted(self, fact: Fact) -> Question:
        return fact[2], fact[1] + len(self.graph.relations), fact[3]

    async def _ask(self, questions: Sequence[Question], finish: Callable[[Tensor], Answer]) -> Answer:
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
        self.runs = {name: ServedRun(name, asked, limits, self.metrics) for name, asked in predictors.items()}

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
        kept = {name: 0 if run.kept is None else run.kept.nbytes for name, run in self.runs.items()}
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


def window_of(model: Model) -> tuple[int, int] | None:
    """Steps of the past and of the future that a model reads around a question; None where there is no such bound."""
    if isinstance(model, TeMP):
        return model.reach
    if isinstance(model, Mixture):
        windows = [window for part in model.parts if (window := window_of(part)) is not None]
        return (max(past for past, _ in windows), max(future for _, future in windows)) if windows else None
    return None


def _known(names: Names, name: str, part: str) -> int:
    number = names.id(name)
    if number is None:
        raise unknown(part, name, names.like(name))
    return number
