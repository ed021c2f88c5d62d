"""One run behind the service: its queries are scored in batches on a thread of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor

from tempograph.data.timeline import Queries
from tempograph.device import memory_budget
from tempograph.errors import QueryError
from tempograph.prediction.answer import Answer, evidence_legend
from tempograph.prediction.predictor import Predictor
from tempograph.prediction.scenario import Fact
from tempograph.server.batching import Query, QueryBatcher, Result
from tempograph.server.graph_browser import GraphBrowser, shown_labels
from tempograph.server.limits import Limits
from tempograph.server.metrics import Metrics
from tempograph.server.problems import invalid
from tempograph.server.schema import (
    CandidateScore,
    CompletionRequest,
    CompletionResponse,
    EvidenceRequest,
    EvidenceResponse,
    FactRequest,
    RunInfo,
    ScoredFact,
    ScoreResponse,
    WindowSize,
)
from tempograph.typing import SPLITS

_MAX_EXPLAINED: Final = 100
"""Answers to one query that may have evidence, which takes longer than scoring."""


class ServedRun:
    """A predictor with a name, a batcher and an index of its facts."""

    def __init__(self, name: str, predictor: Predictor, limits: Limits, metrics: Metrics) -> None:
        self.name = name
        self.predictor = predictor
        self.limits = limits
        self.browser = GraphBrowser(name, predictor.run.graph, predictor.model.window)
        model, graph = predictor.model, predictor.graph
        self._cold_steps = len(graph.times)
        bytes_per_query = model.bytes_per_candidate * len(graph.entities)
        affordable = memory_budget("service", model.device) // bytes_per_query
        self.batcher = QueryBatcher(
            model.scores,
            model.device,
            max(1, min(limits.batch, affordable)),
            limits.gather,
            limits.waiting,
            self._encode_next_step,
            metrics.batch_queries.labels(name).observe,
        )
        metrics.waiting.labels(name).set_function(lambda: self.batcher.waiting)
        metrics.cached_bytes.labels(name).set_function(lambda: self._cached_bytes)

    def warm_up(self) -> None:
        """Answer a first query, so that the first client does not wait for lazy set-up."""
        self._encode_next_step()
        graph = self.predictor.graph
        fact = (0, 0, -1, len(graph.times) - 1)
        self.predictor.complete(fact, torch.zeros(len(graph.entities)), 1, 0)

    @property
    def _cached_bytes(self) -> int:
        return sum(cache.size for cache in self.predictor.model.caches)

    def _encode_next_step(self) -> bool:
        """Let the model cache the latest step not cached yet; return whether another would fit."""
        if not self._cold_steps:
            return False
        self._cold_steps -= 1
        before, model = self._cached_bytes, self.predictor.model
        query = ([0], [0], [self._cold_steps])
        with torch.inference_mode():
            model.scores(Queries(*(torch.tensor(ids, device=model.device) for ids in query)))
        budget = sum(cache.budget for cache in model.caches)
        return self._cold_steps > 0 and 2 * self._cached_bytes - before < budget

    def info(self) -> RunInfo:
        """What a client needs to know about the run."""
        run, window = self.predictor.run, self.browser.window
        graph = run.graph
        return RunInfo(
            name=self.name,
            model=run.config.name,
            dataset=run.config.dataset,
            protocol=run.config.protocol,
            metrics={name: each["metrics"] for name, each in run.results.evaluations.items()},
            entities=len(graph.entities),
            relations=len(graph.relations),
            facts={split: len(graph.facts(split)) for split in SPLITS},
            steps=len(graph.times),
            first=graph.times[0],
            last=graph.times[-1],
            times=shown_labels(graph.times),
            window=None if window is None else WindowSize(past=window[0], future=window[1]),
            finished=run.results.finished,
        )

    async def complete(self, request: CompletionRequest) -> CompletionResponse:
        """The best answers for the missing part of a fact."""
        subject, relation, object_ = request.subject, request.relation, request.object
        top, evidence = request.top, request.evidence
        if [subject, relation, object_].count(None) != 1:
            raise invalid("give two of subject, relation and object; the answers are the third")
        if top > self.limits.top:
            raise invalid(f"top is at most {self.limits.top}, found {top}")
        if evidence and top > _MAX_EXPLAINED:
            raise invalid(f"with evidence, top is at most {_MAX_EXPLAINED}, found {top}")
        fact = self._fact_ids(subject, relation, object_, request.time)
        predictor = self.predictor

        def finish(scores: Tensor) -> CompletionResponse:
            row = predictor.candidate_scores(fact) if relation is None else scores[0]
            completion = predictor.complete(fact, row, top, evidence, new=request.new)
            model = predictor.run.config.name
            return CompletionResponse(run=self.name, model=model, **vars(completion))

        # Relations are scored by `finish`, one request at a time.
        queries = [] if relation is None else [predictor.question(fact)]
        return await self._submit(queries, finish)

    async def score(self, facts: Sequence[FactRequest]) -> ScoreResponse:
        """Score, probability and rank of each fact as the answer for its object and its subject."""
        if len(facts) > self.limits.facts:
            raise invalid(
                f"a request may have at most {self.limits.facts:,} facts, found {len(facts):,}"
            )
        ids = [
            self._fact_ids(fact.subject, fact.relation, fact.object, fact.time) for fact in facts
        ]
        # Queries at one time share its encoding; small chunks let other requests go between them.
        order = sorted(range(len(ids)), key=lambda index: ids[index][3])
        chunk = max(1, self.batcher.max_queries // 2)
        scored: dict[int, ScoredFact] = {}
        for start in range(0, len(order), chunk):
            part = order[start : start + chunk]
            rows = [ids[index] for index in part]
            scores = await self._submit([], partial(self._score_facts, rows))
            scored |= zip(part, scores, strict=True)
        return ScoreResponse(run=self.name, facts=[scored[index] for index in range(len(ids))])

    def _score_facts(self, facts: list[Fact], _: Tensor) -> list[ScoredFact]:
        return [
            ScoredFact(
                known=row["known"], **{side: _side(row, side) for side in ("object", "subject")}
            )
            for row in self.predictor.score(np.array(facts), progress=False).to_pylist()
        ]

    async def explain(self, request: EvidenceRequest) -> EvidenceResponse:
        """The train facts behind a fact, as the answer for one of its parts."""
        fact = self._fact_ids(request.subject, request.relation, request.object, request.time)
        predictor = self.predictor

        def finish(_: Tensor) -> Answer:
            if request.asked == "relation":
                query = (fact[0], -1, fact[2], fact[3])
                scores = predictor.candidate_scores(query)
                found = predictor.complete(query, scores, 1, request.most, candidate=fact[1])
                return found.answers[0]
            return predictor.why(*fact, side=request.asked, evidence=request.most).answers[0]

        answer = await self._submit([], finish)
        return EvidenceResponse(
            run=self.name,
            **predictor.graph.describe(np.array(fact)),
            asked=request.asked,
            known=answer.known,
            why=answer.why,
            evidence=answer.evidence,
            evidence_count=answer.evidence_count,
            legend=evidence_legend(answer.evidence),
        )

    def _fact_ids(
        self, subject: str | None, relation: str | None, object_: str | None, time: str
    ) -> Fact:
        """The ids of a fact, -1 for a missing part."""
        names = self.browser
        return (
            -1 if subject is None else names.entity_id(subject, "subject"),
            -1 if relation is None else names.relation_id(relation),
            -1 if object_ is None else names.entity_id(object_, "object"),
            names.time_id(time),
        )

    async def _submit(self, queries: Sequence[Query], finish: Callable[[Tensor], Result]) -> Result:
        try:
            return await self.batcher.submit(queries, finish)
        except QueryError as error:
            raise invalid(str(error)) from error


def _side(row: dict[str, float], side: str) -> CandidateScore:
    score = row[f"{side}_score"]
    return CandidateScore(
        score=score if math.isfinite(score) else None,
        probability=row[f"{side}_probability"],
        rank=row[f"{side}_rank"],
    )
