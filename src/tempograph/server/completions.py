"""Answers of a served run: to one question, to many, and the evidence for one answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from tempograph.data.graph import COLUMNS
from tempograph.errors import DataError, QueryError
from tempograph.prediction.answer import evidence_legend
from tempograph.prediction.answers import Completion
from tempograph.prediction.candidate_ranking import (
    Ranking,
    asked_part,
    rank_candidates,
    rank_questions,
)
from tempograph.prediction.completion import (
    explain_candidates,
    name_and_explain,
    name_answers,
    score_candidates,
)
from tempograph.prediction.interval_answers import complete_interval
from tempograph.prediction.period import PeriodScores, rank_period, score_period
from tempograph.prediction.questions import read_questions, refuse_unranked
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.server.entity_questions import EntityAnswer, EntityQuestion
from tempograph.server.problems import Place, invalid
from tempograph.server.schema.members import Parts
from tempograph.server.schema.request_models import (
    AnswerOptions,
    BatchCompletionRequest,
    CompletionRequest,
    EvidenceRequest,
)
from tempograph.server.schema.response_models import (
    BatchResult,
    CompletionResponse,
    EvidenceResponse,
)
from tempograph.server.served_run import ServedRun

_MAX_EXPLAINED: Final = 100
"""Answers to one query that may have evidence, which takes longer than scoring."""
_MAX_ANSWERS: Final = 100_000
"""Answers to all questions of a batch."""
ONE_MISSING: Final = "give three of subject, relation, object and time; the answers are the fourth"


async def complete(run: ServedRun, request: CompletionRequest, client: str) -> CompletionResponse:
    """The best answers for the missing part of a fact."""
    if request.parts.count(None) != 1:
        raise invalid(ONE_MISSING)
    _check_options(run, request)
    new, top, evidence = request.new, request.top, request.evidence
    scenario, fact = await _locate(run, request.parts, client)
    period = None
    if (request.first, request.last) != (None, None):
        if request.time is not None:
            raise invalid("first and last bound the answers to a missing time; leave the time out")
        period = await run.find_ids(lambda: run.browser.span(request.first, request.last))
    if request.until is not None:
        if request.time is None:
            raise invalid("until ends the period that starts at the time; give the time as well")
        until = request.until
        last = await run.find_ids(lambda: run.browser.time_id(until, "until"))
        _check_period(scenario, fact, last)
        ranking = await _rank_period(run, scenario, fact, last, request, client)
        return await _name(run, scenario, EntityAnswer(ranking, None), evidence, client)
    if _asks_interval(scenario, fact) and new:
        raise invalid("new leaves out steps, but the answers are intervals; leave it out")
    await prepare(run, fact)
    if _asks_interval(scenario, fact):
        when = partial(complete_interval, scenario, fact, top, evidence, period=period)
        intervals = await run.work(when, client)
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
    return await _name(run, scenario, answer, evidence, client)


async def _name(
    run: ServedRun, scenario: Scenario, answer: EntityAnswer, evidence: int, client: str
) -> CompletionResponse:
    """The answers to a question with at most so much evidence each, if they are not named yet."""
    ranking, completion = answer.ranking, answer.completion
    if completion is None:
        found = None
        if evidence:
            explain = partial(explain_candidates, scenario, ranking)
            found = await run.in_units(ranking.candidates, explain, _MAX_EXPLAINED, client)
        name = partial(name_answers, scenario, ranking, found, evidence)
        completion = await run.work(name, client, admitted=True)
    return CompletionResponse(run=run.name, model=run.model_name, **vars(completion))


async def _rank_period(
    run: ServedRun,
    scenario: Scenario,
    fact: Fact,
    last: int,
    request: CompletionRequest,
    client: str,
) -> Ranking:
    """The best candidates at any step from the time of a fact to `last`."""

    def score(steps: Sequence[int]) -> list[PeriodScores]:
        part = range(steps[0], steps[-1] + 1)
        return [score_period(scenario, fact, last, request.new, steps=part)]

    period = range(fact[3], last + 1)
    first, *later = await run.in_units(period, score, len(period), client)
    for part in later:
        first = first.then(part)
    return await run.work(
        lambda: rank_period(first, fact, last, request.top), client, admitted=True
    )


async def _locate(
    run: ServedRun, parts: Parts, client: str, ahead: bool = True
) -> tuple[Scenario, Fact]:
    """The ids of a fact, -1 for a missing part, and the scenario for its time.

    A time after the last step, such as +1, is one of a scenario with further steps, if the question
    may look `ahead`.
    """
    subject, relation, object_, time = parts
    scenario = run.predictor.scenario
    if time is None or not ahead or run.browser.has_time(time):
        return scenario, await run.find_ids(lambda: run.browser.fact_ids(parts))
    fact = await run.find_ids(lambda: run.browser.fact_ids((subject, relation, object_, None)))

    def look_ahead() -> tuple[Scenario, int] | None:
        try:
            return scenario.at(time)
        except QueryError:
            return None

    later = await run.work(look_ahead, client)
    if later is None:
        return scenario, await run.find_ids(lambda: run.browser.fact_ids(parts))
    return later[0], (*fact[:3], later[1])


async def prepare(run: ServedRun, fact: Fact) -> None:
    """Wait until everything is fitted that the answers to a question need."""
    asked, questions = asked_part(fact), run.predictor.run.questions
    if asked == "entity":
        return

    def fit() -> None:
        if _asks_interval(run.predictor.scenario, fact):
            questions.interval_chooser(run.predictor.run.model)
        else:
            questions.heads()
            questions.calibrator(asked)

    await run.fit(asked, fit)


def _asks_interval(scenario: Scenario, fact: Fact) -> bool:
    """Whether the answers to a question are intervals."""
    return asked_part(fact) == "time" and scenario.timeline.has_intervals


def _check_period(scenario: Scenario, fact: Fact, last: int) -> None:
    try:
        scenario.check_period(fact, last)
    except QueryError as error:
        raise invalid(str(error)) from error


async def complete_batch(
    run: ServedRun, request: BatchCompletionRequest, client: str
) -> list[BatchResult]:
    """The best answers to each of many questions, in their order."""
    _check_options(run, request)
    if len(request.questions) * request.top > _MAX_ANSWERS:
        raise invalid(
            f"a batch has at most {_MAX_ANSWERS:,} answers, found {len(request.questions):,} "
            f"questions with {request.top:,} each; send several"
        )
    facts, errors = await run.look_up(lambda: _read_questions(run, request))
    # Questions at one time share its encoding.
    order = sorted((row for row in range(len(facts)) if not errors[row]), key=lambda r: facts[r][3])
    answer = partial(_answer_all, run, request)
    rows = [facts[row] for row in order]
    for fact in {asked_part(fact): fact for fact in rows}.values():
        await prepare(run, fact)
    found = await run.in_units(rows, answer, run.batcher.max_questions, client)
    completions = dict(zip(order, found, strict=True))
    return [
        BatchResult(completion=completions.get(row), error=error)
        for row, error in enumerate(errors)
    ]


def _check_options(run: ServedRun, request: AnswerOptions) -> None:
    if request.top > run.limits.top:
        raise invalid(f"top is at most {run.limits.top}, found {request.top}")
    if request.evidence and request.top > _MAX_EXPLAINED:
        raise invalid(f"with evidence, top is at most {_MAX_EXPLAINED}, found {request.top}")


def _read_questions(
    run: ServedRun, request: BatchCompletionRequest
) -> tuple[list[Fact], list[str | None]]:
    """The ids of each question, and what is wrong with it; if strict, the first error is raised."""
    questions = [question.parts for question in request.questions]
    if not request.strict:
        try:
            read = read_questions(
                run.predictor.graph, questions, {}, run.predictor.run.import_options
            )
        except DataError as error:
            raise invalid(str(error)) from error
        read = refuse_unranked(read, run.predictor.run.questions, intervals=True)
        return [tuple(row) for row in read.ids.tolist()], read.errors.texts.to_pylist()
    facts = []
    for index, parts in enumerate(questions):
        place = Place("questions", index)
        if parts.count(None) != 1:
            raise invalid(ONE_MISSING, place)
        facts.append(run.browser.fact_ids(parts, place))
    return facts, [None] * len(facts)


def _answer_all(run: ServedRun, options: AnswerOptions, facts: Sequence[Fact]) -> list[Completion]:
    """The answers to some questions; those for entities are scored and ranked together."""
    scenario, top, new = run.predictor.scenario, options.top, options.new
    rows = [row for row, fact in enumerate(facts) if asked_part(fact) == "entity"]
    together = [facts[row] for row in rows]
    rankings: dict[int, Ranking] = {}
    if together:
        scores = scenario.model.scores(scenario.queries(together))
        tops, leave_out = [top] * len(rows), [new] * len(rows)
        found = rank_questions(scenario, together, scores, tops, leave_out)
        rankings = dict(zip(rows, found, strict=True))
    completions = []
    for row, fact in enumerate(facts):
        if _asks_interval(scenario, fact):
            completions.append(complete_interval(scenario, fact, top, options.evidence))
            continue
        ranking = rankings.get(row) or rank_candidates(
            scenario, fact, score_candidates(scenario, fact), top, new=new
        )
        completions.append(name_and_explain(scenario, ranking, options.evidence))
    return completions


async def explain(run: ServedRun, request: EvidenceRequest, client: str) -> EvidenceResponse:
    """The train facts behind a fact, as the answer for one of its parts."""
    if request.asked == "time" and run.predictor.timeline.has_intervals:
        raise invalid(
            "the answers to a missing time are intervals, and their evidence comes with them; ask "
            "for completions with evidence"
        )
    # Steps of the data alone are answers to a missing time.
    scenario, fact = await _locate(run, request.parts, client, ahead=request.asked != "time")
    part = COLUMNS.index(request.asked)
    question: Fact = (*fact[:part], -1, *fact[part + 1 :])  # type: ignore[assignment]
    await prepare(run, question)

    def find_evidence() -> Completion:
        scores = score_candidates(scenario, question)
        ranking = rank_candidates(scenario, question, scores, 1, candidate=fact[part])
        return name_and_explain(scenario, ranking, request.most)

    completion = await run.work(find_evidence, client)
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
