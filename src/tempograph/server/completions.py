"""Answers of a served run: to one question, to many, and the evidence for one answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from tempograph.data.graph import COLUMNS
from tempograph.prediction.answer import evidence_legend
from tempograph.prediction.answers import Completion
from tempograph.prediction.candidate_ranking import Ranking, asked_part, rank_candidates
from tempograph.prediction.completion import explain_candidates, name_answers, score_candidates
from tempograph.prediction.interval_answers import IntervalSearch
from tempograph.prediction.period import PeriodScores, rank_period, score_period
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.server.entity_questions import EntityAnswer, EntityQuestion
from tempograph.server.located_facts import locate, locate_end
from tempograph.server.problems import invalid
from tempograph.server.schema.request_models import (
    AnswerOptions,
    CompletionRequest,
    EvidenceRequest,
)
from tempograph.server.schema.response_models import CompletionResponse, EvidenceResponse
from tempograph.server.served_run import ServedRun

_MAX_EXPLAINED: Final = 100
"""Answers to one query that may have evidence, which takes longer than scoring."""
NEW_INTERVALS: Final = "new leaves out steps, but the answers are intervals; leave it out"
ONE_MISSING: Final = "give three of subject, relation, object and time; the answers are the fourth"


async def complete(run: ServedRun, request: CompletionRequest, client: str) -> CompletionResponse:
    """The best answers for the missing part of a fact."""
    if request.parts.count(None) != 1:
        raise invalid(ONE_MISSING)
    check_options(run, request)
    new, top, evidence = request.new, request.top, request.evidence
    scenario, fact = await locate(run, request.parts, client)
    period = None
    if (request.first, request.last) != (None, None):
        if request.time is not None:
            raise invalid("first and last bound the answers to a missing time; leave the time out")
        period = await run.find_ids(lambda: run.browser.span(request.first, request.last))
    if request.until is not None:
        if request.time is None:
            raise invalid("until ends the period that starts at the time; give the time as well")
        scenario, last = await locate_end(run, scenario, fact, request.until, client)
        ranking = await _rank_period(run, scenario, fact, last, client, top, new)
        answer = EntityAnswer(ranking, None)
        completion = await name_ranking(run, scenario, answer, evidence, client, admitted=True)
        return CompletionResponse(run=run.name, model=run.model_name, **vars(completion))
    if asks_interval(scenario, fact) and new:
        raise invalid(NEW_INTERVALS)
    await prepare(run, fact)
    if asks_interval(scenario, fact):
        intervals = await answer_interval(run, fact, request, client, period)
        return CompletionResponse(run=run.name, model=run.model_name, **vars(intervals))
    if asked_part(fact) == "entity" and scenario is run.predictor.scenario:
        answer = await run.ask(EntityQuestion(fact, top, new, not evidence), client)
    else:

        def rank() -> EntityAnswer:
            scores = score_candidates(scenario, fact)
            ranking = rank_candidates(scenario, fact, scores, top, new=new, period=period)
            named = None if evidence else name_answers(scenario, ranking, None, 0)
            return EntityAnswer(ranking, named)

        answer = await run.work(rank, client)
    completion = await name_ranking(run, scenario, answer, evidence, client)
    return CompletionResponse(run=run.name, model=run.model_name, **vars(completion))


async def name_ranking(
    run: ServedRun,
    scenario: Scenario,
    answer: EntityAnswer,
    evidence: int,
    client: str,
    admitted: bool = False,
) -> Completion:
    """The answers to a question with at most so much evidence each, if they are not named yet."""
    ranking = answer.ranking
    if answer.completion is not None:
        return answer.completion
    found = None
    if evidence:
        explain = partial(explain_candidates, scenario, ranking)
        found = await run.in_units(ranking.candidates, explain, _MAX_EXPLAINED, client, admitted)
    name = partial(name_answers, scenario, ranking, found, evidence)
    return await run.work(name, client, admitted=True)


async def answer_interval(
    run: ServedRun,
    fact: Fact,
    request: AnswerOptions,
    client: str,
    period: range | None = None,
    admitted: bool = False,
) -> Completion:
    """The best intervals of a fact whose time is missing, with their evidence."""
    make = partial(IntervalSearch, run.predictor.scenario, fact, period)
    search = await run.work(make, client, admitted=admitted)
    steps, parts = search.scored, list[Tensor]()
    async for _, part in run.units(steps, search.plausibility, len(steps), client, admitted=True):
        parts.append(part)
    best = partial(search.best, torch.cat(parts), request.top)
    intervals = await run.work(best, client, admitted=True)
    found = None
    if request.evidence:
        found = await run.in_units(intervals, search.explain, _MAX_EXPLAINED, client, admitted=True)
    name = partial(search.name, intervals, found, request.evidence)
    return await run.work(name, client, admitted=True)


async def _rank_period(
    run: ServedRun,
    scenario: Scenario,
    fact: Fact,
    last: int,
    client: str,
    top: int = 1,
    new: bool = False,
    candidate: int | None = None,
) -> Ranking:
    """The best candidates, or one of them, at any step from the time of a fact to `last`."""

    def score(steps: Sequence[int]) -> list[PeriodScores]:
        part = range(steps[0], steps[-1] + 1)
        return [score_period(scenario, fact, last, new, steps=part)]

    period = range(fact[3], last + 1)
    first, *later = await run.in_units(period, score, len(period), client)
    for part in later:
        first = first.then(part)
    rank = partial(rank_period, first, fact, last, top, candidate)
    return await run.work(rank, client, admitted=True)


async def prepare(run: ServedRun, fact: Fact) -> None:
    """Wait until everything is fitted that the answers to a question need."""
    asked, questions = asked_part(fact), run.predictor.run.questions
    if asked == "entity":
        return

    def fit() -> None:
        if asks_interval(run.predictor.scenario, fact):
            questions.interval_chooser(run.predictor.run.model)
        else:
            questions.heads()
            questions.calibrator(asked)

    await run.fit(asked, fit)


def asks_interval(scenario: Scenario, fact: Fact) -> bool:
    """Whether the answers to a question are intervals."""
    return asked_part(fact) == "time" and scenario.timeline.has_intervals


def check_options(run: ServedRun, request: AnswerOptions) -> None:
    if request.top > run.limits.top:
        raise invalid(f"top is at most {run.limits.top}, found {request.top}")
    if request.evidence and request.top > _MAX_EXPLAINED:
        raise invalid(f"with evidence, top is at most {_MAX_EXPLAINED}, found {request.top}")


async def explain(run: ServedRun, request: EvidenceRequest, client: str) -> EvidenceResponse:
    """The train facts behind a fact, as the answer for one of its parts."""
    if request.asked == "time" and run.predictor.timeline.has_intervals:
        raise invalid(
            "the answers to a missing time are intervals, and their evidence comes with them; ask "
            "for completions with evidence"
        )
    # Steps of the data alone are answers to a missing time.
    scenario, fact = await locate(run, request.parts, client, ahead=request.asked != "time")
    part = COLUMNS.index(request.asked)
    question: Fact = (*fact[:part], -1, *fact[part + 1 :])  # type: ignore[assignment]
    if request.until is not None:
        if request.asked == "time":
            raise invalid("until ends a period that starts at the time; ask for another part")
        scenario, last = await locate_end(run, scenario, question, request.until, client)
        ranking = await _rank_period(run, scenario, question, last, client, candidate=fact[part])
        fact = (*fact[:3], ranking.steps[0])
    else:
        await prepare(run, question)

        def rank() -> Ranking:
            scores = score_candidates(scenario, question)
            return rank_candidates(scenario, question, scores, 1, candidate=fact[part])

        ranking = await run.work(rank, client)
    answered = EntityAnswer(ranking, None)
    completion = await name_ranking(run, scenario, answered, request.most, client, admitted=True)
    (answer,) = completion.answers
    members: dict[str, Any] = vars(answer) | scenario.graph.describe(np.array(fact))
    members["score"] = answer.score if math.isfinite(answer.score) else None
    return EvidenceResponse(
        run=run.name,
        **members,
        asked=request.asked,
        legend=evidence_legend(answer.evidence),
        notes=completion.notes,
    )
