"""One run behind the service: its queries are scored in batches on a thread of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import numpy as np
import torch
from torch import Tensor

from tempograph.data.timeline import Queries
from tempograph.device import memory_budget
from tempograph.errors import QueryError
from tempograph.prediction.answer import Answer, evidence_legend
from tempograph.prediction.answers import Completion
from tempograph.prediction.completion import (
    Ranking,
    explain_candidates,
    name_answers,
    rank_candidates,
)
from tempograph.prediction.predictor import Predictor
from tempograph.prediction.scenario import Fact
from tempograph.server.batching import QueryBatcher, Result
from tempograph.server.graph_browser import GraphBrowser, UnknownName, shown_labels
from tempograph.server.limits import Limits
from tempograph.server.lookup_threads import LookupThreads
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
_UNIT_SECONDS: Final = 0.1
"""How long a unit of work may keep other requests waiting."""
Item = TypeVar("Item")


class ServedRun:
    """A predictor with a name, a batcher and an index of its facts."""

    def __init__(
        self,
        name: str,
        predictor: Predictor,
        limits: Limits,
        metrics: Metrics,
        threads: LookupThreads,
    ) -> None:
        self.name = name
        self._threads = threads
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
        for names in (graph.entity_index, graph.relation_index):
            names.find("")

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

    async def complete(self, request: CompletionRequest, client: str) -> CompletionResponse:
        """The best answers for the missing part of a fact."""
        subject, relation, object_ = request.subject, request.relation, request.object
        top, evidence = request.top, request.evidence
        if [subject, relation, object_].count(None) != 1:
            raise invalid("give two of subject, relation and object; the answers are the third")
        if top > self.limits.top:
            raise invalid(f"top is at most {self.limits.top}, found {top}")
        if evidence and top > _MAX_EXPLAINED:
            raise invalid(f"with evidence, top is at most {_MAX_EXPLAINED}, found {top}")
        fact = await self._fact_ids(subject, relation, object_, request.time)
        scenario = self.predictor.scenario

        def finish(scores: Tensor) -> tuple[Ranking, Completion | None]:
            row = self.predictor.candidate_scores(fact) if relation is None else scores[0]
            ranking = rank_candidates(scenario, fact, row, top, new=request.new)
            return ranking, None if evidence else name_answers(scenario, ranking, None, 0)

        if relation is None:
            unit = partial(finish, torch.empty(0))
            ranking, completion = await self._await(self.batcher.work(unit, client))
        else:
            query = self.predictor.question(fact)
            ranking, completion = await self._await(self.batcher.submit([query], finish, client))
        if completion is None:
            explain = partial(explain_candidates, scenario, ranking)
            found = await self._in_units(ranking.candidates, explain, _MAX_EXPLAINED, client)
            name = partial(name_answers, scenario, ranking, found, evidence)
            completion = await self._await(self.batcher.work(name, client, admitted=True))
        model = self.predictor.run.config.name
        return CompletionResponse(run=self.name, model=model, **vars(completion))

    async def score(self, facts: Sequence[FactRequest], client: str) -> ScoreResponse:
        """Score, probability and rank of each fact as the answer for its object and its subject."""

        def find_ids() -> list[Fact]:
            return [
                self.browser.fact_ids(fact.subject, fact.relation, fact.object, fact.time, index)
                for index, fact in enumerate(facts)
            ]

        ids = await self.look_up(find_ids)
        # Queries at one time share its encoding.
        order = sorted(range(len(ids)), key=lambda index: ids[index][3])
        rows = [ids[index] for index in order]
        scores = await self._in_units(
            rows, self._score_facts, max(1, self.batcher.max_queries // 2), client
        )
        scored = dict(zip(order, scores, strict=True))
        return ScoreResponse(run=self.name, facts=[scored[index] for index in range(len(ids))])

    def _score_facts(self, facts: Sequence[Fact]) -> list[ScoredFact]:
        return [
            ScoredFact(
                known=row["known"], **{side: _side(row, side) for side in ("object", "subject")}
            )
            for row in self.predictor.score(np.array(facts), progress=False).to_pylist()
        ]

    async def explain(self, request: EvidenceRequest, client: str) -> EvidenceResponse:
        """The train facts behind a fact, as the answer for one of its parts."""
        fact = await self._fact_ids(request.subject, request.relation, request.object, request.time)
        predictor = self.predictor

        def find_evidence() -> Answer:
            if request.asked == "relation":
                query = (fact[0], -1, fact[2], fact[3])
                scores = predictor.candidate_scores(query)
                found = predictor.complete(query, scores, 1, request.most, candidate=fact[1])
                return found.answers[0]
            return predictor.why(*fact, side=request.asked, evidence=request.most).answers[0]

        answer = await self._await(self.batcher.work(find_evidence, client))
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

    async def look_up(self, function: Callable[[], Result]) -> Result:
        """The result of a function that reads names or facts, computed on another thread."""

        def look_up() -> Result:
            try:
                return function()
            except UnknownName as error:
                raise self.browser.suggest(error) from None

        return await self._threads.run(look_up)

    async def _fact_ids(
        self, subject: str | None, relation: str | None, object_: str | None, time: str
    ) -> Fact:
        """The ids of one fact, -1 for a missing part; only suggestions need another thread."""
        try:
            return self.browser.fact_ids(subject, relation, object_, time)
        except UnknownName as error:
            raise await self._threads.run(partial(self.browser.suggest, error)) from None

    async def _in_units(
        self,
        items: Sequence[Item],
        work: Callable[[Sequence[Item]], Sequence[Result]],
        max_items: int,
        client: str,
    ) -> list[Result]:
        """The result for each item, computed in units of a fraction of a second.

        Other requests go between them, and nothing is computed for a client that has left.
        """
        results: list[Result] = []
        size = 1
        while len(results) < len(items):
            unit = partial(_timed, work, items[len(results) : len(results) + size])
            left = len(items) - len(results)
            found, seconds = await self._await(
                self.batcher.work(unit, client, left, admitted=bool(results))
            )
            results += found
            size = max(1, min(max_items, 2 * size, int(size * _UNIT_SECONDS / seconds)))
        return results

    async def _await(self, answer: Awaitable[Result]) -> Result:
        try:
            return await answer
        except QueryError as error:
            raise invalid(str(error)) from error


def _timed(work: Callable[[Sequence[Item]], Result], items: Sequence[Item]) -> tuple[Result, float]:
    """The result of some work, and the seconds that it took."""
    start = time.perf_counter()
    result = work(items)
    return result, max(1e-6, time.perf_counter() - start)


def _side(row: dict[str, float], side: str) -> CandidateScore:
    score = row[f"{side}_score"]
    return CandidateScore(
        score=score if math.isfinite(score) else None,
        probability=row[f"{side}_probability"],
        rank=row[f"{side}_rank"],
    )
