"""Answers of a served run to many questions in one request."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from tempograph.errors import DataError
from tempograph.prediction.candidate_ranking import (
    Ranking,
    asked_part,
    rank_candidates,
    rank_questions,
)
from tempograph.prediction.completion import name_answers, score_candidates
from tempograph.prediction.questions import read_questions, refuse_unranked
from tempograph.prediction.scenario import Fact
from tempograph.server.completions import (
    NEW_INTERVALS,
    ONE_MISSING,
    answer_interval,
    asks_interval,
    check_options,
    name_ranking,
    prepare,
)
from tempograph.server.entity_questions import EntityAnswer
from tempograph.server.problems import Place, invalid
from tempograph.server.schema.request_models import AnswerOptions, BatchCompletionRequest
from tempograph.server.schema.response_models import BatchResult
from tempograph.server.served_run import ServedRun

_MAX_ANSWERS: Final = 100_000
"""Answers to all questions of a batch."""


async def complete_batch(
    run: ServedRun, request: BatchCompletionRequest, client: str
) -> list[BatchResult]:
    """The best answers to each of many questions, in their order."""
    check_options(run, request)
    if len(request.questions) * request.top > _MAX_ANSWERS:
        raise invalid(
            f"a batch has at most {_MAX_ANSWERS:,} answers, found {len(request.questions):,} "
            f"questions with {request.top:,} each; send several"
        )
    facts, errors = await run.look_up(lambda: _read_questions(run, request))
    if request.new:
        for row, fact in enumerate(facts):
            if errors[row] is None and asks_interval(run.predictor.scenario, fact):
                if request.strict:
                    raise invalid(NEW_INTERVALS, Place("questions", row))
                errors[row] = NEW_INTERVALS
    # Questions at one time share its encoding.
    order = sorted((row for row in range(len(facts)) if not errors[row]), key=lambda r: facts[r][3])
    for fact in {asked_part(facts[row]): facts[row] for row in order}.values():
        await prepare(run, fact)
    scenario = run.predictor.scenario
    others = [row for row in order if not asks_interval(scenario, facts[row])]
    answer, size = partial(_answer_all, run, request), run.batcher.max_questions
    found = await run.in_units([facts[row] for row in others], answer, size, client)
    completions = {
        row: await name_ranking(run, scenario, each, request.evidence, client, admitted=True)
        for row, each in zip(others, found, strict=True)
    }
    for row in order:
        if row not in completions:
            completions[row] = await answer_interval(
                run, facts[row], request, client, admitted=bool(completions)
            )
    return [
        BatchResult(completion=completions.get(row), error=error)
        for row, error in enumerate(errors)
    ]


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


def _answer_all(
    run: ServedRun, options: AnswerOptions, facts: Sequence[Fact]
) -> list[EntityAnswer]:
    """The best candidates for some questions; those for entities are ranked together.

    They are named at once, unless they need evidence, which takes longer.
    """
    scenario, top, new = run.predictor.scenario, options.top, options.new
    rows = [row for row, fact in enumerate(facts) if asked_part(fact) == "entity"]
    together = [facts[row] for row in rows]
    rankings: dict[int, Ranking] = {}
    if together:
        scores = scenario.model.scores(scenario.queries(together))
        tops, leave_out = [top] * len(rows), [new] * len(rows)
        found = rank_questions(scenario, together, scores, tops, leave_out)
        rankings = dict(zip(rows, found, strict=True))
    answers = []
    for row, fact in enumerate(facts):
        ranking = rankings.get(row) or rank_candidates(
            scenario, fact, score_candidates(scenario, fact), top, new=new
        )
        named = None if options.evidence else name_answers(scenario, ranking, None, 0)
        answers.append(EntityAnswer(ranking, named))
    return answers
